/// One of a member's two ratchets (RFC 9420 §9).
package enum RatchetKind: Int, Hashable, Sendable {
    case handshake
    case application

    package init(_ type: ContentType) { self = type == .application ? .application : .handshake }

    var label: String { self == .handshake ? "handshake" : "application" }
}

/// The key and nonce of one message (RFC 9420 §9.1); cleared with the last reference.
package final class MessageKey: Sendable {
    package let key: Secret
    package let nonce: [UInt8]

    init(_ suite: any CipherSuite, ratchetSecret: borrowing Secret, generation: UInt32) {
        key = suite.derive(ratchetSecret, "key", generation: generation, count: suite.keyLength)
        nonce = suite.derive(ratchetSecret, "nonce", generation: generation, count: suite.nonceLength).reveal()
    }

    init(key: consuming Secret, nonce: [UInt8]) {
        self.key = key
        self.nonce = nonce
    }
}

/// The limits on messages that come out of order (RFC 9420 §9.1, §15.3).
public struct RatchetLimits: Hashable, Sendable {
    /// The number of generations a message may be ahead of the last one of its sender.
    public var forward: UInt32
    /// The number of keys of skipped messages that are kept for each ratchet.
    public var outOfOrder: Int

    /// Takes both limits.
    public init(forward: UInt32 = 1024, outOfOrder: Int = 256) {
        self.forward = forward
        self.outOfOrder = outOfOrder
    }
}

/// One member's chain of message keys (RFC 9420 §9.1).
struct HashRatchet: Sendable {
    /// The generation whose keys ``secret`` gives; nil when the chain has ended.
    private(set) var generation: UInt32 = 0
    private(set) var secret: SecretBox
    /// Keys of generations that were passed over, and not yet used.
    private(set) var skipped: [UInt32: MessageKey] = [:]
    /// The generations whose place in ``skipped`` has changed since somebody looked.
    var touched: [UInt32] = []

    init(_ secret: consuming Secret) { self.secret = SecretBox(secret) }

    /// Puts a stored ratchet together again.
    init(_ secret: consuming Secret, generation: UInt32, skipped: [UInt32: MessageKey]) {
        self.secret = SecretBox(secret)
        self.generation = generation
        self.skipped = skipped
    }

    private mutating func step(_ suite: any CipherSuite) throws(MLSError) -> MessageKey {
        guard generation < .max else { throw .ratchetExhausted }
        let key = MessageKey(suite, ratchetSecret: secret.secret, generation: generation)
        secret = SecretBox(
            suite.derive(secret.secret, "secret", generation: generation, count: suite.secretLength))
        generation += 1
        return key
    }

    /// The next unused key, for sending; `keeps` a few of them for whoever wants to read what it wrote.
    mutating func next(
        _ suite: any CipherSuite, keeps: Int = 0
    ) throws(MLSError) -> (generation: UInt32, key: MessageKey) {
        let current = generation
        let key = try step(suite)
        if keeps > 0 {
            pass(current, key)
            forget(beyond: keeps)
        }
        return (current, key)
    }

    private mutating func pass(_ generation: UInt32, _ key: MessageKey) {
        skipped[generation] = key
        touched.append(generation)
    }

    /// Gives up the oldest keys that were passed over.
    private mutating func forget(beyond limit: Int) {
        guard skipped.count > limit else { return }
        for old in skipped.keys.sorted().prefix(skipped.count - limit) {
            skipped.removeValue(forKey: old)
            touched.append(old)
        }
    }

    /// The key of a generation, for receiving; it is gone afterwards.
    mutating func take(
        _ wanted: UInt32, _ suite: any CipherSuite, limits: RatchetLimits
    ) throws(MLSError) -> MessageKey {
        if wanted < generation {
            guard let key = skipped.removeValue(forKey: wanted) else { throw .messageKeyUsed }
            touched.append(wanted)
            return key
        }
        guard wanted - generation <= limits.forward else { throw .generationTooFarAhead }
        while generation < wanted {
            let passed = generation
            let key = try step(suite)
            if wanted - passed <= limits.outOfOrder { pass(passed, key) }
        }
        let key = try step(suite)
        forget(beyond: limits.outOfOrder)
        return key
    }
}

/// The source of all message keys of an epoch, derived where needed and deleted where used (RFC 9420 §9).
package struct SecretTree: Sendable {
    private let suite: any CipherSuite
    private let depth: Int
    /// Secrets of nodes from which nothing was derived yet.
    private(set) var nodes: [UInt32: SecretBox]
    private(set) var ratchets: [RatchetID: HashRatchet] = [:]
    /// The changes since it was stored; `nil` when it never was.
    var journal: Journal?

    struct RatchetID: Hashable, Sendable {
        let leaf: UInt32
        let kind: RatchetKind
    }

    /// The parts whose stored rows are out of date.
    struct Journal: Sendable {
        var nodes: Set<UInt32> = []
        var ratchets: Set<RatchetID> = []
        var skipped: [RatchetID: Set<UInt32>] = [:]
    }

    /// `leaves` is the tree's room, a power of two.
    package init(_ suite: any CipherSuite, encryptionSecret: consuming Secret, leaves: UInt32) {
        self.suite = suite
        depth = leaves.trailingZeroBitCount
        nodes = [TreeMath.root(leaves: leaves): SecretBox(encryptionSecret)]
    }

    /// Puts a stored tree together again.
    init(
        _ suite: any CipherSuite, leaves: UInt32, nodes: [UInt32: SecretBox], ratchets: [RatchetID: HashRatchet],
        isStored: Bool
    ) throws(MLSError) {
        self.suite = suite
        depth = leaves.trailingZeroBitCount
        let count = TreeMath.nodeCount(leaves: leaves)
        guard nodes.keys.allSatisfy({ $0 < count }), ratchets.keys.allSatisfy({ $0.leaf < leaves }) else {
            throw .misplacedNode
        }
        self.nodes = nodes
        self.ratchets = ratchets
        journal = isStored ? Journal() : nil
    }

    /// The nodes whose secrets are held, in rising order.
    var knownNodes: [UInt32] { nodes.keys.sorted() }

    /// The change that taking a key makes, to be applied once the message has proved genuine.
    package struct Step: Sendable {
        package let key: MessageKey
        package let generation: UInt32
        fileprivate let id: RatchetID
        fileprivate let ratchet: HashRatchet
        fileprivate var opened: Opened?
    }

    /// The way from a node whose secret is known down to a leaf: what is consumed, and what is learnt besides.
    fileprivate struct Opened: Sendable {
        let consumed: UInt32
        var siblings: [(node: UInt32, secret: SecretBox)] = []
        let other: (id: RatchetID, ratchet: HashRatchet)
    }

    /// Finds a member's ratchet, deriving it from the lowest known node above when it is not there yet.
    private func ratchet(_ id: RatchetID) throws(MLSError) -> (ratchet: HashRatchet, opened: Opened?) {
        if let known = ratchets[id] { return (known, nil) }
        guard id.leaf >> depth == 0,
            var level = (0...depth).first(where: { nodes[TreeMath.ancestor(ofLeaf: id.leaf, level: $0)] != nil })
        else { throw .messageKeyUsed }
        let start = TreeMath.ancestor(ofLeaf: id.leaf, level: level)
        guard var box = nodes[start] else { throw .messageKeyUsed }
        var siblings: [(UInt32, SecretBox)] = []
        while level > 0 {
            level -= 1
            let left = SecretBox(
                suite.expand(box.secret, label: "tree", context: Array("left".utf8), count: suite.secretLength))
            let right = SecretBox(
                suite.expand(box.secret, label: "tree", context: Array("right".utf8), count: suite.secretLength))
            let isLeft = id.leaf >> level & 1 == 0
            siblings.append((TreeMath.ancestor(ofLeaf: id.leaf ^ (1 << level), level: level), isLeft ? right : left))
            box = isLeft ? left : right
        }
        func begin(_ kind: RatchetKind) -> HashRatchet {
            HashRatchet(suite.expand(box.secret, label: kind.label, count: suite.secretLength))
        }
        let otherKind: RatchetKind = id.kind == .handshake ? .application : .handshake
        let opened = Opened(
            consumed: start, siblings: siblings,
            other: (RatchetID(leaf: id.leaf, kind: otherKind), begin(otherKind)))
        return (begin(id.kind), opened)
    }

    /// The next key for sending as the member at `leaf`; nothing changes before ``apply(_:)``.
    ///
    /// `keeps` of the keys stay, for a client that wants to read its own messages.
    package func next(leaf: UInt32, _ kind: RatchetKind, keeps: Int = 0) throws(MLSError) -> Step {
        let id = RatchetID(leaf: leaf, kind: kind)
        var (ratchet, opened) = try ratchet(id)
        let (generation, key) = try ratchet.next(suite, keeps: keeps)
        return Step(key: key, generation: generation, id: id, ratchet: ratchet, opened: opened)
    }

    /// The key of a received message; nothing changes before ``apply(_:)``.
    package func key(
        leaf: UInt32, _ kind: RatchetKind, generation: UInt32, limits: RatchetLimits
    ) throws(MLSError) -> Step {
        let id = RatchetID(leaf: leaf, kind: kind)
        var (ratchet, opened) = try ratchet(id)
        let key = try ratchet.take(generation, suite, limits: limits)
        return Step(key: key, generation: generation, id: id, ratchet: ratchet, opened: opened)
    }

    /// Deletes what a step consumed and keeps what it left (§9.2).
    package mutating func apply(_ step: Step) {
        set(step.ratchet, step.id)
        if let opened = step.opened { apply(opened) }
    }

    /// Derives a member's ratchets already, so that its first message changes no more than its ratchet.
    mutating func open(leaf: UInt32) {
        let id = RatchetID(leaf: leaf, kind: .application)
        // A leaf that is beyond the tree, or whose secret is gone, has none.
        guard ratchets[id] == nil, let (ratchet, opened) = try? ratchet(id) else { return }
        set(ratchet, id)
        if let opened { apply(opened) }
    }

    private mutating func apply(_ opened: Opened) {
        nodes.removeValue(forKey: opened.consumed)
        for (node, secret) in opened.siblings { nodes[node] = secret }
        ratchets[opened.other.id] = opened.other.ratchet
        guard journal != nil else { return }
        journal?.nodes.insert(opened.consumed)
        for (node, _) in opened.siblings { journal?.nodes.insert(node) }
        journal?.ratchets.insert(opened.other.id)
    }

    private mutating func set(_ ratchet: HashRatchet, _ id: RatchetID) {
        var ratchet = ratchet
        if journal != nil {
            journal?.ratchets.insert(id)
            if !ratchet.touched.isEmpty { journal?.skipped[id, default: []].formUnion(ratchet.touched) }
        }
        ratchet.touched = []
        ratchets[id] = ratchet
    }
}
