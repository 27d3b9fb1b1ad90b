public import KithIdentity
public import KithWire

/// The devices of one person under that person's root key: certificates, enrolment, renewal, revocation.
public enum Trust {
    /// The standing of a certificate.
    @nonexhaustive
    public enum State: String, Codable, Hashable, Sendable, CaseIterable {
        /// There is none.
        case none
        /// A request waits for the holder of the root key.
        case pending
        /// It is good.
        case valid
        /// Its time is over.
        case expired
        /// The root has revoked it.
        case revoked
        /// It is not to be believed.
        case invalid
    }

    /// A device and its certificate.
    public struct Member: Codable, Hashable, Sendable {
        /// The device.
        public var device: DeviceID
        /// The name it goes by here; `nil` when it is not paired with this one.
        public var name: String?
        /// The standing of its certificate.
        public var state: State
        /// The time until which that holds, in seconds since 1970.
        public var until: Int64

        /// Describes a device.
        public init(device: DeviceID, name: String?, state: State, until: Int64) {
            self.device = device
            self.name = name
            self.state = state
            self.until = until
        }
    }

    /// A device that was revoked.
    public struct Revoked: Codable, Hashable, Sendable {
        /// The device.
        public var device: DeviceID
        /// The time, in seconds since 1970.
        public var time: Int64
        /// The reason: `lost`, `compromised`, `retired` or `unspecified`.
        public var reason: String

        /// Describes a device.
        public init(device: DeviceID, time: Int64, reason: String) {
            self.device = device
            self.time = time
            self.reason = reason
        }
    }

    /// Shows the certificate of this device, the root it pins, and what it knows of the others.
    public enum Status: Method {
        /// The input: nothing.
        public typealias Input = Nothing

        /// The standing of this device.
        public struct Output: Codable, Hashable, Sendable {
            /// The standing of its certificate.
            public var state: State
            /// The reason not to believe it; `nil` unless it is ``State/invalid``.
            public var reason: String?
            /// The id of the root key that is pinned; `nil` for none.
            public var root: String?
            /// The time until which the root's certificate holds, in seconds since 1970.
            public var rootUntil: Int64?
            /// True when this device holds the root key.
            public var isHolder: Bool
            /// The device that issued the certificate.
            public var holder: DeviceID?
            /// The number of its certificate, in hexadecimal digits.
            public var serial: String?
            /// The time until which the certificate holds, in seconds since 1970.
            public var until: Int64?
            /// The time from which it is renewed, in seconds since 1970.
            public var renewsAt: Int64?
            /// The number of the revocation list; 0 for none.
            public var revocations: UInt64
            /// The devices on it.
            public var revoked: [Revoked]
            /// The other devices under the same root that this one has met or issued certificates to.
            public var members: [Member]
            /// The treatment of those of them that are not paired with this device; `nil` from a version without one.
            public var admission: Admission?

            /// Describes a device without a root.
            public init(state: State, isHolder: Bool) {
                self.state = state
                self.isHolder = isHolder
                revocations = 0
                revoked = []
                members = []
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "trust.status", by: .owner, "Shows this device's certificate, its root, and who is revoked.")
    }

    /// Makes a person's root key on this device, once, and enrols the device itself.
    public enum Begin: Method {
        /// The input: nothing.
        public typealias Input = Nothing
        /// The answer: the standing of this device.
        public typealias Output = Status.Output
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "trust.begin", by: .owner, "Makes your root key on this device, and enrols the device itself.")
    }

    /// The events of a request of this device, for its person.
    @nonexhaustive
    public enum EnrolEvent: StreamMessage, Hashable {
        /// The request waits: give the code to the device that holds the root key.
        ///
        /// `text` names this device and the code, for a QR code.
        case waiting(code: String, text: String, expiresAt: Int64)
        /// Somebody gave a wrong code.
        case wrongCode(by: String, left: Int)
        /// It is done.
        case enrolled(root: String, by: String, until: Int64)
        /// It failed.
        case failed(code: KithError.Code, message: String)
    }

    /// Makes a one-time request for a certificate and waits until the holder of a root key answers it.
    ///
    /// Closing the stream takes the request back.
    public enum Enrol: StreamMethod {
        /// The input: what to do about a root that is pinned.
        public struct Input: Codable, Hashable, Sendable {
            /// True to pin another root than the one that is pinned here.
            public var replacesRoot: Bool

            /// Makes the input.
            public init(replacesRoot: Bool = false) { self.replacesRoot = replacesRoot }
        }

        /// The answer: nothing.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "trust.enrol", by: .owner, "Asks for a certificate, and shows the code for the holder of the root key.")
        /// Nothing.
        public typealias Upstream = Nothing
        /// The code, then how it ended.
        public typealias Downstream = EnrolEvent
    }

    /// Issues a certificate to a paired device whose code was given, by the root key of this one.
    public enum Issue: Method {
        /// The input: the device, the code that it shows, and the days.
        public struct Input: Codable, Hashable, Sendable {
            /// The device, by name or DeviceID.
            public var device: String
            /// The code that it shows.
            public var code: String
            /// The days for which the certificate holds: 1…400; `nil`: 90.
            public var days: Int?

            /// Makes the input.
            public init(device: String, code: String, days: Int? = nil) {
                self.device = device
                self.code = code
                self.days = days
            }
        }

        /// The certificate, in short.
        public struct Output: Codable, Hashable, Sendable {
            /// The device.
            public var device: DeviceID
            /// The name it goes by here.
            public var name: String
            /// The id of the root key.
            public var root: String
            /// The number of the certificate, in hexadecimal digits.
            public var serial: String
            /// The time until which it holds, in seconds since 1970.
            public var until: Int64
            /// The names of the network keys that it got.
            public var networks: [String]

            /// Describes a certificate.
            public init(
                device: DeviceID, name: String, root: String, serial: String, until: Int64, networks: [String]
            ) {
                self.device = device
                self.name = name
                self.root = root
                self.serial = serial
                self.until = until
                self.networks = networks
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "trust.issue", by: .owner, "Issues a certificate to a paired device that shows a code.")
    }

    /// Revokes a device: it is cut off here at once, and by every other device as soon as that hears of it.
    public enum Revoke: Method {
        /// The input: the device, and why.
        public struct Input: Codable, Hashable, Sendable {
            /// The device, by name or DeviceID.
            public var device: String
            /// The reason: `lost`, `compromised`, `retired` or `unspecified`.
            public var reason: String

            /// Makes the input.
            public init(device: String, reason: String) {
                self.device = device
                self.reason = reason
            }
        }

        /// The outcome.
        public struct Output: Codable, Hashable, Sendable {
            /// The device.
            public var device: DeviceID
            /// The name it went by here; `nil` when it was not paired.
            public var name: String?
            /// The number of the new list.
            public var revocations: UInt64
            /// The connected devices that have the list already, by name.
            public var told: [String]
            /// The names of the network keys that were replaced.
            public var networks: [String]

            /// Describes an outcome.
            public init(device: DeviceID, name: String?, revocations: UInt64, told: [String], networks: [String]) {
                self.device = device
                self.name = name
                self.revocations = revocations
                self.told = told
                self.networks = networks
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "trust.revoke", by: .owner, "Revokes a device for good, and tells the others.")
    }

    /// The treatment of devices under the same root, with which nobody has paired this one.
    public struct Admission: Codable, Hashable, Sendable {
        /// True when they become known here by showing their certificates.
        public var isOn: Bool
        /// The grants that each gets when it becomes known.
        public var grants: [Grant]
        /// The warnings about those grants, for a person.
        public var warnings: [String]?

        /// Describes a treatment.
        public init(isOn: Bool, grants: [Grant]) {
            self.isOn = isOn
            self.grants = grants
        }
    }

    /// Changes how devices under the same root are treated that become known from now on.
    public enum Admit: Method {
        /// The input: the change.
        public struct Input: Codable, Hashable, Sendable {
            /// True to let them become known, false not to; `nil` leaves it.
            public var isOn: Bool?
            /// The grants that each is to get; `nil` leaves them.
            public var grants: [Grant]?

            /// Makes the input.
            public init(isOn: Bool? = nil, grants: [Grant]? = nil) {
                self.isOn = isOn
                self.grants = grants
            }
        }

        /// The answer: the treatment from now on.
        public typealias Output = Admission
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "trust.admit", by: .owner, isIdempotent: true,
            "Changes what devices under your root may do here that become known by their certificates.")
    }

    /// Makes this device and one under the same root known to each other, by their certificates.
    public enum Connect: Method {
        /// The input: the device, and where it is.
        public struct Input: Codable, Hashable, Sendable {
            /// Its whole DeviceID; the name of one that is known already.
            public var device: String
            /// The addresses to try; empty: those that are known.
            public var addresses: [NetworkAddress]
            /// The URLs of the relays at which it is to be found.
            public var relays: [String]

            /// Makes the input.
            public init(device: String, addresses: [NetworkAddress] = [], relays: [String] = []) {
                self.device = device
                self.addresses = addresses
                self.relays = relays
            }
        }

        /// The answer: the device.
        public typealias Output = Devices.Info
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "trust.connect", by: .owner, "Exchanges certificates with a device under your root that is not paired.")
    }

    // MARK: - Between devices

    /// A device's certificate, shown to a device that does not know it.
    public struct Introduction: Codable, Hashable, Sendable {
        /// The certificate, DER.
        public var certificate: ByteString
        /// The proof that it is shown by the device it is for, on this connection: 64 bytes.
        public var proof: ByteString
        /// The name the device gives itself.
        public var name: String
        /// The addresses the device listens at.
        public var addresses: [NetworkAddress]

        /// Makes an introduction.
        public init(certificate: ByteString, proof: ByteString, name: String, addresses: [NetworkAddress]) {
            self.certificate = certificate
            self.proof = proof
            self.name = name
            self.addresses = addresses
        }
    }

    /// The messages of the end that dialed on the stream of ``Introduce``: these two, in this order.
    @nonexhaustive
    public enum FromDialing: StreamMessage, Hashable {
        /// 8 KiB: the other end need not be paired.
        public static var sizeLimit: Int { 8 << 10 }

        /// Its certificate.
        case introduction(Introduction)
        /// The other's is good: it may store.
        case accepted
    }

    /// The messages of the other end on the stream of ``Introduce``: these two, or a refusal.
    @nonexhaustive
    public enum FromDialed: StreamMessage, Hashable {
        /// 8 KiB: the other end need not be paired.
        public static var sizeLimit: Int { 8 << 10 }

        /// Its certificate, shown to nobody but a device under the same root.
        case introduction(Introduction)
        /// It has stored the device.
        case known
        /// The end, and why.
        case refused(code: KithError.Code, message: String)
    }

    /// Exchanges certificates with a device that does not know this one: besides an invitation the one thing a device may
    /// present that is not paired.
    ///
    /// Refused unless the device that is asked has a certificate that holds.
    public enum Introduce: StreamMethod {
        /// The input: nothing.
        public typealias Input = Nothing
        /// The answer: nothing.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "trust.introduce", by: .anyone, "Exchanges certificates under one root.")
        /// The messages of the end that dialed.
        public typealias Upstream = FromDialing
        /// The messages of the other end.
        public typealias Downstream = FromDialed
    }

    /// A network key, sealed to the agreement key of one device.
    public struct SealedNetwork: Codable, Hashable, Sendable {
        /// The id of the key.
        public var id: String
        /// Its name.
        public var name: String
        /// The key, sealed by ECIES.
        public var sealed: ByteString

        /// Makes one.
        public init(id: String, name: String, sealed: ByteString) {
            self.id = id
            self.name = name
            self.sealed = sealed
        }
    }

    /// The messages of the holder of a root key on the stream of ``Offer``: these two, in this order.
    @nonexhaustive
    public enum FromHolder: StreamMessage, Hashable {
        /// 256 KiB: a full revocation list is in it.
        public static var sizeLimit: Int { 256 << 10 }

        /// The root's certificate, and the proof of the code.
        case proof(root: ByteString, proof: ByteString)
        /// The certificate of the device, the network keys, and the revocation list.
        case issued(certificate: ByteString, networks: [SealedNetwork], revocations: ByteString?)
    }

    /// The messages of the device on the stream of ``Offer``.
    @nonexhaustive
    public enum FromDevice: StreamMessage, Hashable {
        /// 16 KiB.
        public static var sizeLimit: Int { 16 << 10 }

        /// Its request, and the proof that the code belongs to it.
        case request(request: ByteString, proof: ByteString)
        /// The certificate is installed.
        case installed
        /// The end, and why.
        case refused(code: KithError.Code, message: String)
    }

    /// Offers a certificate to a device that has made a request.
    public enum Offer: StreamMethod {
        /// The input: nothing.
        public typealias Input = Nothing

        /// The challenge.
        public struct Output: Codable, Hashable, Sendable {
            /// The nonce of the request, 16 bytes.
            public var nonce: ByteString

            /// Makes a challenge.
            public init(nonce: ByteString) { self.nonce = nonce }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "trust.offer", by: .paired, "Offers a certificate to a device that shows a code.")
        /// The messages of the holder.
        public typealias Upstream = FromHolder
        /// The messages of the device.
        public typealias Downstream = FromDevice
    }

    /// The standing of one device, as it tells another when they meet.
    public struct Presentation: Codable, Hashable, Sendable {
        /// The id of the root key it pins.
        public var root: String
        /// Its certificate.
        public var certificate: ByteString?
        /// The number of its revocation list; 0 for none.
        public var revocations: UInt64
        /// True when it holds the root key: it renews certificates.
        public var isHolder: Bool
        /// Its revocation list, when it is newer than the other's; only in an answer.
        public var list: ByteString?

        /// Makes a presentation.
        public init(root: String, certificate: ByteString?, revocations: UInt64, isHolder: Bool) {
            self.root = root
            self.certificate = certificate
            self.revocations = revocations
            self.isHolder = isHolder
        }
    }

    /// Tells a paired device under which root this one is; both learn the newer revocation list.
    public enum Meet: Method {
        /// The input: the standing of the caller.
        public typealias Input = Presentation

        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// The standing of the device that was asked; `nil` when it pins no root, or another one.
            public var same: Presentation?

            /// Makes an answer.
            public init(same: Presentation?) { self.same = same }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "trust.meet", by: .paired, isIdempotent: true, "Exchanges certificates and the newer revocation list.")
    }

    /// Sends a revocation list that is newer than the one that the other device had.
    public enum Update: Method {
        /// The input: the list.
        public struct Input: Codable, Hashable, Sendable {
            /// The list.
            public var list: ByteString

            /// Makes the input.
            public init(list: ByteString) { self.list = list }
        }

        /// The answer: nothing.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "trust.update", by: .paired, isIdempotent: true, "Sends a newer revocation list.")
    }

    /// Renews the certificate of the calling device, for the same key.
    public enum Renew: Method {
        /// The input: the request.
        public struct Input: Codable, Hashable, Sendable {
            /// A request as in ``FromDevice/request(request:proof:)``.
            public var request: ByteString

            /// Makes the input.
            public init(request: ByteString) { self.request = request }
        }

        /// The new certificate.
        public struct Output: Codable, Hashable, Sendable {
            /// The certificate.
            public var certificate: ByteString

            /// Makes an answer.
            public init(certificate: ByteString) { self.certificate = certificate }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "trust.renew", by: .paired, "Renews the certificate of the device that calls.")
    }

    /// Asks the holder of the root key for the network keys that this device lacks.
    public enum Networks: Method {
        /// The input: the keys it has.
        public struct Input: Codable, Hashable, Sendable {
            /// The ids of the keys it has.
            public var have: [String]

            /// Makes the input.
            public init(have: [String]) { self.have = have }
        }

        /// The keys it lacks.
        public struct Output: Codable, Hashable, Sendable {
            /// The keys, each sealed to the device that asked.
            public var networks: [SealedNetwork]

            /// Makes an answer.
            public init(networks: [SealedNetwork]) { self.networks = networks }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "trust.networks", by: .paired, "Gives an enrolled device the network keys it lacks.")
    }
}

extension Trust.Enrol.Input: OmissibleInput {
    /// A root that is pinned stays.
    public static var usual: Self { Self() }
    /// None.
    public static var required: Set<String> { [] }
}

extension Trust.Revoke.Input: OmissibleInput {
    /// Without a reason.
    public static var usual: Self { Self(device: "", reason: "unspecified") }
    /// The device.
    public static var required: Set<String> { ["device"] }
}

extension Trust.EnrolEvent: SchemaCases {
    /// The names of its cases.
    public static var schemaCases: [String] { ["waiting", "wrongCode", "enrolled", "failed"] }
}

extension Trust.FromHolder: SchemaCases {
    /// The names of its cases.
    public static var schemaCases: [String] { ["proof", "issued"] }
}

extension Trust.FromDialing: SchemaCases {
    /// The names of its cases.
    public static var schemaCases: [String] { ["introduction", "accepted"] }
}

extension Trust.FromDialed: SchemaCases {
    /// The names of its cases.
    public static var schemaCases: [String] { ["introduction", "known", "refused"] }
}

extension Trust.Connect.Input: OmissibleInput {
    /// Where it is known to be.
    public static var usual: Self { Self(device: "") }
    /// The device.
    public static var required: Set<String> { ["device"] }
}

extension Trust.Admit.Input: OmissibleInput {
    /// Everything stays.
    public static var usual: Self { Self() }
    /// None.
    public static var required: Set<String> { [] }
}

extension Trust.FromDevice: SchemaCases {
    /// The names of its cases.
    public static var schemaCases: [String] { ["request", "installed", "refused"] }
}
