public import KithIdentity
public import KithWire

/// The reachability of other devices: diagnosis and measurement.
public enum Reach {
    /// The result of a step of an examination.
    @nonexhaustive
    public enum Outcome: String, Codable, Hashable, Sendable, CaseIterable {
        /// Everything is as it should be.
        case ok
        /// It works, with something to know.
        case warning
        /// It does not work.
        case failure
    }

    /// One step of an examination.
    public struct Step: StreamMessage, Hashable {
        /// The thing examined.
        public var subject: String
        /// The result.
        public var outcome: Outcome
        /// The finding, in a sentence.
        public var finding: String
        /// The remedy, in a sentence; `nil` when there is nothing to do.
        public var remedy: String?
        /// The facts, with the step `network`.
        public var network: Network?
        /// The transport to the relay that was examined, `quic` or `tcp`; `nil` without one.
        public var carrier: String?

        /// Makes a step.
        public init(
            _ subject: String, _ outcome: Outcome, _ finding: String, remedy: String? = nil, network: Network? = nil
        ) {
            self.subject = subject
            self.outcome = outcome
            self.finding = finding
            self.remedy = remedy
            self.network = network
        }
    }

    /// Examines this device's network, and the way to one other device.
    public enum Examine: StreamMethod {
        /// The input: the device to reach.
        public struct Input: Codable, Hashable, Sendable {
            /// The other device; `nil` examines this one alone.
            public var device: String?
            /// True to examine the networks alone: relays, NAT, router; `nil` is false.
            public var network: Bool?

            /// Makes the input.
            public init(device: String?, network: Bool? = nil) {
                self.device = device
                self.network = network
            }
        }

        /// The answer: nothing; a message for each ``Step`` follows.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "reach.examine", by: .owner, isIdempotent: true,
            "Examines step by step whether a device can be reached, and why not.")
        /// Nothing.
        public typealias Upstream = Nothing
        /// The steps, each when it is done.
        public typealias Downstream = Step
    }

    /// A way by which devices are reached.
    @nonexhaustive
    public enum Path: String, Codable, Hashable, Sendable, CaseIterable {
        /// Through a relay first, directly as soon as that works.
        case auto
        /// Directly; a relay only to meet.
        case direct
        /// Through a relay alone: this device's addresses stay unknown to the other.
        case relay
        /// On the local network alone: nothing is sent outside.
        case local
    }

    /// Sets the way by which a device is reached, or all that have none of their own.
    public enum Prefer: Method {
        /// The input: the device and the way.
        public struct Input: Codable, Hashable, Sendable {
            /// The device, as ``Devices/Reference/device``; `nil` for all that have no way of their own.
            public var device: String?
            /// The way; `nil` changes nothing.
            public var path: Path?

            /// Makes the input.
            public init(device: String? = nil, path: Path? = nil) {
                self.device = device
                self.path = path
            }
        }

        /// The answer: the ways that hold now.
        public struct Output: Codable, Hashable, Sendable {
            /// The way for devices without one of their own.
            public var general: Path
            /// The devices with one of their own, by their names.
            public var devices: [String: Path]
            /// The name of the device that was asked about; `nil` when none was.
            public var device: String?

            /// Makes the answer.
            public init(general: Path, devices: [String: Path], device: String? = nil) {
                self.general = general
                self.devices = devices
                self.device = device
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "reach.prefer", by: .owner, isIdempotent: true,
            "Sets, or tells, the way by which devices are reached: auto, direct, relay or local.")
    }

    /// Has a device be reached one way, for as long as the stream is open.
    public enum Hold: StreamMethod {
        /// The input: the device and the way.
        public struct Input: Codable, Hashable, Sendable {
            /// The device, as ``Devices/Reference/device``.
            public var device: String
            /// The way.
            public var path: Path

            /// Makes the input.
            public init(device: String, path: Path) {
                self.device = device
                self.path = path
            }
        }

        /// The answer, once it is reached that way: its address, or the URL of the relay.
        public struct Output: Codable, Hashable, Sendable {
            /// The address, or the URL of the relay.
            public var path: String

            /// Makes the answer.
            public init(path: String) { self.path = path }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "reach.hold", by: .owner, "Has a device be reached one way, as long as the stream is open.")
        /// Nothing; its end ends it.
        public typealias Upstream = Nothing
        /// Nothing.
        public typealias Downstream = Nothing
    }

    /// The description of its software that a device sends to another when they meet.
    public struct Hello: Codable, Hashable, Sendable {
        /// The version of the software, for people.
        public var version: String
        /// The version of the header with which streams between devices begin.
        public var `protocol`: Int
        /// Its capabilities: words that `Documentation/Evolution.md` lists.
        public var capabilities: [String]

        /// Makes a greeting.
        public init(version: String, protocol: Int, capabilities: [String]) {
            self.version = version
            self.protocol = `protocol`
            self.capabilities = capabilities
        }

        /// Returns the greeting of this version.
        package static func own(version: String) -> Hello {
            Hello(
                version: version, protocol: Int(StreamHeader.version),
                capabilities: ["error-detail", "input-defaults", "openrpc", streamErrors])
        }

        /// The capability of a device that takes ``Failed``.
        package static let streamErrors = "stream-errors"

        /// The same, cut to 64 words of 64 bytes, because it comes from elsewhere.
        package var bounded: Hello {
            Hello(
                version: version.prefix(bytes: 64), protocol: `protocol`,
                capabilities: capabilities.prefix(64).map { $0.prefix(bytes: 64) })
        }
    }

    /// Tells a paired device its grants, this device's addresses, its time and its version.
    ///
    /// The other end will look for a device at the addresses it gives once their connection is gone.
    public enum Standing: Method {
        /// The input: the caller, as it describes itself.
        public struct Input: Codable, Hashable, Sendable {
            /// The addresses it listens on now, at most `Ticket.maxAddresses`; `nil` when it does not listen, or does
            /// not say.
            public var addresses: [NetworkAddress]?
            /// Its software; `nil` from a version that does not say.
            public var hello: Hello?

            /// Makes the input.
            public init(addresses: [NetworkAddress]? = nil, hello: Hello? = nil) {
                self.addresses = addresses
                self.hello = hello
            }
        }

        /// The answer: the caller's grants, and this device.
        public struct Output: Codable, Hashable, Sendable {
            /// The grants the caller has here.
            public var grants: [Grant]
            /// The version of the software.
            public var version: String
            /// The time, in milliseconds since 1970.
            public var time: Int64
            /// The addresses this device listens on now; `nil` when it does not listen, or does not say.
            public var addresses: [NetworkAddress]?
            /// The software of this device; `nil` from one that gives its version only.
            public var hello: Hello?

            /// Makes an answer.
            public init(
                grants: [Grant], version: String, time: Int64, addresses: [NetworkAddress]? = nil, hello: Hello? = nil
            ) {
                self.grants = grants
                self.version = version
                self.time = time
                self.addresses = addresses
                self.hello = hello
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "reach.standing", by: .paired, "Tells the caller its grants on this device.")
    }

    /// Tells a device why a stream that it opened failed after it was accepted, before the stream is reset with the code.
    public enum Failed: Method {
        /// The stream, and the error.
        public struct Input: Codable, Hashable, Sendable {
            /// An application's own description of its failure.
            public struct Detail: Codable, Hashable, Sendable {
                /// Its code.
                public var code: String
                /// More, as CBOR.
                public var data: ByteString?

                /// Makes a description.
                public init(code: String, data: ByteString? = nil) {
                    self.code = code
                    self.data = data
                }
            }

            /// The number of the stream on the connection that carries the call (RFC 9000 §2.1).
            public var stream: UInt64
            /// The kind of failure, with which the stream is reset.
            public var code: KithError.Code
            /// One sentence for a person, at most 4 KiB.
            public var message: String
            /// The failed application's own description.
            public var detail: Detail?

            /// Makes the input.
            public init(stream: UInt64, code: KithError.Code, message: String, detail: Detail? = nil) {
                self.stream = stream
                self.code = code
                self.message = message
                self.detail = detail
            }

            /// Says it of a stream; what lay beneath the error stays here.
            package init(stream: UInt64, _ error: KithError) {
                self.init(
                    stream: stream, code: error.code, message: error.message.prefix(bytes: ResponseHead.messageLimit),
                    detail: error.detail.map { Detail(code: $0.code, data: $0.data.map { ByteString($0) }) })
            }

            /// The error, with no more than may be carried.
            package var error: KithError {
                KithError(
                    code, message.prefix(bytes: ResponseHead.messageLimit),
                    detail: detail.flatMap { KithError.Detail(code: $0.code, cbor: $0.data?.bytes) })
            }
        }

        /// Nothing.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "reach.failed", by: .paired, "Takes why a stream of the caller's other end failed.")
    }

    /// The state of the connection to a device.
    public struct Link: Codable, Hashable, Sendable {
        /// The other end's address; `nil` while packets go through a relay.
        public var path: NetworkAddress?
        /// The URL of that relay.
        public var relay: String?
        /// The smoothed round trip, in milliseconds.
        public var roundTripMilliseconds: Double
        /// The shortest round trip seen, in milliseconds.
        public var minimumRoundTripMilliseconds: Double
        /// Bytes that may be under way at once.
        public var congestionWindow: Int
        /// The largest UDP payload the path is known to carry, in bytes.
        public var udpPayloadSize: Int
        /// QUIC packets sent.
        public var packetsSent: UInt64
        /// The number of them declared lost.
        public var packetsLost: UInt64
        /// The cipher suite that protects the packets.
        public var cipherSuite: String?

        /// Makes a description.
        public init(
            path: NetworkAddress?, relay: String? = nil, roundTripMilliseconds: Double,
            minimumRoundTripMilliseconds: Double, congestionWindow: Int, udpPayloadSize: Int, packetsSent: UInt64,
            packetsLost: UInt64, cipherSuite: String?
        ) {
            self.path = path
            self.relay = relay
            self.roundTripMilliseconds = roundTripMilliseconds
            self.minimumRoundTripMilliseconds = minimumRoundTripMilliseconds
            self.congestionWindow = congestionWindow
            self.udpPayloadSize = udpPayloadSize
            self.packetsSent = packetsSent
            self.packetsLost = packetsLost
            self.cipherSuite = cipherSuite
        }
    }

    /// The direction in which bytes flow.
    @frozen
    public enum Direction: String, Codable, Hashable, Sendable, CaseIterable {
        /// From the caller to the device asked.
        case up
        /// From the device asked to the caller.
        case down
    }

    /// Sends or receives meaningless bytes for a while, to measure the throughput.
    ///
    /// A device with any grant may ask for it, one at a time. Down, the stream carries bytes until the time is over; up,
    /// the other end answers the caller's end with the number of bytes that came, as 8 bytes, big-endian.
    public enum Load: StreamMethod {
        /// The input: the direction and the duration.
        public struct Input: Codable, Hashable, Sendable {
            /// The direction.
            public var direction: Direction
            /// The duration, in milliseconds, 1…``Load/longest``.
            public var milliseconds: Int

            /// Makes the input.
            public init(direction: Direction, milliseconds: Int) {
                self.direction = direction
                self.milliseconds = milliseconds
            }
        }

        /// The longest measurement, in milliseconds.
        public static let longest = 30_000
        /// The most bytes of one measurement.
        public static let mostBytes: UInt64 = 64 << 30

        /// The answer: nothing.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "reach.load", by: .paired, isIdempotent: true,
            "Sends or receives bytes for a while, to measure the throughput.")
        /// The bytes that load the link, with ``Direction/up``; otherwise none.
        public typealias Upstream = RawBytes
        /// The bytes that load the link, with ``Direction/down``; otherwise the number of bytes that came, 8 bytes big endian.
        public typealias Downstream = RawBytes
    }

    /// Measures the connection to a device: latency, throughput both ways, loss.
    public enum Measure: StreamMethod {
        /// The input: the device, and the extent of the measurement.
        public struct Input: Codable, Hashable, Sendable {
            /// The device.
            public var device: String
            /// The time for which each direction is loaded, in milliseconds, 100…``Load/longest``.
            public var milliseconds: Int
            /// The number of small requests to time, 1…10,000.
            public var requests: Int

            /// Makes the input.
            public init(device: String, milliseconds: Int, requests: Int) {
                self.device = device
                self.milliseconds = milliseconds
                self.requests = requests
            }
        }

        /// The measurements so far: each message has more of them, the last one has them all.
        public struct Report: StreamMessage, Hashable {
            /// The measurement under way: `latency`, `down`, `up`; or `done`, or `failed`.
            public var phase: String
            /// The progress of this phase, 0…1.
            public var progress: Double
            /// The time of each small request, in milliseconds, ascending; empty until the phase is `done`.
            public var latencies: [Double]
            /// Bytes per second that came from the device, so far.
            public var down: Double?
            /// Bytes per second that reached the device, so far.
            public var up: Double?
            /// The state of the connection, with the packets of this measurement only.
            public var link: Link?
            /// The code of the error that ended it, when it failed.
            public var code: KithError.Code?
            /// The same in a sentence.
            public var message: String?

            /// Makes a report.
            public init(
                phase: String, progress: Double, latencies: [Double] = [], down: Double? = nil, up: Double? = nil,
                link: Link? = nil, code: KithError.Code? = nil, message: String? = nil
            ) {
                self.code = code
                self.message = message
                self.phase = phase
                self.progress = progress
                self.latencies = latencies
                self.down = down
                self.up = up
                self.link = link
            }
        }

        /// The answer: nothing; a message for each ``Report`` follows.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "reach.measure", by: .owner, isIdempotent: true,
            "Measures the connection to a device: latency, throughput, loss.")
        /// Nothing.
        public typealias Upstream = Nothing
        /// The measurements.
        public typealias Downstream = Report
    }
}

extension Reach.Standing.Input: OmissibleInput {
    /// No addresses, and no software.
    public static var usual: Self { Self() }
    /// Nothing.
    public static var required: Set<String> { [] }
}
