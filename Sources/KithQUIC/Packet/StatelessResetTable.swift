/// Finds the connection a stateless reset is for, in the same time however many there are (RFC 9000 §10.3.1).
///
/// It keeps and looks up an HMAC of each token under a key of its own, so that the time of a look-up says nothing about
/// a token.
public struct StatelessResetTable<Owner: AnyObject> {
    private let key: [UInt8]
    private var owners: [ResetToken: Owner] = [:]

    /// Makes an empty table; `key` is 32 random bytes that nobody else knows.
    public init(key: [UInt8]) { self.key = key }

    /// The number of tokens it knows.
    public var count: Int { owners.count }

    /// Adds a token of a connection of `owner`: ``QUICConnection/Event/resetTokenAdded(_:)``.
    public mutating func add(_ token: ResetToken, of owner: Owner) {
        if let digest = digest(token) { owners[digest] = owner }
    }

    /// Forgets a token of a connection of `owner`: ``QUICConnection/Event/resetTokenRetired(_:)``.
    public mutating func remove(_ token: ResetToken, of owner: Owner) {
        if let digest = digest(token), owners[digest] === owner { owners[digest] = nil }
    }

    /// Forgets them all.
    public mutating func removeAll() { owners = [:] }

    /// Finds the connection a datagram resets; nil when it is not a reset of one known here.
    public func owner(ofResetIn datagram: UnsafeRawBufferPointer) -> Owner? {
        guard !owners.isEmpty, datagram.count >= 21 else { return nil }
        let token = unsafe ResetToken(copying: UnsafeRawBufferPointer(rebasing: datagram[(datagram.count - 16)...]))
        return digest(token).flatMap { owners[$0] }
    }

    private func digest(_ token: ResetToken) -> ResetToken? {
        ResetToken(KeySchedule.statelessResetToken(key: key, connectionID: token.bytes))
    }
}
