public import KithIdentity
public import KithWire

/// One-time invitations, by which a device that is not paired yet may ask to pair.
public enum Invitations {
    /// An invitation as its maker sees it; the secret is shown once, when it is made.
    public struct Info: Codable, Hashable, Sendable {
        /// A public name of the invitation, for `revoke`.
        public var id: String
        /// The grants the device that uses it gets here.
        public var grants: [Grant]
        /// The time it stops working, in seconds since 1970.
        public var expiresAt: Int64
        /// True when this end asks no question when it is used.
        public var isAutomatic: Bool
        /// The warnings about its grants for a person: folders that one device may change for another.
        public var warnings: [String]?
        /// The number of attempts to pair that are left; 0 once failed attempts have used it up.
        public var attemptsLeft: Int?

        /// Makes a description.
        public init(id: String, grants: [Grant], expiresAt: Int64, isAutomatic: Bool, attemptsLeft: Int? = nil) {
            self.id = id
            self.grants = grants
            self.expiresAt = expiresAt
            self.isAutomatic = isAutomatic
            self.attemptsLeft = attemptsLeft
        }
    }

    /// Makes an invitation.
    public enum Create: Method {
        /// The input: the grants, and the lifetime.
        public struct Input: Codable, Hashable, Sendable {
            /// The grants the device that uses it gets here.
            ///
            /// May be empty: grants can be given later.
            public var grants: [Grant]
            /// The lifetime, in seconds: 1…604,800 (a week).
            public var lifetimeSeconds: Int64
            /// True to pair without asking at this end: the first to present it is paired.
            public var isAutomatic: Bool

            /// Makes the input.
            public init(grants: [Grant], lifetimeSeconds: Int64, isAutomatic: Bool) {
                self.grants = grants
                self.lifetimeSeconds = lifetimeSeconds
                self.isAutomatic = isAutomatic
            }
        }

        /// The invitation, with its text.
        public struct Output: Codable, Hashable, Sendable {
            /// The text to give to the other device.
            ///
            /// It is a secret until it is used.
            public var text: String
            /// The invitation without its text.
            public var info: Info

            /// Makes the output.
            public init(text: String, info: Info) {
                self.text = text
                self.info = info
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "invitations.create", by: .owner, "Makes a one-time invitation for another device.")
    }

    /// Lists the invitations that have not been used and have not expired.
    public enum List: Method {
        /// The input: nothing.
        public typealias Input = Nothing
        /// The answer: the invitations.
        public typealias Output = [Info]
        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "invitations.list", by: .owner, "Lists the invitations that can still be used.")
    }

    /// Revokes an invitation.
    public enum Revoke: Method {
        /// The input: the invitation.
        public struct Input: Codable, Hashable, Sendable {
            /// Its ``Info/id``.
            public var id: String

            /// Makes the input.
            public init(id: String) { self.id = id }
        }

        /// The answer: nothing.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.action("invitations.revoke", by: .owner, "Revokes an invitation.")
    }
}

/// The pairing of two devices, by which they come to trust each other.
public enum PairingMethods {
    /// The messages to the joining end's own person while pairing, on the stream of ``Join``.
    @nonexhaustive
    public enum JoinEvent: StreamMessage, Hashable {
        /// Compare this code with the one the other device shows.
        ///
        /// `attempts` are those that the other device counted before; `nil` when it does not say.
        case compare(code: String, name: String, id: DeviceID, attempts: Pairing.Attempts?)
        /// It is done.
        case paired(Devices.Info)
        /// It failed.
        case failed(code: KithError.Code, message: String)
    }

    /// The answer of a person who was asked to compare codes.
    public struct Decision: StreamMessage, Hashable {
        /// 16 KiB.
        public static var sizeLimit: Int { 16 << 10 }

        /// True when the codes agree and the pairing is wanted.
        public var accept: Bool

        /// Makes a decision.
        public init(accept: Bool) { self.accept = accept }
    }

    /// Uses an invitation another device made: this device joins it.
    ///
    /// After the acceptance the service sends ``JoinEvent`` messages; after `compare` the caller answers
    /// with one ``Decision``.
    public enum Join: StreamMethod {
        /// The invitation, and what the other device may do here.
        public struct Input: Codable, Hashable, Sendable {
            /// The invitation's text.
            public var invitation: String
            /// The grants the inviting device gets on this one; none unless asked for.
            public var grants: [Grant]

            /// Makes the input.
            public init(invitation: String, grants: [Grant]) {
                self.invitation = invitation
                self.grants = grants
            }
        }

        /// The answer: nothing.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "pairing.join", by: .owner, "Pairs this device with the one that made an invitation.")
        /// The person's decision, once.
        public typealias Upstream = Decision
        /// The code to compare, then how it ended.
        public typealias Downstream = JoinEvent
    }

    /// A pairing that waits for this device's person.
    public struct Request: Codable, Hashable, Sendable {
        /// The identifier for ``Decide``.
        public var id: String
        /// The ``Invitations/Info/id`` of the invitation it came with.
        public var invitation: String
        /// The name the other device gives itself.
        public var name: String
        /// The other device's key.
        public var device: DeviceID
        /// The code to compare.
        public var code: String
        /// The grants it will have here: those it has already, and those of the invitation.
        public var grants: [Grant]
        /// The grants it has here already; `nil` when it is not paired yet.
        public var held: [Grant]?
        /// True when this end will not be asked.
        public var isAutomatic: Bool
        /// The warnings about those grants for a person: folders that one device may change for another.
        public var warnings: [String]?

        /// Makes a request.
        public init(
            id: String, invitation: String, name: String, device: DeviceID, code: String, grants: [Grant],
            held: [Grant]? = nil, isAutomatic: Bool
        ) {
            self.id = id
            self.invitation = invitation
            self.name = name
            self.device = device
            self.code = code
            self.grants = grants
            self.held = held
            self.isAutomatic = isAutomatic
        }
    }

    /// The events of pairings at the inviting end.
    @nonexhaustive
    public enum Event: StreamMessage, Hashable {
        /// A device presented a valid invitation; compare the code and decide.
        case requested(Request)
        /// It is done.
        case paired(Request)
        /// It failed.
        case ended(Request, reason: String)
        /// A device presented a valid invitation and failed before there was a code to compare.
        case brokenOff(Attempt)
    }

    /// A failed attempt to pair by an invitation of this device.
    public struct Attempt: Codable, Hashable, Sendable {
        /// The ``Invitations/Info/id`` of the invitation.
        public var invitation: String
        /// The key that presented it.
        public var device: DeviceID
        /// The address it came from; empty when unknown.
        public var address: String
        /// The time it began, in seconds since 1970.
        public var time: Int64
        /// The reason it failed, in a sentence for a person.
        public var reason: String

        /// Makes a description.
        public init(invitation: String, device: DeviceID, address: String, time: Int64, reason: String) {
            self.invitation = invitation
            self.device = device
            self.address = address
            self.time = time
            self.reason = reason
        }
    }

    /// Lists the failed attempts to pair of the last week, the newest first.
    ///
    /// Those of devices that are paired now are left out.
    public enum Failed: Method {
        /// The input: nothing.
        public typealias Input = Nothing
        /// The answer: the attempts.
        public typealias Output = [Attempt]
        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "pairing.failed", by: .owner, "Lists the failed attempts to pair of the last week.")
    }

    /// Follows the pairings at the inviting end: ``Event`` messages until the caller closes the stream.
    public enum Watch: StreamMethod {
        /// The input: nothing.
        public typealias Input = Nothing
        /// The answer: nothing.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "pairing.watch", by: .owner, isIdempotent: true, "Follows the pairings that wait for this device's person.")
        /// Nothing.
        public typealias Upstream = Nothing
        /// The events.
        public typealias Downstream = Event
    }

    /// Lists the pairings that wait for this device's person.
    public enum Waiting: Method {
        /// The input: nothing.
        public typealias Input = Nothing
        /// The answer: the pairings that wait.
        public typealias Output = [Request]
        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "pairing.waiting", by: .owner, "Lists the pairings that wait for this device's person.")
    }

    /// Answers a pairing that waits.
    public enum Decide: Method {
        /// The input: the pairing, and the decision.
        public struct Input: Codable, Hashable, Sendable {
            /// Its ``Request/id``.
            public var id: String
            /// True when the codes agree and the pairing is wanted.
            public var accept: Bool

            /// Makes the input.
            public init(id: String, accept: Bool) {
                self.id = id
                self.accept = accept
            }
        }

        /// The answer: nothing.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "pairing.decide", by: .owner, "Accepts or refuses a pairing that waits.")
    }

    /// The messages of the joining device on the stream of ``Present``: these three, in this order.
    @nonexhaustive
    public enum FromJoiner: StreamMessage, Hashable {
        /// 16 KiB: the other end need not be paired.
        public static var sizeLimit: Int { 16 << 10 }

        /// The invitation, and the proof of holding it.
        case present(Pairing.Present)
        /// The nonce committed to.
        case reveal(Pairing.Reveal)
        /// The decision of its person.
        case verdict(Pairing.Verdict)
    }

    /// The messages of the inviting device on the stream of ``Present``.
    @nonexhaustive
    public enum FromInviter: StreamMessage, Hashable {
        /// 16 KiB: the other end need not be paired.
        public static var sizeLimit: Int { 16 << 10 }

        /// The answer to a valid invitation.
        case challenge(Pairing.Challenge)
        /// The decision of its person, after the joiner's verdict; an acceptance comes after the pairing was stored.
        case verdict(Pairing.Verdict)
        /// The end, and why.
        case refused(code: KithError.Code, message: String)
    }

    /// Presents an invitation to the device that made it: besides a certificate the one thing an unpaired
    /// device may present.
    public enum Present: StreamMethod {
        /// The input: nothing.
        public typealias Input = Nothing
        /// The answer: nothing.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "pairing.present", by: .anyone, "Presents a one-time invitation.")
        /// The messages of the joining device.
        public typealias Upstream = FromJoiner
        /// The messages of the inviting device.
        public typealias Downstream = FromInviter
    }
}

extension Invitations.Create.Input: OmissibleInput {
    /// Ten minutes, no grants yet, and a person is asked.
    public static var usual: Self { Self(grants: [], lifetimeSeconds: 600, isAutomatic: false) }
    /// None.
    public static var required: Set<String> { [] }
}

extension PairingMethods.Join.Input: OmissibleInput {
    /// The other device may do nothing here.
    public static var usual: Self { Self(invitation: "", grants: []) }
    /// The invitation.
    public static var required: Set<String> { ["invitation"] }
}
