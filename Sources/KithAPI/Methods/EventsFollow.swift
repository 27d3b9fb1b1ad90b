public import KithIdentity
import KithWire

extension Events {
    /// Sends the events that are published on this device to another one, for its subscribers.
    ///
    /// A device opens it on each of its peers on which its subscribers want something. It names the patterns they
    /// subscribe to, in the input and later in ``Request``; it gets the events that are published on the peer itself,
    /// whose topics its grants there cover. What a device learns this way it passes on to nobody.
    public enum Follow: StreamMethod {
        /// The input.
        public struct Input: Codable, Hashable, Sendable {
            /// The patterns wanted at first.
            public var patterns: [String]
            /// The last event received before, when a connection was lost; those behind it are sent again.
            public var resume: Position?

            /// Makes the input.
            public init(patterns: [String], resume: Position? = nil) {
                self.patterns = patterns
                self.resume = resume
            }
        }

        /// A place among the events of a device.
        public struct Position: Codable, Hashable, Sendable {
            /// The time at which the device began to count, in milliseconds since 1970.
            public var epoch: UInt64
            /// The number of the last event.
            public var sequence: UInt64

            /// Makes a position.
            public init(epoch: UInt64, sequence: UInt64) {
                self.epoch = epoch
                self.sequence = sequence
            }
        }

        /// The most patterns a device may want of another.
        package static let patternLimit = 1_024

        /// The place at which the device begins to send.
        public typealias Output = Position
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "events.follow", by: .paired, isIdempotent: true,
            "Sends the events published on this device to another one, for its subscribers.")
        /// Changes of what is wanted, and acknowledgements.
        public typealias Upstream = Request
        /// The events.
        public typealias Downstream = Item
    }
}

extension Events.Follow {
    /// A change of what is wanted, or an acknowledgement.
    public struct Request: StreamMessage, Hashable {
        /// Patterns wanted from now on.
        public var add: [String]
        /// Patterns wanted no more.
        public var remove: [String]
        /// Retained events wanted.
        public var lookBack: [LookBack]
        /// The guaranteed events that the subscribers have taken, by ``Item/delivery``.
        public var delivered: [UInt64]
        /// The guaranteed events that a subscriber failed to handle, or that none wanted.
        public var failed: [UInt64]

        /// Makes a request.
        public init(
            add: [String] = [], remove: [String] = [], lookBack: [LookBack] = [], delivered: [UInt64] = [],
            failed: [UInt64] = []
        ) {
            self.add = add
            self.remove = remove
            self.lookBack = lookBack
            self.delivered = delivered
            self.failed = failed
        }

        package var isEmpty: Bool {
            add.isEmpty && remove.isEmpty && lookBack.isEmpty && delivered.isEmpty && failed.isEmpty
        }
    }

    /// The retained events that one subscriber wants.
    public struct LookBack: Codable, Hashable, Sendable {
        /// The number that comes back with each, ``Item/lookBack``.
        public var number: UInt64
        /// The topic or the pattern.
        public var pattern: String
        /// The greatest age, in milliseconds.
        public var milliseconds: UInt64
        /// The most events of one topic; the newest are sent.
        public var perTopic: UInt64

        /// Makes a request for retained events.
        public init(number: UInt64, pattern: String, milliseconds: UInt64, perTopic: UInt64) {
            self.number = number
            self.pattern = pattern
            self.milliseconds = milliseconds
            self.perTopic = perTopic
        }
    }

    /// An event, or that events are missing.
    public struct Item: StreamMessage, Hashable {
        /// The event; `nil` with a gap.
        public var event: Published?
        /// What is missing before the events that follow.
        public var gap: Events.Gap?
        /// The number of the request for retained events that this answers.
        public var lookBack: UInt64?
        /// The number under which the receipt of a guaranteed event is to be acknowledged.
        public var delivery: UInt64?

        /// Makes an item.
        public init(
            event: Published? = nil, gap: Events.Gap? = nil, lookBack: UInt64? = nil, delivery: UInt64? = nil
        ) {
            self.event = event
            self.gap = gap
            self.lookBack = lookBack
            self.delivery = delivery
        }
    }

    /// An event of the device that sends it.
    public struct Published: Codable, Hashable, Sendable {
        /// The topic.
        public var topic: String
        /// The message.
        public var message: Events.Message
        /// The time at which the device began to count, in milliseconds since 1970.
        public var epoch: UInt64
        /// Its number in that epoch.
        public var sequence: UInt64
        /// The time of publication, in milliseconds since 1970.
        public var time: Int64
        /// The device that published it there; `nil`: that device's own person or services.
        public var sender: DeviceID?

        /// Makes an event.
        public init(
            topic: String, message: Events.Message, epoch: UInt64, sequence: UInt64, time: Int64, sender: DeviceID?
        ) {
            self.topic = topic
            self.message = message
            self.epoch = epoch
            self.sequence = sequence
            self.time = time
            self.sender = sender
        }
    }
}
