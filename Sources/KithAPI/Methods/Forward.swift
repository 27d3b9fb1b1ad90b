import KithIdentity
public import KithWire

// What one device does for another: it connects, sends datagrams, listens.

extension Forward {
    /// The outcome of opening a connection: a third party's refusal is an answer, not an error of the call.
    ///
    /// `KithError` is for failures between the devices: `.denied` without the grant, `.exhausted` at a limit.
    public struct Opening: Codable, Hashable, Sendable {
        /// The ways an opening can end.
        @nonexhaustive
        public enum Outcome: String, Hashable, Sendable, Codable, CaseIterable {
            /// The connection is open.
            case connected
            /// The host, or the Unix socket, refused it.
            case refused
            /// There is no route to the host, or no such Unix socket.
            case unreachable
            /// The name has no address.
            case notFound
            /// The host did not answer in time.
            case timedOut
        }

        /// The outcome.
        ///
        /// The stream ends at once unless it is ``Outcome/connected``.
        public var outcome: Outcome
        /// The address it leads to.
        public var address: Endpoint?
        /// The reason it is not open, for a person.
        public var message: String?

        /// Makes an answer.
        public init(outcome: Outcome, address: Endpoint? = nil, message: String? = nil) {
            self.outcome = outcome
            self.address = address
            self.message = message
        }
    }

    /// Opens a TCP connection, or one to a Unix socket, from the device and carries its bytes both ways.
    ///
    /// The stream is one of `ForwardStream` of KithForward. Each direction ends on its own: its end becomes the
    /// connection's FIN, and the reverse. An abandoned stream resets the connection, a connection that is reset abandons the
    /// stream.
    public enum Connect: StreamMethod {
        /// The input: the destination.
        public struct Input: Codable, Hashable, Sendable {
            /// The destination, as seen from the device.
            public var to: Endpoint

            /// Makes the input.
            public init(to: Endpoint) { self.to = to }
        }

        /// The outcome of the opening.
        public typealias Output = Opening
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "forward.connect", by: .grant(.forward), carrying: .bulk, "Opens a connection from the device.")
        /// The bytes the caller sends there.
        public typealias Upstream = RawBytes
        /// The bytes that come from there.
        public typealias Downstream = RawBytes
        /// The access a caller needs for this input.
        ///
        /// The grants that allow it depend on what a name stands for there.
        public static func access(for input: Input) -> Access { .holding(.forward, for: "\(input.to)") }
    }

    /// Sends and receives UDP datagrams from a port of the device's own (`DatagramFrame` of KithForward).
    ///
    /// A datagram comes back only from where one was sent to. It ends when nothing was carried for the time given.
    public enum Datagrams: StreamMethod {
        /// The input: the destination.
        public struct Input: Codable, Hashable, Sendable {
            /// The destination of all of them; `nil`: each names its own.
            public var to: Endpoint?
            /// The longest time without a datagram, 1…3600 s.
            public var idleSeconds: UInt32

            /// Makes the input.
            public init(to: Endpoint?, idleSeconds: UInt32 = 120) {
                self.to = to
                self.idleSeconds = idleSeconds
            }
        }

        /// The outcome of the opening.
        public typealias Output = Opening
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "forward.datagrams", by: .grant(.forward), "Sends and receives datagrams from the device.")
        /// Datagrams, framed as described above.
        public typealias Upstream = RawBytes
        /// Datagrams, framed likewise.
        public typealias Downstream = RawBytes
        /// The access a caller needs for this input.
        public static func access(for input: Input) -> Access {
            .holding(.forward, for: "udp \(input.to.map(\.description) ?? "to any")")
        }
    }

    /// Listens on the device for as long as the stream lasts; the stream tells of each arrival.
    ///
    /// Each must be accepted with ``Accept`` within half a minute.
    public enum Listen: StreamMethod {
        /// The input: the endpoint to listen at.
        public struct Input: Codable, Hashable, Sendable {
            /// The endpoint to listen at; a name can only be `localhost`.
            public var at: Endpoint
            /// The transport to listen for; a Unix socket takes connections only.
            public var transport: Transport

            /// Makes the input.
            public init(at: Endpoint, transport: Transport = .tcp) {
                self.at = at
                self.transport = transport
            }
        }

        /// The answer: the listener, and the endpoints it listens at.
        public struct Output: Codable, Hashable, Sendable {
            /// The token by which ``Accept`` names it.
            public var listener: ByteString
            /// The addresses, with the port the system chose if it was to.
            public var endpoints: [Endpoint]

            /// Makes an answer.
            public init(listener: ByteString, endpoints: [Endpoint]) {
                self.listener = listener
                self.endpoints = endpoints
            }

            // The wire's names, which are older.
            private enum CodingKeys: String, CodingKey {
                case listener
                case endpoints = "places"
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "forward.listen", by: .grant(.forward), "Listens on the device for the caller.")
        /// Nothing.
        public typealias Upstream = Nothing
        /// The connections that have arrived.
        public typealias Downstream = Arrival
        /// The access a caller needs for this input.
        public static func access(for input: Input) -> Access {
            .holding(.forward, for: "listen \(input.transport.rawValue) \(input.at)")
        }
    }

    /// Somebody connected to a listener, or sent it a first datagram.
    public struct Arrival: StreamMessage, Hashable {
        /// The number by which ``Accept`` names it.
        public var number: UInt64
        /// The address it comes from; `nil` for a Unix socket.
        public var from: NetworkAddress?

        /// Makes a message.
        public init(number: UInt64, from: NetworkAddress?) {
            self.number = number
            self.from = from
        }
    }

    /// Accepts what arrived at a listener of the same caller, and carries its bytes, or its datagrams, both ways.
    public enum Accept: StreamMethod {
        /// The input: the listener, and the arrival.
        public struct Input: Codable, Hashable, Sendable {
            /// The listener.
            public var listener: ByteString
            /// The arrival.
            public var number: UInt64

            /// Makes the input.
            public init(listener: ByteString, number: UInt64) {
                self.listener = listener
                self.number = number
            }
        }

        /// The service's answer.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "forward.accept", by: .grant(.forward), carrying: .bulk, "Accepts a connection that arrived at a listener.")
        /// The bytes the caller sends to it.
        public typealias Upstream = RawBytes
        /// The bytes that come from it.
        public typealias Downstream = RawBytes
        /// The access a caller needs for this input.
        public static func access(for input: Input) -> Access { .holding(.forward, for: "accept") }
    }
}
