public import KithIdentity
public import KithWire

/// A device this one knows: paired by people, or known by its certificate under the root that is pinned.
public struct PairedDevice: Hashable, Sendable {
    /// Its key.
    public var id: DeviceID
    /// The name it has here; no two have the same.
    public var name: String
    /// The addresses at which it was last reached, best first.
    public var addresses: [NetworkAddress]
    /// The relays it can be reached through.
    public var relays: [String]
    /// The grants it has here.
    public var grants: [Grant]
    /// The time of pairing, or at which its certificate was first shown, in seconds since 1970.
    public var pairedAt: Int64
    /// The time it was last connected, in seconds since 1970.
    public var lastSeen: Int64?
    /// The end of the certificate by which it is known, in seconds since 1970; `nil` for one that people paired.
    ///
    /// ``Store/addEnrolled(_:_:by:now:)`` sets it, and nothing else.
    public internal(set) var certifiedUntil: Int64?
    /// When some of ``grants`` end, in seconds since 1970; the others last.
    public internal(set) var grantEnds: [Grant: Int64] = [:]
    /// The labels its owner here gave it, in order.
    public internal(set) var labels: [String] = []
    /// Whether it comes first in lists.
    public internal(set) var isFavorite = false

    /// Tells whether it is known at that time, in seconds since 1970: its certificate, if that is all there is, holds.
    public func isCurrent(at now: Int64) -> Bool { certifiedUntil.map { $0 > now } ?? true }

    /// The grants it has at that time, in seconds since 1970.
    public func grants(at now: Int64) -> [Grant] { grants.filter { grantEnds[$0].map { $0 > now } ?? true } }

    /// Makes a record.
    public init(
        id: DeviceID, name: String, addresses: [NetworkAddress] = [], relays: [String] = [], grants: [Grant] = [],
        pairedAt: Int64, lastSeen: Int64? = nil
    ) {
        self.id = id
        self.name = name
        self.addresses = addresses
        self.relays = relays
        self.grants = grants
        self.pairedAt = pairedAt
        self.lastSeen = lastSeen
    }
}

/// The grants of this device on another one, as that one last reported.
public struct Standing: Hashable, Sendable {
    /// True when the other one reported that it is not paired with this device.
    public var isForgotten: Bool
    /// The grants this device has there.
    public var grants: [Grant]
    /// The time of that report, in seconds since 1970.
    public var time: Int64

    /// Makes a record.
    public init(isForgotten: Bool = false, grants: [Grant], time: Int64) {
        self.isForgotten = isForgotten
        self.grants = grants
        self.time = time
    }
}

/// An invitation this device has made, without the secret that is in its text.
public struct InvitationRecord: Hashable, Sendable {
    /// Its public name: ``Invitation/id``.
    public var id: String
    /// The key that proves knowledge of the secret; empty once its attempts are used up.
    package var proofKey: [UInt8]
    /// The grants that the device that uses it gets here.
    public var grants: [Grant]
    /// The time it stops working, in seconds since 1970.
    public var expiresAt: Int64
    /// True when this end asks no question when it is used.
    public var isAutomatic: Bool
    /// The number of attempts to pair that are left.
    public var attemptsLeft = Pairing.attemptLimit

    /// Remembers an invitation.
    public init(_ invitation: Invitation, grants: [Grant], isAutomatic: Bool) {
        id = invitation.id
        proofKey = invitation.proofKey
        self.grants = grants
        expiresAt = invitation.expiresAt
        self.isAutomatic = isAutomatic
    }

    init(
        id: String, proofKey: [UInt8], grants: [Grant], expiresAt: Int64, isAutomatic: Bool, attemptsLeft: Int
    ) {
        self.id = id
        self.proofKey = proofKey
        self.grants = grants
        self.expiresAt = expiresAt
        self.isAutomatic = isAutomatic
        self.attemptsLeft = attemptsLeft
    }
}

extension InvitationRecord: CustomStringConvertible {
    /// The text form.
    public var description: String { "invitation \(id)" }
}

/// An attempt to pair by an invitation of this device that came as far as a challenge.
public struct PairingAttempt: Hashable, Sendable {
    /// The number of the attempt, among all.
    public var number: Int64
    /// The invitation's public name.
    public var invitation: String
    /// The key that presented it.
    public var device: DeviceID
    /// The address it was presented from; empty when unknown.
    public var address: String
    /// The time it began, in seconds since 1970.
    public var beganAt: Int64
    /// The reason it failed; `nil` while it runs, and when this device was killed meanwhile.
    public var ending: String?

    /// Makes a record.
    public init(
        number: Int64, invitation: String, device: DeviceID, address: String, beganAt: Int64, ending: String? = nil
    ) {
        self.number = number
        self.invitation = invitation
        self.device = device
        self.address = address
        self.beganAt = beganAt
        self.ending = ending
    }
}

/// One line of the audit log.
public struct AuditEntry: Hashable, Sendable {
    /// The node's decision.
    @nonexhaustive
    public enum Decision: String, Hashable, Sendable {
        /// It was let through.
        case allowed
        /// It was refused.
        case denied
    }

    /// The time, in seconds since 1970.
    public var time: Int64
    /// The device: its name, or its DeviceID when it has none here.
    public var device: String
    /// The method, or the event.
    public var method: String
    /// The decision.
    public var decision: Decision
    /// Further details; never a secret.
    public var detail: String

    /// Makes an entry.
    public init(time: Int64, device: String, method: String, decision: Decision, detail: String) {
        self.time = time
        self.device = device
        self.method = method
        self.decision = decision
        self.detail = detail
    }
}
