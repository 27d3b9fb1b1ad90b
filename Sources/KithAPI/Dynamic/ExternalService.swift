import KithIdentity
package import KithRPC
import KithWire

/// A service that another process serves, at the end of a connection on which it has registered it.
///
/// Its methods are named for it: `SERVICE/METHOD`, which is their path.
package protocol ExternalService: Sendable {
    /// The name of the service.
    var name: String { get }
    /// The methods it serves.
    var methods: [DynamicMethod] { get }

    /// Has a query or an action done there.
    func call(_ call: ExternalCall) async throws -> JSONText

    /// Serves a stream by that process, until it is over.
    ///
    /// `accept` is called at most once, with what the service answers; gives the bytes.
    func serve(_ call: ExternalCall, accept: @escaping @Sendable (JSONText) async throws -> any ByteStream) async throws
}

/// A call for another process to answer.
package struct ExternalCall: Sendable {
    /// The method.
    package var method: DynamicMethod
    /// Its input.
    package var input: JSONText
    /// The device that calls; `nil` for this one's own person.
    package var caller: (id: String, name: String)?
    /// The time the caller waits, and the trace.
    package var options: CallOptions

    /// Makes a call.
    package init(
        method: DynamicMethod, input: JSONText, caller: (id: String, name: String)?, options: CallOptions
    ) {
        self.method = method
        self.input = input
        self.caller = caller
        self.options = options
    }
}

/// A service that a process registers: the parameters of `rpc.register`.
///
/// | member | what |
/// | --- | --- |
/// | `service` | its name: 1…32 of `a`…`z`, `0`…`9`, `-`, `_`, `.`, the first a letter |
/// | `methods` | 1…64 of them |
/// | `name` of one | as that of a service, up to 64 |
/// | `kind` | `query`, `action` or `stream` |
/// | `summary` | one line, at most 256 bytes |
/// | `idempotent` | whether calling it twice has the same effect as once; default `false` |
/// | `access` | `owner`, `paired`, or a grant; without it the grant `node:SERVICE/METHOD` |
/// | `input`, `output` | JSON Schemas |
/// | `upstream`, `downstream` | of a stream: `{"form", "message"}`, where `form` is `nothing`, `bytes` or `messages` |
package struct Registration: Decodable, Sendable {
    private struct Way: Decodable {
        var form: StreamForm
        var message: JSONSchema?
    }

    private struct Entry: Decodable {
        var name: String
        var kind: MethodKind
        var summary: String?
        var access: String?
        var idempotent: Bool?
        var input: JSONSchema?
        var output: JSONSchema?
        var upstream: Way?
        var downstream: Way?
    }

    private enum CodingKeys: String, CodingKey { case service, methods }

    /// The most methods one service may have.
    package static let methodLimit = 64
    /// The largest registration, in bytes.
    package static let sizeLimit = 64 << 10

    /// The name of the service.
    package let service: String
    /// The methods it serves, by their full names.
    package let methods: [DynamicMethod]

    /// Reads the parameters of a registration.
    ///
    /// - Throws: `KithError` `.invalid` for what is not one, `.exhausted` for too much.
    package init(_ params: JSONText?) throws {
        guard let params else { throw KithError(.invalid, "A registration needs `service` and `methods`.") }
        guard params.bytes.count <= Self.sizeLimit else {
            throw KithError(.exhausted, "A registration has at most \(Self.sizeLimit >> 10) KiB.")
        }
        do {
            self = try params.decode(Registration.self)
        } catch let error as KithError {
            throw error
        } catch {
            throw KithError(
                .invalid, "The registration makes no sense: \(AnyMethod.Coding.reason(error))", cause: error)
        }
    }

    /// Reads a registration, and checks it.
    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        let service = try container.decode(String.self, forKey: .service)
        guard Self.isName(service, limit: 32) else {
            throw KithError(
                .invalid, "A service's name has 1 to 32 of a-z, 0-9, “-”, “_” and “.”, and begins with a letter.")
        }
        let entries = try container.decode([Entry].self, forKey: .methods)
        guard (1...Self.methodLimit).contains(entries.count) else {
            throw KithError(
                .exhausted, "A service has 1 to \(Self.methodLimit) methods; \(service) wants \(entries.count).")
        }
        self.service = service
        methods = try entries.map { try Self.method($0, of: service) }
    }

    private static func method(_ entry: Entry, of service: String) throws -> DynamicMethod {
        guard isName(entry.name, limit: 64) else {
            throw KithError(
                .invalid, "A method's name has 1 to 64 of a-z, 0-9, “-”, “_” and “.”, and begins with a letter.")
        }
        let name = "\(service)/\(entry.name)"
        let summary = entry.summary ?? ""
        guard summary.utf8.count <= 256,
            !summary.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7F })
        else { throw KithError(.invalid, "The summary of \(name) is not one line of at most 256 bytes.") }
        func way(_ way: Way?) throws -> DynamicMethod.Way {
            guard let way else { return .nothing }
            guard entry.kind == .stream else {
                throw KithError(.invalid, "\(name) is no stream: nothing flows beside its answer.")
            }
            return DynamicMethod.Way(form: way.form, message: way.form == .messages ? way.message ?? [:] : nil)
        }
        let (callers, access) = try access(entry.access, of: name)
        return DynamicMethod(
            MethodHeader(
                name: name, kind: entry.kind, callers: callers, isIdempotent: entry.idempotent ?? false,
                summary: summary),
            access: access, input: entry.input ?? [:], output: entry.output ?? [:], upstream: try way(entry.upstream),
            downstream: try way(entry.downstream))
    }

    private static func access(_ text: String?, of name: String) throws -> (MethodHeader.Callers, Access?) {
        switch text {
        case nil: return (.grant(.node), nil)
        case "owner": return (.owner, nil)
        case "paired": return (.paired, nil)
        case let text?:
            guard let grant = Grant(text) else {
                throw KithError(
                    .invalid, "`access` of \(name) must be “owner”, “paired” or a grant, as “node:\(name)”.")
            }
            let part = grant.description.split(separator: ":", maxSplits: 1).dropFirst().first
            return (.grant(grant.kind, part.map { String($0.prefix { $0 != "=" }) }), .granted(grant))
        }
    }

    /// Tells whether a word can stand on one side of the slash.
    private static func isName(_ text: String, limit: Int) -> Bool {
        guard (1...limit).contains(text.utf8.count), let first = text.utf8.first,
            (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(first)
        else { return false }
        return text.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"),
                UInt8(ascii: "_"), UInt8(ascii: "."):
                true
            default: false
            }
        }
    }
}
