import KithAPI
import KithRPC
import KithWire

/// An operation of the reference, as a call of our methods.
struct Operation: Sendable {
    /// What it is about.
    enum Scope: Hashable, Sendable {
        /// The device: a library that is named all the same is only checked.
        case core
        /// A library, which must be named.
        case library
    }

    let kind: OperationName.Kind
    let name: String
    let scope: Scope
    let run: @Sendable (Call) async throws -> JSONValue

    /// Describes a question.
    static func query(
        _ name: String, _ scope: Scope = .library, _ run: @escaping @Sendable (Call) async throws -> JSONValue
    ) -> Operation { Operation(kind: .query, name: name, scope: scope, run: run) }

    /// Describes a change.
    static func action(
        _ name: String, _ scope: Scope = .library, _ run: @escaping @Sendable (Call) async throws -> JSONValue
    ) -> Operation { Operation(kind: .action, name: name, scope: scope, run: run) }

    /// Every operation that this device can do.
    static let all: [Operation] =
        coreOperations + libraryOperations + locationOperations + fileOperations + searchOperations + tagOperations
        + jobOperations + volumeOperations + networkOperations + mediaOperations + settingsOperations
        + upkeepOperations

    /// The same, by kind and name.
    static let table: [OperationName: Operation] = Dictionary(
        all.map { (OperationName(kind: $0.kind, plain: $0.name), $0) }, uniquingKeysWith: { $1 })
}

extension OperationName {
    /// The name of an operation of the table.
    init(kind: Kind, plain name: String) { (self.kind, self.name) = (kind, name) }
}

/// A call of an operation: what it is given, and what it may use.
struct Call: Sendable {
    /// The input.
    let input: Fields
    /// The library it is about, as text; `nil` where none is named.
    let library: CompatibleID?
    /// This device.
    let device: AdaptedDevice

    /// Calls one of our methods; of the library, where one is named.
    func call(_ method: String, _ input: [String: JSONValue] = [:], on other: String? = nil) async throws -> JSONValue {
        var input = input
        if let library, input["library"] == nil { input["library"] = .string(library.text) }
        return try await device.client.call(named: method, .object(input), on: other)
    }

    /// Opens one of our streams; of the library, where one is named.
    func open(_ method: String, _ input: [String: JSONValue] = [:]) async throws -> any NamedStream {
        var input = input
        if let library, input["library"] == nil { input["library"] = .string(library.text) }
        return try await device.client.open(named: method, .object(input))
    }

    /// What the library has of files.
    func indexedFiles() async throws -> IndexedFiles { try await IndexedFiles(of: library?.text, on: device) }

    /// The library that the call is about.
    func requiredLibrary() throws -> CompatibleID {
        guard let library else { throw KithError(.invalid, "\(input.operation): a `library_id` is needed.") }
        return library
    }

    /// Refuses members that ask for something else than what happens here.
    ///
    /// Absent ones and empty ones ask for nothing.
    ///
    /// - Parameter members: The names, what happens where a member can say it, and the reason against all else.
    /// - Throws: `KithError` `.unsupported`.
    func refuse(_ members: [(name: String, usual: JSONValue?, reason: String)]) throws {
        for (name, usual, reason) in members {
            guard let value = input.value.member(name), value != usual, !value.isNothing else { continue }
            if let usual, let number = usual.real, value.real == number { continue }
            throw KithError(.unsupported, "\(input.operation): \(reason) (`\(name)`). Nothing was done.")
        }
    }

    /// A path that must be there, of this device.
    func path(_ name: String) throws -> Files.Path {
        guard let value = input.value.member(name) else {
            throw KithError(.invalid, "\(input.operation): `\(name)` must be given.")
        }
        return try device.own(AdaptedPath(value, in: input.operation), in: input.operation)
    }

    /// The paths of a list, or of `{"paths":[…]}`; 1 to 10,000, of this device.
    func paths(_ name: String) throws -> [Files.Path] {
        let member = input.value.member(name)
        let list = member?.list ?? member?.member("paths")?.list ?? []
        guard (1...10_000).contains(list.count) else {
            throw KithError(.invalid, "\(input.operation): `\(name)` must hold 1 to 10,000 paths.")
        }
        return try list.map { try device.own(AdaptedPath($0, in: input.operation), in: input.operation) }
    }
}
