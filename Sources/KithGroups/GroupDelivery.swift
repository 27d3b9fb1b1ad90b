/// Carries messages between the members of groups, and puts each group's in one order (RFC 9750 §5).
///
/// It sees ciphertexts and names, no keys. It may lose nothing it has answered for; beyond that it is not trusted: what it
/// hands over is checked. Everything may be sent twice: a message it has already is answered as before.
public protocol GroupDelivery: Sendable {
    /// Takes a message of a group, of the epoch that its last commit began: of the commits of one epoch that is the first.
    ///
    /// A refused message has no place among the others and will have none. A service that takes data of past epochs must
    /// know that members can still read it: none is bound to keep the keys (RFC 9420 §15.3).
    func send(_ message: [UInt8], to groupID: [UInt8]) async throws(DeliveryError) -> DeliveryAnswer
    /// Takes a member's word that it cannot follow the last commit that was taken: a `CommitRefusal`.
    ///
    /// A service cannot see whether a commit is one. When more than half of the members have refused it, without its maker
    /// and those that it removes (who abstain), another one of the epoch must be taken, or the group is at its end. By
    /// default nothing happens.
    func send(refusal: [UInt8], to groupID: [UInt8]) async throws(DeliveryError)
    /// A group's messages from a position on, in their order, at most `limit`.
    func messages(
        of groupID: [UInt8], from position: UInt64, limit: Int
    ) async throws(DeliveryError) -> [DeliveredMessage]

    /// Takes a Welcome for the clients whose key packages it names.
    func send(welcome: [UInt8]) async throws(DeliveryError)
    /// The Welcomes for a client from a position on.
    func welcomes(
        for client: ClientID, from position: UInt64, limit: Int
    ) async throws(DeliveryError) -> [DeliveredMessage]

    /// Takes key packages that a client offers, each an `MLSMessage`.
    func publish(keyPackages: [[UInt8]], for client: ClientID) async throws(DeliveryError)
    /// Hands out one of a client's key packages, to one caller only unless it is one of last resort; nil without any.
    func takeKeyPackage(of client: ClientID) async throws(DeliveryError) -> [UInt8]?
    /// Counts a client's key packages, those of last resort left out, and tells whether there is one of those.
    func keyPackageCount(of client: ClientID) async throws(DeliveryError) -> (count: Int, hasLastResort: Bool)

    /// Takes a group's public state, for those who join by their own commit; not that of an epoch before the current one,
    /// which would lock them out.
    func publish(groupInfo: [UInt8], of groupID: [UInt8]) async throws(DeliveryError)
    /// The last public state of a group.
    func groupInfo(of groupID: [UInt8]) async throws(DeliveryError) -> [UInt8]?

    /// Waits until there is something that was not there at the given count of news, and gives the new count.
    func news(after count: UInt64) async throws(DeliveryError) -> UInt64
}

extension GroupDelivery {
    /// Does nothing: for a service that is sure of who sends.
    public func send(refusal: [UInt8], to groupID: [UInt8]) async throws(DeliveryError) {}
}

/// A device or program that is a member of groups, as the delivery service calls it.
public typealias ClientID = String

/// The delivery service's answer to a message.
@nonexhaustive
public enum DeliveryAnswer: Hashable, Sendable {
    /// It has a place among the group's messages.
    case accepted(position: UInt64)
    /// It is of an epoch that is over: another member's commit was first.
    case refused
}

/// A message and its place.
public struct DeliveredMessage: Hashable, Sendable {
    /// The position among the messages of its group, or of its client, from zero.
    public let position: UInt64
    /// The message.
    public let bytes: [UInt8]

    /// Takes a message.
    public init(position: UInt64, bytes: [UInt8]) {
        self.position = position
        self.bytes = bytes
    }
}

/// The delivery service cannot be reached, or refuses to serve; trying again later may work.
public struct DeliveryError: Error, Hashable, Sendable {
    /// The failure, in a sentence for a person.
    public let message: String

    /// Takes a sentence.
    public init(_ message: String) { self.message = message }
}
