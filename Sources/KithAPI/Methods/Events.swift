public import KithIdentity
import KithRPC
import KithWire

/// Events: messages that are published to topics, for whoever subscribes to them.
///
/// A topic is a path, `TopicPath`: `sensors/kitchen/temperature`. A subscription is to a topic or to a pattern:
/// `sensors/*/temperature`, `sensors/>`. Topics that begin with `$` are a device's own: only it publishes there, and a
/// wildcard in the first place does not stand for them.
///
/// Every event is numbered by the device it was published on. ``Event/epoch`` and ``Event/sequence`` together tell
/// whether two are the same, and those of one device arrive in their order. What a subscriber cannot be given is said:
/// ``Gap``.
public enum Events {
    /// The most bytes of one message, as CBOR: 256 KiB.
    public static let messageLimit = 256 << 10
    /// The deepest that a message may nest.
    package static let messageDepth = 24

    /// A message of any type, encoded once for everybody it goes to.
    public struct Message: Hashable, Sendable {
        /// Deterministic CBOR.
        package let bytes: [UInt8]

        /// Encodes a value.
        ///
        /// - Throws: `KithError` `.exhausted` when it is longer than ``Events/messageLimit`` or too deep; whatever the
        ///   value's own `encode(to:)` throws.
        public init(_ value: some Encodable) throws {
            let bytes = try CBOREncoder().encode(value)
            try self.init(
                checking: bytes, isShallow: CBORDecoder.holdsContainers(bytes, atMost: messageDepth))
        }

        private init(checking bytes: [UInt8], isShallow: Bool = false) throws(KithError) {
            guard bytes.count <= messageLimit else {
                throw KithError(
                    .exhausted,
                    "An event's message has at most \(messageLimit >> 10) KiB; this has \(bytes.count) bytes.")
            }
            // Each level takes a byte at the least.
            guard isShallow || bytes.count <= messageDepth || CBORDecoder.fits(bytes, maxDepth: messageDepth) else {
                throw KithError(.exhausted, "An event's message nests at most \(messageDepth) deep.")
            }
            self.bytes = bytes
        }

        /// Decodes it.
        ///
        /// - Throws: `KithError` `.invalid` when it is not of that type.
        public func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
            try CBORDecoder().decode(type, from: bytes)
        }
    }

    /// An event as it is delivered.
    public struct Event: Codable, Hashable, Sendable {
        /// The topic.
        public var topic: String
        /// The message.
        public var message: Message
        /// The device on which it was published.
        public var publisher: DeviceID
        /// The time at which the publisher began to count, in milliseconds since 1970.
        public var epoch: UInt64
        /// Its number among the publisher's events of that epoch, from 1; the numbers of one topic have holes.
        public var sequence: UInt64
        /// The time of publication by the publisher's clock, in milliseconds since 1970.
        public var time: Int64
        /// The device that published it there by calling ``Publish``; `nil`: that device's own person or services.
        public var sender: DeviceID?
        /// True when it was published before the subscription, and comes because of its look-back.
        public var isRetained: Bool

        /// Makes an event.
        public init(
            topic: String, message: Message, publisher: DeviceID, epoch: UInt64, sequence: UInt64, time: Int64,
            sender: DeviceID? = nil, isRetained: Bool = false
        ) {
            self.topic = topic
            self.message = message
            self.publisher = publisher
            self.epoch = epoch
            self.sequence = sequence
            self.time = time
            self.sender = sender
            self.isRetained = isRetained
        }
    }

    /// Events that a subscriber was not given.
    public struct Gap: Codable, Hashable, Sendable {
        /// The number of events lost, as far as it is known; `nil`: any number, perhaps none.
        public var count: UInt64?
        /// The device whose events they were; `nil`: of several.
        public var publisher: DeviceID?
        /// The reason.
        public var reason: Reason

        /// Why events are missing.
        @nonexhaustive
        public enum Reason: String, Codable, Hashable, Sendable, CaseIterable {
            /// The subscriber took them too slowly, and its buffer was full.
            case slow
            /// The connection with the publisher was lost for too long.
            case disconnected
            /// The publisher was started anew.
            case restarted
        }

        /// Makes a gap.
        public init(count: UInt64? = nil, publisher: DeviceID? = nil, reason: Reason) {
            self.count = count
            self.publisher = publisher
            self.reason = reason
        }
    }

    /// The message of an event of `$dead/TOPIC`: a guaranteed event that a device did not take.
    public struct DeadLetter: Codable, Hashable, Sendable {
        /// The topic.
        public var topic: String
        /// The message.
        public var message: Message
        /// The device that did not take it.
        public var device: DeviceID
        /// The time at which the publisher of the event began to count, in milliseconds since 1970.
        public var epoch: UInt64
        /// The number of the event in that epoch.
        public var sequence: UInt64
        /// The time of its publication, in milliseconds since 1970.
        public var time: Int64
        /// The number of times it was sent.
        public var tries: UInt64
        /// The reason for giving up.
        public var reason: Reason

        /// Why a guaranteed event was given up.
        @nonexhaustive
        public enum Reason: String, Codable, Hashable, Sendable, CaseIterable {
            /// It waited too long.
            case expired
            /// It was sent too often without being taken.
            case refused
        }

        /// Makes a dead letter.
        package init(
            topic: String, message: Message, device: DeviceID, epoch: UInt64, sequence: UInt64, time: Int64,
            tries: UInt64, reason: Reason
        ) {
            self.topic = topic
            self.message = message
            self.device = device
            self.epoch = epoch
            self.sequence = sequence
            self.time = time
            self.tries = tries
            self.reason = reason
        }
    }

    /// What a subscriber receives.
    @nonexhaustive
    public enum Delivery: StreamMessage, Hashable {
        /// An event.
        case event(Event)
        /// Events are missing here.
        case gap(Gap)
    }

    /// The publishers from which a subscription takes events.
    @frozen
    public enum Publishers: String, Codable, Hashable, Sendable, CaseIterable {
        /// This device alone.
        case here
        /// This device, and paired devices that hold the grant `node:TOPIC` here; the default.
        case granted
        /// This device, and every paired device that lets this one have its events.
        case paired
    }

    /// What becomes of the events for which a subscriber has no room.
    @frozen
    public enum Overflow: String, Codable, Hashable, Sendable, CaseIterable {
        /// The oldest that it has not taken make room; the default.
        case dropOldest
        /// New ones are dropped until it has taken some.
        case dropNewest
    }

    /// Publishes an event.
    public enum Publish: Method {
        /// The input.
        public struct Input: Codable, Hashable, Sendable {
            /// The topic.
            public var topic: String
            /// The message: any JSON value.
            public var message: Message
            /// The time, in milliseconds, for which it is kept for those who subscribe later and look back.
            public var retainMilliseconds: UInt64?
            /// True to keep it on the device.
            public var isLocal: Bool
            /// True to keep it, on disk, for each paired device that may have it, until that has acknowledged it.
            public var isGuaranteed: Bool

            /// Makes the input.
            public init(
                topic: String, message: Message, retainMilliseconds: UInt64? = nil, isLocal: Bool = false,
                isGuaranteed: Bool = false
            ) {
                self.topic = topic
                self.message = message
                self.retainMilliseconds = retainMilliseconds
                self.isLocal = isLocal
                self.isGuaranteed = isGuaranteed
            }
        }

        /// The event's number, and how far it went.
        public struct Output: Codable, Hashable, Sendable {
            /// The time at which the device began to count, in milliseconds since 1970.
            public var epoch: UInt64
            /// The event's number.
            public var sequence: UInt64
            /// The number of subscribers on that device.
            public var subscribers: UInt64
            /// The number of other devices that it goes to now.
            public var devices: UInt64

            /// Makes the output.
            public init(epoch: UInt64, sequence: UInt64, subscribers: UInt64, devices: UInt64) {
                self.epoch = epoch
                self.sequence = sequence
                self.subscribers = subscribers
                self.devices = devices
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "events.publish", by: .grant(.node, "TOPIC"), "Publishes an event to whoever subscribes to its topic.")

        /// The grant of the topic.
        public static func access(for input: Input) -> Access { Events.access(to: input.topic) }
    }

    /// Sends the events of a topic, or of those that a pattern stands for, as they are published.
    ///
    /// Another device that calls it has the events that are published on this one, and none of others.
    public enum Subscribe: StreamMethod {
        /// The input.
        public struct Input: Codable, Hashable, Sendable {
            /// The topic or the pattern.
            public var topic: String
            /// Sends retained events first that are no older than this, in milliseconds.
            public var lookBackMilliseconds: UInt64?
            /// The most retained events of one topic; the newest are sent.
            public var retainedPerTopic: UInt64
            /// The publishers whose events it takes.
            public var from: Publishers
            /// The number of events kept while the caller is slow, up to 4096.
            public var buffer: UInt64
            /// What becomes of those for which there is no room.
            public var overflow: Overflow

            /// Makes the input.
            public init(
                topic: String, lookBackMilliseconds: UInt64? = nil, retainedPerTopic: UInt64 = 16,
                from: Publishers = .granted, buffer: UInt64 = 256, overflow: Overflow = .dropOldest
            ) {
                self.topic = topic
                self.lookBackMilliseconds = lookBackMilliseconds
                self.retainedPerTopic = retainedPerTopic
                self.from = from
                self.buffer = buffer
                self.overflow = overflow
            }
        }

        /// The place at which the subscription begins.
        public struct Output: Codable, Hashable, Sendable {
            /// The time at which the device began to count, in milliseconds since 1970.
            public var epoch: UInt64
            /// The number of the last event before the subscription; 0: none.
            public var sequence: UInt64

            /// Makes the output.
            public init(epoch: UInt64, sequence: UInt64) {
                self.epoch = epoch
                self.sequence = sequence
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "events.subscribe", by: .grant(.node, "TOPIC"), isIdempotent: true,
            "Sends the events of a topic as they are published.")
        /// Nothing.
        public typealias Upstream = Nothing
        /// The events, and what is missing among them.
        public typealias Downstream = Delivery

        /// The grant of the topic, or of the pattern.
        public static func access(for input: Input) -> Access { Events.access(to: input.topic) }
    }

    /// The access to a topic or a pattern; text that is neither is refused by the service.
    private static func access(to topic: String) -> Access {
        // However it is written: the grant is compared with its own form.
        let path = try? TopicPath(topic)
        return .granted(.node(pattern: path?.grantName ?? topic))
    }
}

extension Events.Message: Codable {
    /// Reads any value.
    public init(from decoder: any Decoder) throws {
        if let decoder = decoder as? any CBORItemDecoder {
            try self.init(checking: decoder.itemBytes)
        } else {
            try self.init(UntypedValue(from: decoder))
        }
    }

    /// Writes the value.
    public func encode(to encoder: any Encoder) throws {
        if let encoder = encoder as? any CBORItemEncoder {
            encoder.encode(item: bytes)
        } else {
            try decode(UntypedValue.self).encode(to: encoder)
        }
    }
}

extension Events.Delivery: Codable {
    private enum CodingKeys: String, CodingKey { case event, gap }

    /// Reads an object of one member, named for its case.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        switch container.allKeys.first {
        case .event: self = .event(try container.decode(Events.Event.self, forKey: .event))
        case .gap: self = .gap(try container.decode(Events.Gap.self, forKey: .gap))
        case nil: throw KithError(.invalid, "A delivery has the member `event` or `gap`.")
        }
    }

    /// Writes an object of one member, named for its case.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        switch self {
        case .event(let event): try container.encode(event, forKey: .event)
        case .gap(let gap): try container.encode(gap, forKey: .gap)
        }
    }
}

extension Events.Publish.Input: OmissibleInput {
    /// An event that is neither retained nor guaranteed.
    public static var usual: Self { Self(topic: "", message: .nothing) }
    /// The topic and the message.
    public static var required: Set<String> { ["topic", "message"] }
}

extension Events.Subscribe.Input: OmissibleInput {
    /// Without look-back.
    public static var usual: Self { Self(topic: "") }
    /// The topic.
    public static var required: Set<String> { ["topic"] }
}

extension Events.Message {
    private init(item: [UInt8]) { bytes = item }

    /// `null`.
    public static let nothing = Events.Message(item: [0xF6])
}
