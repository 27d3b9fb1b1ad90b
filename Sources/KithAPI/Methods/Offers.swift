import KithIdentity

/// Files one person sends to another, who is asked first: no grant is needed, and none is given.
///
/// The sender's device offers (``Send``): names and sizes, no contents. The receiving person, or a rule they made,
/// accepts or rejects; only then do contents travel (``Push``), into a folder the receiver chose.
///
///     sender: Deliver ──▶ own device ──Send──▶ other device ◀── List, Decide, Rule: receiver
///                                   ◀─Answer──
///                                    ──Push──▶
public enum Offers {
    /// One file or folder at the top of an offer.
    public struct Item: Codable, Hashable, Sendable {
        /// Its name on the sender's device, without folders.
        public var name: Files.Path
        /// File or folder.
        public var kind: Files.Kind
        /// Its size in bytes; for a folder, with everything in it.
        public var size: UInt64

        /// Makes an item.
        public init(name: Files.Path, kind: Files.Kind, size: UInt64) {
            self.name = name
            self.kind = kind
            self.size = size
        }
    }

    /// The states of an offer.
    @nonexhaustive
    public enum State: String, Codable, Hashable, Sendable, CaseIterable {
        /// Nobody has decided yet.
        case waiting
        /// It may be sent.
        case accepted
        /// It is being received.
        case receiving
        /// All of it is in place.
        case arrived
        /// The receiver does not want it.
        case rejected
        /// Nobody decided in time.
        case expired
        /// The sender took it back or went away.
        case withdrawn
        /// It was accepted, and did not arrive.
        case failed
    }

    /// Offers files: the stream reports the state of the offer, until it is decided and everything has arrived.
    ///
    /// To withdraw the offer, the sender finishes its direction or closes the stream.
    public enum Send: StreamMethod {
        /// The input: the offer.
        public struct Input: Codable, Hashable, Sendable {
            /// The files and folders, 1…1,000.
            public var items: [Item]
            /// Bytes in all: no more is received.
            public var bytes: UInt64
            /// Files in all: no more are received.
            public var files: UInt64
            /// The time the sender waits for a decision, in seconds, at most an hour.
            public var waitSeconds: UInt32

            /// Makes an offer.
            public init(items: [Item], bytes: UInt64, files: UInt64, waitSeconds: UInt32 = 600) {
                self.items = items
                self.bytes = bytes
                self.files = files
                self.waitSeconds = waitSeconds
            }
        }

        /// The answer: nothing.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "offer.send", by: .paired, "Offers files; their contents are sent once the receiver has accepted.")
        /// Nothing.
        public typealias Upstream = Nothing
        /// The fate of the offer: a message for each change.
        public typealias Downstream = Answer
    }

    /// The state of an offer, as its sender is told.
    public struct Answer: StreamMessage, Hashable {
        /// The present state.
        public var state: State
        /// The identifier to give to ``Push``, once it is accepted.
        public var id: String?
        /// The reason it failed.
        public var failure: Files.Failure?

        /// Makes an answer.
        public init(state: State, id: String? = nil, failure: Files.Failure? = nil) {
            self.state = state
            self.id = id
            self.failure = failure
        }
    }

    /// Sends the contents of an offer that has been accepted: `TransferFrame`s of KithFiles go, as with `files.push`.
    public enum Push: StreamMethod {
        /// The input: the offer.
        public struct Input: Codable, Hashable, Sendable {
            /// The offer's ``Answer/id``.
            public var id: String

            /// Makes the input.
            public init(id: String) { self.id = id }
        }

        /// The answer: nothing.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "offer.push", by: .paired, carrying: .bulk, "Sends the contents of an accepted offer.")
        /// The messages of the transfer's sender.
        public typealias Upstream = RawBytes
        /// The answers of the transfer's receiver.
        public typealias Downstream = RawBytes
    }

    /// Offers files of this device to another and sends them; the stream reports the progress, as ``Delivery`` messages.
    ///
    /// When the caller closes the stream, the offer is withdrawn.
    public enum Deliver: StreamMethod {
        /// The input: the files, and the device to offer them to.
        public struct Input: Codable, Hashable, Sendable {
            /// Files and folders of this device: absolute paths.
            public var paths: [Files.Path]
            /// The receiving device.
            public var device: String
            /// The time to wait for its person's decision, in seconds, at most an hour.
            public var waitSeconds: UInt32

            /// Makes the input.
            public init(paths: [Files.Path], device: String, waitSeconds: UInt32 = 600) {
                self.paths = paths
                self.device = device
                self.waitSeconds = waitSeconds
            }
        }

        /// The answer: nothing.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "offer.deliver", by: .owner, "Offers files to another device, and sends them when its person accepts.")
        /// Nothing.
        public typealias Upstream = Nothing
        /// The progress of the offer and of its transfer.
        public typealias Downstream = Delivery
    }

    /// The progress of a delivery.
    ///
    /// The last message has a state that is neither waiting, accepted nor receiving, or a ``failure``.
    public struct Delivery: StreamMessage, Hashable {
        /// The state of the offer.
        public var state: State
        /// The progress of the transfer.
        public var progress: Files.Progress
        /// The reason it ended, or the first reason for which something that arrived was left out.
        public var failure: Files.Failure?

        /// Makes a message.
        public init(state: State, progress: Files.Progress = Files.Progress(), failure: Files.Failure? = nil) {
            self.state = state
            self.progress = progress
            self.failure = failure
        }
    }
}

/// The offers of other people to this device.
public enum Inbox {
    /// An offer, or what became of it.
    public struct Entry: StreamMessage, Hashable {
        /// Its number here, to accept or reject it by.
        public var id: String
        /// The name of the sender's device here.
        public var device: String
        /// The first twenty of the files and folders.
        public var items: [Offers.Item]
        /// The number of files and folders at the top.
        public var count: UInt32
        /// Bytes in all.
        public var bytes: UInt64
        /// Files in all.
        public var files: UInt64
        /// The state of the offer.
        public var state: Offers.State
        /// The time it arrived, in seconds since 1970.
        public var offeredAt: Int64
        /// The time from which nobody waits for a decision any more, in seconds since 1970.
        public var expiresAt: Int64
        /// Bytes received so far.
        public var received: UInt64
        /// The destination folder, once it is accepted.
        public var folder: String?
        /// The names the first twenty have there.
        public var names: [Files.Path]
        /// The reason it failed.
        public var failure: Files.Failure?

        /// Makes an entry.
        public init(
            id: String, device: String, items: [Offers.Item], count: UInt32, bytes: UInt64, files: UInt64,
            state: Offers.State, offeredAt: Int64, expiresAt: Int64, received: UInt64 = 0, folder: String? = nil,
            names: [Files.Path] = [], failure: Files.Failure? = nil
        ) {
            self.id = id
            self.device = device
            self.items = items
            self.count = count
            self.bytes = bytes
            self.files = files
            self.state = state
            self.offeredAt = offeredAt
            self.expiresAt = expiresAt
            self.received = received
            self.folder = folder
            self.names = names
            self.failure = failure
        }
    }

    /// Lists the offers and the outcomes of the last hundred.
    ///
    /// Oldest first.
    public enum List: Method {
        /// The input: nothing.
        public typealias Input = Nothing
        /// The answer: the offers.
        public typealias Output = [Entry]
        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "inbox.list", by: .owner, "Lists the offers of other people and the files that have arrived.")
    }

    /// Reports each offer when it arrives and when it changes.
    public enum Watch: StreamMethod {
        /// The input: nothing.
        public typealias Input = Nothing
        /// The answer: nothing.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "inbox.watch", by: .owner, isIdempotent: true, "Reports offers as they arrive and change.")
        /// Nothing.
        public typealias Upstream = Nothing
        /// Each offer when it comes and when it changes.
        public typealias Downstream = Entry
    }

    /// Accepts or rejects an offer.
    public enum Decide: Method {
        /// The input: the offer, and the decision.
        public struct Input: Codable, Hashable, Sendable {
            /// Its number, or the unambiguous beginning of it.
            public var id: String
            /// True to accept it.
            public var accepts: Bool
            /// The folder to put it in, absolute; `nil`: the usual one.
            public var folder: String?

            /// Makes the input.
            public init(id: String, accepts: Bool, folder: String? = nil) {
                self.id = id
                self.accepts = accepts
                self.folder = folder
            }
        }

        /// The offer, as it is then.
        public typealias Output = Entry
        /// The stable name on every wire.
        public static let header = MethodHeader.action("inbox.decide", by: .owner, "Accepts or rejects an offer.")
    }

    /// The treatment of one device's offers without asking.
    public struct Rule: Codable, Hashable, Sendable {
        /// The actions a rule can take.
        @nonexhaustive
        public enum Action: String, Codable, Hashable, Sendable, CaseIterable {
            /// A person decides: what happens without a rule.
            case ask
            /// It is accepted, unless it is too large: then a person decides.
            case accept
            /// It is rejected.
            case reject
        }

        /// The action.
        public var action: Action
        /// The folder to put things in, absolute; `nil`: the usual one.
        public var folder: String?
        /// The most bytes accepted without asking.
        public var maximum: UInt64?

        /// Makes a rule.
        public init(action: Action, folder: String? = nil, maximum: UInt64? = nil) {
            self.action = action
            self.folder = folder
            self.maximum = maximum
        }
    }

    /// Sets the rule for a device, or returns the present one.
    public enum SetRule: Method {
        /// The input: the device, and its rule.
        public struct Input: Codable, Hashable, Sendable {
            /// The device.
            public var device: String
            /// The rule; `nil`: nothing is changed.
            public var rule: Rule?

            /// Makes the input.
            public init(device: String, rule: Rule? = nil) {
                self.device = device
                self.rule = rule
            }
        }

        /// The rule that holds then.
        public typealias Output = Rule
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "inbox.rule", by: .owner, isIdempotent: true, "Sets or shows the rule for the offers of a device.")
    }
}

extension Offers.Deliver.Input: OmissibleInput {
    /// Ten minutes are waited.
    public static var usual: Self { Self(paths: [], device: "") }
    /// The files and the device.
    public static var required: Set<String> { ["paths", "device"] }
}
