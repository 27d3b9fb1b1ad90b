import KithWire

// Forwards that this device keeps up for its own person.

extension Forward {
    /// A forward: the place it listens at, and its destination.
    public struct Rule: Codable, Hashable, Sendable {
        /// The direction of a forward.
        @frozen
        public enum Direction: String, Hashable, Sendable, Codable, CaseIterable {
            /// This device listens, the other connects (`-L`, and `-D` without a target).
            case local
            /// The other device listens, this one connects (`-R`).
            case remote
        }

        /// The direction.
        public var direction: Direction
        /// The kind of traffic that is carried.
        public var transport: Transport
        /// The endpoint to listen at.
        public var listen: Endpoint
        /// The destination; `nil`: each connection names its own, by SOCKS5 or as to an HTTP proxy.
        public var target: Endpoint?
        /// The credentials a connection needs to name its own, as `user:password`; `nil`: none.
        public var credentials: String?

        /// Makes a rule.
        public init(
            _ direction: Direction, transport: Transport = .tcp, listen: Endpoint, target: Endpoint?,
            credentials: String? = nil
        ) {
            self.direction = direction
            self.transport = transport
            self.listen = listen
            self.target = target
            self.credentials = credentials
        }
    }

    /// Several rules for one device.
    public struct Plan: Codable, Hashable, Sendable {
        /// The other device.
        public var device: String
        /// The rules, at most 64.
        public var rules: [Rule]
        /// True to set them up again whenever this device comes up, until ``Stop``; `nil` is false.
        public var isKept: Bool?

        /// Makes a plan.
        public init(device: String, rules: [Rule], isKept: Bool? = nil) {
            self.device = device
            self.rules = rules
            self.isKept = isKept
        }
    }

    /// The state of a rule.
    public struct Status: Codable, Hashable, Sendable {
        /// The rule; its credentials are left out.
        public var rule: Rule
        /// The endpoints it listens at now; empty while the other device, which is to listen, cannot be reached.
        public var listening: [Endpoint]
        /// Connections now, or peers of datagrams.
        public var open: Int
        /// Connections so far.
        public var total: UInt64
        /// The number of them that could not be opened.
        public var failed: UInt64
        /// Bytes carried from the listening end to the target.
        public var sent: UInt64
        /// Bytes carried back.
        public var received: UInt64
        /// The reason the last failed connection could not be opened; `nil` when none failed.
        public var lastFailure: String?

        /// Makes a status.
        public init(
            rule: Rule, listening: [Endpoint] = [], open: Int = 0, total: UInt64 = 0, failed: UInt64 = 0,
            sent: UInt64 = 0, received: UInt64 = 0, lastFailure: String? = nil
        ) {
            self.rule = rule
            self.listening = listening
            self.open = open
            self.total = total
            self.failed = failed
            self.sent = sent
            self.received = received
            self.lastFailure = lastFailure
        }
    }

    /// Rules that are kept up together.
    public struct Running: StreamMessage, Hashable {
        /// The number by which ``Stop`` names them.
        public var id: UInt64
        /// The other device.
        public var device: String
        /// True when they end with the program that asked for them.
        public var isAttached: Bool
        /// True when they are set up again whenever this device comes up; `nil` is false.
        public var isKept: Bool?
        /// The state of each.
        public var rules: [Status]

        /// Makes an entry.
        public init(id: UInt64, device: String, isAttached: Bool, isKept: Bool? = nil, rules: [Status]) {
            self.id = id
            self.device = device
            self.isAttached = isAttached
            self.isKept = isKept
            self.rules = rules
        }
    }

    /// Something another device does here.
    public struct Inbound: Codable, Hashable, Sendable {
        /// The device.
        public var device: String
        /// The method it called.
        public var method: String
        /// The endpoint it connected to, or listens at.
        public var endpoint: String
        /// Bytes the device sent.
        public var sent: UInt64
        /// Bytes it got.
        public var received: UInt64
        /// The time since it began, in seconds.
        public var seconds: UInt64

        /// Makes an entry.
        public init(device: String, method: String, endpoint: String, sent: UInt64, received: UInt64, seconds: UInt64) {
            self.device = device
            self.method = method
            self.endpoint = endpoint
            self.sent = sent
            self.received = received
            self.seconds = seconds
        }

        // The wire's names, which are older.
        private enum CodingKeys: String, CodingKey {
            case device, method
            case endpoint = "place"
            case sent, received, seconds
        }
    }

    /// Keeps rules up for as long as the stream lasts; the stream reports their state.
    ///
    /// At most one message a second, when something has changed.
    public enum Run: StreamMethod {
        /// The rules.
        public typealias Input = Plan
        /// The state at the beginning: every listener listens.
        public typealias Output = Running
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "forward.run", by: .owner, "Forwards until the caller closes the stream.")
        /// Nothing.
        public typealias Upstream = Nothing
        /// The state, when it has changed.
        public typealias Downstream = Running
    }

    /// Keeps rules up until ``Stop``, or this device stops.
    public enum Start: Method {
        /// The rules.
        public typealias Input = Plan
        /// The state at the beginning: every listener listens.
        public typealias Output = Running
        /// The stable name on every wire.
        public static let header = MethodHeader.action("forward.start", by: .owner, "Starts forwarding.")
    }

    /// Ends what ``Start`` or ``Run`` began, with every connection.
    public enum Stop: Method {
        /// The input: the rules to end.
        public struct Input: Codable, Hashable, Sendable {
            /// The number of the rules, ``Running/id``.
            public var id: UInt64

            /// Makes the input.
            public init(id: UInt64) { self.id = id }
        }

        /// The state at the end.
        public typealias Output = Running
        /// The stable name on every wire.
        public static let header = MethodHeader.action("forward.stop", by: .owner, "Ends a forward.")
    }

    /// Lists what is forwarded now, for this device's person and for other devices.
    public enum List: Method {
        /// The answer: everything that is forwarded.
        public struct Output: Codable, Hashable, Sendable {
            /// The forwards of this device's person, in the order they began.
            public var running: [Running]
            /// The forwards of other devices, the longest first.
            public var inbound: [Inbound]

            /// Makes a list.
            public init(running: [Running], inbound: [Inbound]) {
                self.running = running
                self.inbound = inbound
            }
        }

        /// The input: nothing.
        public typealias Input = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.query("forward.list", by: .owner, "Lists what is forwarded now.")
    }
}
