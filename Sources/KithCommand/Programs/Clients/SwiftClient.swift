// swift-format-ignore-file
import KithAPI

/// Writes a client in Swift, with Foundation only, for programs outside this package.
struct SwiftClient {
    let model: ClientModel

    var source: String {
        var text = """
            // Written by `kith api generate swift` for version \(model.version) of the table; write it anew, do not edit it.
            //
            // A client of Kith: every method of a device, typed, over the socket in its data directory.
            //
            //     let kith = try await KithClient.connect(directory: "/home/ana/.local/share/kith")
            //     for location in try await kith.locations.list().locations { print(location.name) }
            //     for try await difference in try await kith.search.follow(query: "ext:pdf") { print(difference.found) }
            //
            // Each call takes the name of another device (`on`) and a limit (`timeout`); cancelling its task cancels it.

            import Foundation

            #if canImport(Glibc)
            @preconcurrency import Glibc
            #elseif canImport(Musl)
            @preconcurrency import Musl
            #elseif canImport(Darwin)
            import Darwin
            #endif


            """
        text += Self.runtime + "\n\n"
        text += "extension KithError {\n    /// The codes by their numbers in an answer.\n    static let codes: [Int: String] = [\n"
        text += model.errors.map { "        \($0.code): \"\($0.name)\",\n" }.joined() + "    ]\n}\n\n"
        text += "// MARK: - Types\n"
        for definition in model.definitions { text += "\n" + self.definition(definition) }
        text += "\n// MARK: - Methods\n\nextension KithClient {\n"
        for (name, _) in model.namespaces {
            text += "    /// The methods named `\(name.asComment).…`.\n"
            text += "    public var \(SwiftWord.escaped(SwiftWord.camel(name))): \(name.asTypeName)Namespace { \(name.asTypeName)Namespace(client: self) }\n"
        }
        text += "}\n"
        for (name, methods) in model.namespaces {
            text += "\n/// The methods named `\(name.asComment).…`.\npublic struct \(name.asTypeName)Namespace: Sendable {\n"
            text += "    let client: KithClient\n"
            for method in methods { text += "\n" + self.method(method).indented(4) }
            text += "}\n"
        }
        return text
    }

    /// A type of ours by its name: none of them is to hide one of the standard library.
    private func typeName(_ name: String) -> String { "Kith" + name.asTypeName }

    private func form(_ form: ClientModel.Form) -> String {
        switch form {
        case .any, .null, .oneOf, .object: "KithJSON"
        case .boolean: "Bool"
        case .integer: "Int64"
        case .number: "Double"
        case .text, .words: "String"
        case .bytes: "Data"
        case .list(let element): "[\(self.form(element))]"
        case .dictionary(let value): "[String: \(self.form(value))]"
        case .named(let name): typeName(name)
        }
    }

    private func definition(_ definition: ClientModel.Definition) -> String {
        let name = typeName(definition.name)
        let comment = "/// \((definition.description ?? "`\(definition.name)`.").asComment)\n"
        switch definition.form {
        case .object(let members): return comment + structure(name, members)
        case .words(let words):
            // One that a later version adds can be read all the same.
            var text = comment
            text += "public struct \(name): RawRepresentable, Codable, Hashable, Sendable {\n    public var rawValue: String\n"
            text += "    public init(rawValue: String) { self.rawValue = rawValue }\n"
            for word in words {
                text += "    public static let \(SwiftWord.escaped(SwiftWord.camel(word))) = \(name)(rawValue: \"\(word)\")\n"
            }
            return text + "}\n"
        case .oneOf(let forms):
            // Objects of one member each are one that has one of them.
            var members: [ClientModel.Member] = []
            for form in forms {
                guard case .object(let own) = form, own.count == 1 else { return comment + "public typealias \(name) = KithJSON\n" }
                members.append(
                    ClientModel.Member(
                        name: own[0].name, form: own[0].form, isRequired: false, description: own[0].description))
            }
            return comment + structure(name, members)
        case .named(let other) where other == definition.name: return comment + "public typealias \(name) = KithJSON\n"
        default: return comment + "public typealias \(name) = \(form(definition.form))\n"
        }
    }

    private func structure(_ name: String, _ members: [ClientModel.Member]) -> String {
        func word(_ member: ClientModel.Member) -> String { SwiftWord.escaped(SwiftWord.camel(member.name)) }
        var text = "public struct \(name): Codable, Hashable, Sendable {\n"
        for member in members {
            if let description = member.description { text += "    /// \(description.asComment)\n" }
            text += "    public var \(word(member)): \(form(member.form))\(member.isRequired ? "" : "?")\n"
        }
        let parameters = members.map { "\(word($0)): \(form($0.form))\($0.isRequired ? "" : "? = nil")" }
        text += "\n    public init(\(parameters.joined(separator: ", "))) {\n"
        for member in members { text += "        self.\(word(member)) = \(word(member))\n" }
        text += "    }\n"
        if members.contains(where: { SwiftWord.camel($0.name) != $0.name }) {
            text += "\n    private enum CodingKeys: String, CodingKey {\n"
            for member in members { text += "        case \(word(member)) = \"\(member.name)\"\n" }
            text += "    }\n"
        }
        return text + "}\n"
    }

    private func method(_ method: ClientModel.Method) -> String {
        var (parameters, body) = ([String](), "")
        if let input = method.input {
            parameters = ["_ input: \(form(input))"]
            body = "let params = try KithJSON(encoding: input)\n"
        } else {
            body = "\(method.members.isEmpty ? "let" : "var") members: [String: KithJSON] = [:]\n"
            for member in method.ordered {
                let name = SwiftWord.escaped(SwiftWord.camel(member.name))
                parameters.append("\(name): \(form(member.form))\(member.isRequired ? "" : "? = nil")")
                let set = "members[\"\(member.name)\"] = try KithJSON(encoding: \(name))"
                body += member.isRequired ? set + "\n" : "if let \(name) { \(set) }\n"
            }
            body += "let params = KithJSON.object(members)\n"
        }
        parameters += ["on otherDevice: String? = nil", "timeout callTimeout: Duration? = nil"]
        let output = form(method.output)
        let (verb, answer): (String, String)
        if let stream = method.stream {
            (verb, answer) = ("open", "KithStream<\(way(stream.down)), \(way(stream.up)), \(output)>")
        } else {
            (verb, answer) = ("call", output)
        }
        return """
            /// \(method.summary.asComment)
            ///
            /// The method `\(method.name.asComment)`. Callers: \(method.callers.asComment).
            @discardableResult
            public func \(SwiftWord.escaped(SwiftWord.camel(method.word)))(
                \(parameters.joined(separator: ", "))
            ) async throws -> \(answer) {
            \(body.indented(4))    return try await client.\(verb)("\(method.name)", params, on: otherDevice, timeout: callTimeout)
            }

            """
    }

    private func way(_ way: ClientModel.Way) -> String {
        switch way {
        case .nothing: "KithNever"
        case .bytes: "KithBytes"
        case .messages(let form): self.form(form)
        }
    }

    /// What carries the calls.
    private static let runtime = #"""
        /// A call that failed.
        public struct KithError: Error, Sendable, CustomStringConvertible {
            /// What a caller can do about it, by name: `notFound`.
            public var code: String
            /// For a person.
            public var message: String
            /// The number in the answer.
            public var number: Int
            /// What an application adds.
            public var data: KithJSON?

            public var description: String { "\(code): \(message)" }

            init(_ number: Int, _ message: String, data: KithJSON? = nil) {
                (code, self.message, self.number, self.data) = (Self.codes[number] ?? "internal", message, number, data)
            }

            init(reading error: KithJSON) {
                guard case .object(let members) = error else {
                    self.init(-32603, "The answer makes no sense.")
                    return
                }
                var (number, message) = (0, "")
                if case .integer(let value)? = members["code"] { number = Int(value) }
                if case .string(let text)? = members["message"] { message = text }
                self.init(number, message, data: members["data"])
            }

            static let closed = KithError(-32010, "The device has stopped.")
        }

        /// Any JSON value.
        public enum KithJSON: Codable, Hashable, Sendable, ExpressibleByStringLiteral, ExpressibleByIntegerLiteral {
            case null, boolean(Bool), integer(Int64), number(Double), string(String)
            case array([KithJSON]), object([String: KithJSON])

            public init(stringLiteral value: String) { self = .string(value) }
            public init(integerLiteral value: Int64) { self = .integer(value) }

            public init(from decoder: any Decoder) throws {
                let container = try decoder.singleValueContainer()
                if container.decodeNil() {
                    self = .null
                } else if let value = try? container.decode(Bool.self) {
                    self = .boolean(value)
                } else if let value = try? container.decode(Int64.self) {
                    self = .integer(value)
                } else if let value = try? container.decode(Double.self) {
                    self = .number(value)
                } else if let value = try? container.decode(String.self) {
                    self = .string(value)
                } else if let value = try? container.decode([KithJSON].self) {
                    self = .array(value)
                } else {
                    self = .object(try container.decode([String: KithJSON].self))
                }
            }

            public func encode(to encoder: any Encoder) throws {
                var container = encoder.singleValueContainer()
                switch self {
                case .null: try container.encodeNil()
                case .boolean(let value): try container.encode(value)
                case .integer(let value): try container.encode(value)
                case .number(let value): try container.encode(value)
                case .string(let value): try container.encode(value)
                case .array(let value): try container.encode(value)
                case .object(let value): try container.encode(value)
                }
            }

            /// Any value as JSON.
            public init(encoding value: some Encodable) throws {
                self = try JSONDecoder().decode(KithJSON.self, from: JSONEncoder().encode([value])).first
            }

            /// The value as one of a type.
            public func decode<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
                try JSONDecoder().decode([Value].self, from: JSONEncoder().encode([self]))[0]
            }

            private var first: KithJSON {
                if case .array(let values) = self, let value = values.first { return value }
                return .null
            }
        }

        /// The direction of a stream in which nothing flows.
        public struct KithNever: Codable, Hashable, Sendable {}

        /// Bytes of a stream.
        public struct KithBytes: Codable, Hashable, Sendable {
            public var data: Data
            public init(_ data: Data) { self.data = data }
        }

        /// A stream that a service has accepted; iterating gives what it sends, until it ends. Dropped, it is cancelled.
        public final class KithStream<Down: Codable & Sendable, Up: Codable & Sendable, Answer: Sendable>: AsyncSequence,
            Sendable
        {
            /// The service's answer.
            public let answer: Answer
            fileprivate let connection: KithClient
            fileprivate let id: Int64
            fileprivate let waiter: KithClient.Waiter

            fileprivate init(_ connection: KithClient, _ id: Int64, _ waiter: KithClient.Waiter, _ answer: Answer) {
                (self.connection, self.id, self.waiter, self.answer) = (connection, id, waiter, answer)
            }

            deinit { cancel() }

            public struct AsyncIterator: AsyncIteratorProtocol {
                let stream: KithStream
                public mutating func next() async throws -> Down? { try await stream.receive() }
            }

            public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(stream: self) }

            /// Waits for the next message; `nil` at the end.
            public func receive() async throws -> Down? {
                guard let (content, credit) = try await waiter.take(cancel: { [connection, id] in connection.cancel(id) })
                else { return nil }
                if credit > 0 { connection.notify("$/credit", id, ["messages": .integer(credit)]) }
                guard Down.self == KithBytes.self else { return try content.decode() }
                return KithBytes(try content.decode(Data.self)) as? Down
            }

            /// Sends one message, waiting while the other end is slow.
            public func send(_ message: Up) async throws {
                try await waiter.spend()
                if let bytes = message as? KithBytes {
                    connection.notify("$/message", id, ["bytes": .string(bytes.data.base64EncodedString())])
                } else {
                    connection.notify("$/message", id, ["message": try KithJSON(encoding: message)])
                }
            }

            /// Says that nothing more comes from here.
            public func finish() { connection.notify("$/finish", id, [:]) }

            /// Ends it; again does nothing.
            public func cancel() { if !waiter.isOver { connection.cancel(id) } }
        }

        /// A device that runs on this machine: one connection, for any number of calls at once.
        public final class KithClient: @unchecked Sendable {
            private let descriptor: Int32
            private let lock = NSLock()
            private let writing = NSLock()
            private var next: Int64 = 0
            private var waiting: [Int64: Waiter] = [:]
            private var isClosed = false

            fileprivate static let window: Int64 = 64

            /// Connects to the device that runs on `directory`.
            public static func connect(directory: String) async throws -> KithClient {
                var path = directory + "/kith.sock"
                if let other = try? String(contentsOfFile: path + ".path", encoding: .utf8) {
                    path = other.trimmingCharacters(in: .whitespacesAndNewlines)
                }
                let client = try KithClient(path: path)
                struct Hello: Decodable { var `protocol`: Int }
                let hello: Hello = try await client.call(
                    "rpc.hello", .object(["protocol": 2]), on: nil, timeout: .seconds(10))
                guard hello.protocol == 2 else {
                    client.close()
                    throw KithError(-32601, "This client is written for version 2 of the socket.")
                }
                return client
            }

            private init(path: String) throws {
                var address = sockaddr_un()
                address.sun_family = sa_family_t(AF_UNIX)
                let bytes = Array(path.utf8)
                guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else {
                    throw KithError(-32602, "\(path) is too long for a socket.")
                }
                withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
                #if canImport(Darwin)
                descriptor = socket(AF_UNIX, SOCK_STREAM, 0)
                #else
                descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
                #endif
                guard descriptor >= 0 else { throw KithError(-32008, "There are no more descriptors.") }
                let size = socklen_t(MemoryLayout<sockaddr_un>.size)
                let descriptor = descriptor
                let result = withUnsafePointer(to: &address) { pointer in
                    pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { sockaddrConnect(descriptor, $0, size) }
                }
                guard result == 0 else {
                    let number = errno
                    shut(descriptor)
                    throw KithError(-32005, "No device listens at \(path): \(String(cString: strerror(number)))")
                }
                let reader = Thread { [weak self] in Self.read(descriptor) { self?.take($0) == true } }
                reader.start()
            }

            deinit { close() }

            /// Ends the connection; calls that wait fail with `closed`.
            public func close() { _ = shutdown(descriptor, Int32(SHUT_RDWR)) }

            /// Calls a method by its name, and waits for its answer.
            public func call<Output: Decodable>(
                _ method: String, _ params: KithJSON, on device: String?, timeout: Duration?
            ) async throws -> Output {
                let (id, waiter) = try begin(method, params, device, timeout, nil)
                defer { forget(id) }
                return try await waiter.answer(cancel: { [weak self] in self?.cancel(id) }).decode()
            }

            /// Opens a stream by its method's name, and waits until the service has accepted.
            public func open<Down, Up, Answer: Decodable>(
                _ method: String, _ params: KithJSON, on device: String?, timeout: Duration?
            ) async throws -> KithStream<Down, Up, Answer> {
                let (id, waiter) = try begin(method, params, device, timeout, Self.window)
                do {
                    let answer = try await waiter.answer(cancel: { [weak self] in self?.cancel(id) })
                    return KithStream(self, id, waiter, try answer.decode())
                } catch {
                    forget(id)
                    throw error
                }
            }

            private func begin(
                _ method: String, _ params: KithJSON, _ device: String?, _ timeout: Duration?, _ credit: Int64?
            ) throws -> (Int64, Waiter) {
                let waiter = Waiter()
                let id: Int64 = try lock.withLock {
                    if isClosed { throw KithError.closed }
                    next += 1
                    waiting[next] = waiter
                    return next
                }
                var packet: [String: KithJSON] = [
                    "jsonrpc": "2.0", "id": .integer(id), "method": .string(method), "params": params,
                ]
                if let device { packet["on"] = .string(device) }
                if let timeout {
                    let (seconds, rest) = timeout.components
                    packet["timeout"] = .integer(max(1, seconds * 1_000 + rest / 1_000_000_000_000_000))
                }
                if let credit { packet["credit"] = .integer(credit) }
                send(packet)
                return (id, waiter)
            }

            private func forget(_ id: Int64) { lock.withLock { _ = waiting.removeValue(forKey: id) } }

            fileprivate func cancel(_ id: Int64) { notify("$/cancel", id, [:]) }

            fileprivate func notify(_ method: String, _ id: Int64, _ more: [String: KithJSON]) {
                send([
                    "jsonrpc": "2.0", "method": .string(method),
                    "params": .object(more.merging(["id": .integer(id)]) { $1 }),
                ])
            }

            private func send(_ packet: [String: KithJSON]) {
                // A dictionary of JSON values can be written.
                guard var line = try? JSONEncoder().encode(packet) else { return }
                line.append(10)
                writing.withLock {
                    line.withUnsafeBytes { bytes in
                        var rest = bytes[...]
                        while let start = UnsafeRawBufferPointer(rebasing: rest).baseAddress, !rest.isEmpty {
                            #if canImport(Darwin)
                            let count = Darwin.send(descriptor, start, rest.count, 0)
                            #else
                            let count = sendQuietly(descriptor, start, rest.count)
                            #endif
                            if count < 0, errno == EINTR { continue }
                            guard count > 0 else { return }  // the reader sees the end, too
                            rest = rest.dropFirst(count)
                        }
                    }
                }
            }

            private static func read(_ descriptor: Int32, _ take: (Data?) -> Bool) {
                var buffer = Data()
                var chunk = [UInt8](repeating: 0, count: 65_536)
                reading: while true {
                    let count = recv(descriptor, &chunk, chunk.count, 0)
                    if count < 0, errno == EINTR { continue }
                    guard count > 0 else { break }
                    buffer.append(contentsOf: chunk[..<count])
                    while let end = buffer.firstIndex(of: 10) {
                        let line = Data(buffer[buffer.startIndex..<end])
                        buffer = Data(buffer[(end + 1)...])
                        if !take(line) { break reading }
                    }
                }
                _ = take(nil)
                shut(descriptor)
            }

            /// Takes a line, or the end; returns false when there is no sense in reading on.
            private func take(_ line: Data?) -> Bool {
                guard let line, case .object(let packet)? = try? JSONDecoder().decode(KithJSON.self, from: line) else {
                    let all = lock.withLock {
                        isClosed = true
                        defer { waiting = [:] }
                        return waiting.values
                    }
                    for waiter in all { waiter.put(.end(.closed)) }
                    return false
                }
                guard case .string(let method)? = packet["method"] else {
                    guard case .integer(let id)? = packet["id"], let waiter = lock.withLock({ waiting[id] }) else { return true }
                    if let error = packet["error"] {
                        waiter.put(.end(KithError(reading: error)))
                    } else {
                        waiter.put(.answer(packet["result"] ?? .null))
                    }
                    return true
                }
                guard case .object(let params)? = packet["params"], case .integer(let id)? = params["id"],
                    let waiter = lock.withLock({ waiting[id] })
                else { return true }
                switch method {
                case "$/message": if let content = params["message"] ?? params["bytes"] { waiter.put(.message(content)) }
                case "$/credit": if case .integer(let count)? = params["messages"] { waiter.put(.credit(count)) }
                case "$/end":
                    forget(id)
                    waiter.put(.end(params["error"].map { KithError(reading: $0) }))
                default: break
                }
                return true
            }

            /// What comes for one call or stream.
            fileprivate final class Waiter: @unchecked Sendable {
                enum Arrival {
                    case answer(KithJSON), message(KithJSON), credit(Int64), end(KithError?)
                }

                private let lock = NSLock()
                private var given: KithJSON?
                private var messages: [KithJSON] = []
                private var credit: Int64 = 32
                private var taken: Int64 = 0
                private var end: KithError??
                private var tasks: [CheckedContinuation<Void, Never>] = []

                var isOver: Bool { lock.withLock { end != nil } }

                func put(_ arrival: Arrival) {
                    let tasks = lock.withLock {
                        switch arrival {
                        case .answer(let answer): given = answer
                        case .message(let message): messages.append(message)
                        case .credit(let count): credit += count
                        case .end(let error): end = .some(error)
                        }
                        defer { self.tasks = [] }
                        return self.tasks
                    }
                    for task in tasks { task.resume() }
                }

                /// Waits until `body` has something; cancelled, it says so to the device and waits for what that answers.
                private func wait<Result>(
                    cancel: @escaping @Sendable () -> Void, _ body: () throws -> Result?
                ) async throws -> Result {
                    try await withTaskCancellationHandler {
                        while true {
                            if let result = try lock.withLock(body) { return result }
                            await withCheckedContinuation { task in
                                lock.lock()
                                tasks.append(task)
                                // What came since is not slept through.
                                let wakes = given != nil || !messages.isEmpty || end != nil || credit > 0 && taken < 0
                                let mine = wakes ? tasks.popLast() : nil
                                lock.unlock()
                                mine?.resume()
                            }
                        }
                    } onCancel: { cancel() }
                }

                func answer(cancel: @escaping @Sendable () -> Void) async throws -> KithJSON {
                    try await wait(cancel: cancel) {
                        if let given {
                            self.given = nil
                            return given
                        }
                        if let end { throw end ?? KithError.closed }
                        return nil
                    }
                }

                /// The next message, and the credit that is due; `nil` at the end.
                func take(cancel: @escaping @Sendable () -> Void) async throws -> (KithJSON, Int64)? {
                    try await wait(cancel: cancel) { () -> (KithJSON, Int64)?? in
                        if !messages.isEmpty {
                            taken += 1
                            let due = taken >= KithClient.window / 2 ? taken : 0
                            taken -= due
                            return .some((messages.removeFirst(), due))
                        }
                        guard let end else { return nil }
                        if let error = end { throw error }
                        return .some(nil)
                    }
                }

                func spend() async throws {
                    while true {
                        let isDue: Bool = try lock.withLock {
                            if let end { throw end ?? KithError.closed }
                            if credit > 0 {
                                credit -= 1
                                return true
                            }
                            return false
                        }
                        if isDue { return }
                        await withCheckedContinuation { task in
                            let mine = lock.withLock { () -> CheckedContinuation<Void, Never>? in
                                if credit > 0 || end != nil { return task }
                                tasks.append(task)
                                return nil
                            }
                            mine?.resume()
                        }
                    }
                }
            }
        }

        private func sockaddrConnect(_ descriptor: Int32, _ address: UnsafePointer<sockaddr>, _ size: socklen_t) -> Int32 {
            connect(descriptor, address, size)
        }

        private func shut(_ descriptor: Int32) { _ = close(descriptor) }

        #if !canImport(Darwin)
        private func sendQuietly(_ descriptor: Int32, _ start: UnsafeRawPointer, _ count: Int) -> Int {
            send(descriptor, start, count, Int32(MSG_NOSIGNAL))
        }
        #endif
        """#
}
