/// The table of methods, describing itself.
public enum API {
    /// The version of the format of these descriptions.
    public static let version = 1

    /// Lists the methods this device serves.
    public enum Describe: Method {
        /// The table, in the order of the names.
        public struct Output: Codable, Hashable, Sendable {
            /// The version of the format of this description.
            public var version: Int
            /// Every method served.
            public var methods: [Entry]

            /// Makes a description.
            public init(version: Int = API.version, methods: [Entry]) {
                self.version = version
                self.methods = methods
            }
        }

        /// One method.
        public struct Entry: Codable, Hashable, Sendable {
            /// The stable name on every wire.
            public var name: String
            /// The kind of call it takes.
            public var kind: MethodKind
            /// One line for a person.
            public var summary: String
            /// For a stream, the form of what the caller sends; `nil` for other methods.
            public var upstream: StreamForm?
            /// For a stream, the form of what the service sends; `nil` for other methods.
            public var downstream: StreamForm?
            /// The service that another process serves it with; `nil` of the device's own.
            public var service: String?

            /// Makes an entry.
            public init(
                name: String, kind: MethodKind, summary: String, upstream: StreamForm? = nil,
                downstream: StreamForm? = nil, service: String? = nil
            ) {
                self.name = name
                self.kind = kind
                self.summary = summary
                self.upstream = upstream
                self.downstream = downstream
                self.service = service
            }
        }

        /// The input: nothing.
        public typealias Input = Nothing
        /// Any paired device may ask.
        public static let header = MethodHeader.query(
            "api.describe", by: .paired, "Lists the methods this device serves.")
    }

    /// Describes the methods this device serves, with the schemas of their inputs and outputs.
    public enum Document: Method {
        /// The input: the methods to describe.
        public struct Input: Codable, Hashable, Sendable {
            /// The only method to describe; `nil` for all.
            public var method: String?

            /// Makes the input.
            public init(method: String? = nil) { self.method = method }
        }

        /// The description.
        public typealias Output = OpenRPC
        /// Any paired device may ask.
        public static let header = MethodHeader.query(
            "api.openrpc", by: .paired, "Describes the methods this device serves, as an OpenRPC document.")
    }
}
