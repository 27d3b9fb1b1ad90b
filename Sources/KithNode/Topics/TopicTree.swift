import KithWire

/// Values at paths and patterns, found by the topics they stand for.
///
/// One tree for each network. Looking a topic up takes a few steps for each of its segments, whatever the number of
/// paths; what is removed leaves nothing behind. A path may have any number of values.
struct TopicTree<Value> {
    /// Names a value in its tree; no other value ever gets the same.
    struct ID: Hashable, Sendable {
        fileprivate let number: UInt64
    }

    /// A value, and where it is.
    struct Entry {
        let id: ID
        let path: TopicPath
        var value: Value
    }

    /// Where paths with the same beginning part.
    fileprivate struct Node {
        /// The node above; its own index at the root of a network.
        var parent: Int
        /// The segment that leads here from there; `.rest` at a root.
        var segment: TopicPath.Segment
        var literals: [String: Int] = [:]
        /// Behind `*` or a parameter: any one segment.
        var one: Int?
        /// The entries whose path ends here, and those that go on with `>`, in the order of their numbers.
        var ends: [Entry] = []
        var rests: [Entry] = []

        var isEmpty: Bool { literals.isEmpty && one == nil && ends.isEmpty && rests.isEmpty }
    }

    private var nodes: [Node] = []
    /// Indices of `nodes` that are free.
    private var free: [Int] = []
    private var roots: [String: Int] = [:]
    private var homes: [ID: Int] = [:]
    private var lastNumber: UInt64 = 0

    init() {}

    /// The number of values.
    var count: Int { homes.count }

    /// Every value, in no order.
    var all: [Value] { nodes.flatMap { ($0.ends + $0.rests).map(\.value) } }

    /// True without any value.
    var isEmpty: Bool { homes.isEmpty }

    /// The number of nodes that are kept, for tests of what removal leaves.
    var nodeCount: Int { nodes.count - free.count }

    /// Adds a value at a path, behind those that are there.
    @discardableResult
    mutating func insert(_ value: Value, at path: TopicPath) -> ID {
        lastNumber += 1
        let id = ID(number: lastNumber)
        let index = makeNode(for: path)
        let entry = Entry(id: id, path: path, value: value)
        if path.segments.last == .rest {
            nodes[index].rests.append(entry)
        } else {
            nodes[index].ends.append(entry)
        }
        homes[id] = index
        return id
    }

    /// Removes a value; `nil` when it is not there.
    @discardableResult
    mutating func remove(_ id: ID) -> Value? {
        guard let index = homes.removeValue(forKey: id) else { return nil }
        let value: Value
        if let place = nodes[index].ends.firstIndex(where: { $0.id == id }) {
            value = nodes[index].ends.remove(at: place).value
        } else if let place = nodes[index].rests.firstIndex(where: { $0.id == id }) {
            value = nodes[index].rests.remove(at: place).value
        } else {
            preconditionFailure("a value is not where it was put")
        }
        prune(from: index)
        return value
    }

    /// Removes every value at exactly this path; returns them in the order in which they came.
    @discardableResult
    mutating func removeAll(at path: TopicPath) -> [Value] {
        entries(at: path).compactMap { remove($0.id) }
    }

    /// The value named by `id`, to be read and changed; `nil` when it is not there.
    subscript(id: ID) -> Value? {
        guard let index = homes[id] else { return nil }
        return (nodes[index].ends.first { $0.id == id } ?? nodes[index].rests.first { $0.id == id })?.value
    }

    /// Changes the value named by `id`; `nil` when it is not there.
    mutating func change<Result>(_ id: ID, _ body: (inout Value) -> Result) -> Result? {
        guard let index = homes[id] else { return nil }
        if let place = nodes[index].ends.firstIndex(where: { $0.id == id }) {
            return body(&nodes[index].ends[place].value)
        }
        guard let place = nodes[index].rests.firstIndex(where: { $0.id == id }) else { return nil }
        return body(&nodes[index].rests[place].value)
    }

    /// Visits the entries whose path stands for `topic`, a concrete one: itself, patterns and templates; in no order.
    func visit(_ topic: TopicPath, _ body: (borrowing Entry) -> Void) {
        guard topic.isConcrete, let root = roots[topic.network] else { return }
        visit(topic.segments, from: 0, at: root, body)
    }

    private func visit(
        _ segments: [TopicPath.Segment], from depth: Int, at index: Int, _ body: (borrowing Entry) -> Void
    ) {
        guard depth < segments.count, case .literal(let text) = segments[depth] else {
            for entry in nodes[index].ends { body(entry) }
            return
        }
        for entry in nodes[index].rests { body(entry) }
        if let next = nodes[index].literals[text] { visit(segments, from: depth + 1, at: next, body) }
        if let next = nodes[index].one { visit(segments, from: depth + 1, at: next, body) }
    }

    /// The entries at exactly this path, in the order in which they came.
    func entries(at path: TopicPath) -> [Entry] {
        guard let index = findNode(for: path) else { return [] }
        // `*` and parameters share a node.
        return (path.segments.last == .rest ? nodes[index].rests : nodes[index].ends).filter { $0.path == path }
    }

    /// The entries whose path stands for `topic`, a concrete one: itself, patterns and templates; in the order in which
    /// they came.
    func entries(for topic: TopicPath) -> [Entry] {
        guard topic.isConcrete, let root = roots[topic.network] else { return [] }
        var found: [Entry] = []
        collect(topic.segments, from: 0, at: root, into: &found)
        if found.count > 1 { found.sort { $0.id.number < $1.id.number } }
        return found
    }

    private func collect(
        _ segments: [TopicPath.Segment], from depth: Int, at index: Int, into found: inout [Entry]
    ) {
        guard depth < segments.count, case .literal(let text) = segments[depth] else {
            if !nodes[index].ends.isEmpty { found += nodes[index].ends }
            return
        }
        if !nodes[index].rests.isEmpty { found += nodes[index].rests }
        if let next = nodes[index].literals[text] { collect(segments, from: depth + 1, at: next, into: &found) }
        if let next = nodes[index].one { collect(segments, from: depth + 1, at: next, into: &found) }
    }

    /// The entries at concrete paths that `pattern` matches, in the order in which they came.
    func entries(matching pattern: TopicPath) -> [Entry] {
        guard let root = roots[pattern.network] else { return [] }
        var found: [Entry] = []
        collectConcrete(pattern.segments[...], from: root, into: &found)
        found.sort { $0.id.number < $1.id.number }
        return found
    }

    private func collectConcrete(
        _ segments: ArraySlice<TopicPath.Segment>, from index: Int, into found: inout [Entry]
    ) {
        switch segments.first {
        case nil: found += nodes[index].ends
        case .literal(let text):
            if let next = nodes[index].literals[text] {
                collectConcrete(segments.dropFirst(), from: next, into: &found)
            }
        case .one:
            for next in nodes[index].literals.values { collectConcrete(segments.dropFirst(), from: next, into: &found) }
        case .rest:
            for next in nodes[index].literals.values {
                found += nodes[next].ends
                collectConcrete(segments, from: next, into: &found)
            }
        case .parameter: return
        }
    }

    /// Every entry beneath a path, at any depth, patterns and templates too; not those at the path itself.
    func descendants(of path: TopicPath) -> [Entry] {
        guard let index = findNode(for: path) else { return [] }
        var found: [Entry] = []
        var waiting = [index]
        while let next = waiting.popLast() {
            if next != index { found += nodes[next].ends }
            found += nodes[next].rests
            waiting += nodes[next].literals.values
            if let one = nodes[next].one { waiting.append(one) }
        }
        found.sort { $0.id.number < $1.id.number }
        return found
    }

    // MARK: - Nodes

    private func findNode(for path: TopicPath) -> Int? {
        guard var index = roots[path.network] else { return nil }
        for segment in path.segments {
            let next: Int?
            switch segment {
            case .literal(let text): next = nodes[index].literals[text]
            case .one, .parameter: next = nodes[index].one
            case .rest: return index
            }
            guard let next else { return nil }
            index = next
        }
        return index
    }

    private mutating func makeNode(for path: TopicPath) -> Int {
        var index: Int
        if let root = roots[path.network] {
            index = root
        } else {
            index = allocate(Node(parent: 0, segment: .rest))
            nodes[index].parent = index
            roots[path.network] = index
        }
        for segment in path.segments {
            switch segment {
            case .literal(let text):
                if let next = nodes[index].literals[text] {
                    index = next
                } else {
                    let next = allocate(Node(parent: index, segment: segment))
                    nodes[index].literals[text] = next
                    index = next
                }
            case .one, .parameter:
                if let next = nodes[index].one {
                    index = next
                } else {
                    let next = allocate(Node(parent: index, segment: .one))
                    nodes[index].one = next
                    index = next
                }
            case .rest: break
            }
        }
        return index
    }

    private mutating func allocate(_ node: Node) -> Int {
        if let index = free.popLast() {
            nodes[index] = node
            return index
        }
        nodes.append(node)
        return nodes.count - 1
    }

    /// Gives back a node that has become empty, and those above it that have.
    private mutating func prune(from index: Int) {
        var index = index
        while nodes[index].isEmpty {
            let (parent, segment) = (nodes[index].parent, nodes[index].segment)
            free.append(index)
            if parent == index {
                roots = roots.filter { $0.value != index }
                break
            }
            if case .literal(let text) = segment {
                nodes[parent].literals[text] = nil
            } else {
                nodes[parent].one = nil
            }
            index = parent
        }
        if homes.isEmpty { (nodes, free) = ([], []) }
    }
}

extension TopicTree: Sendable where Value: Sendable {}
extension TopicTree.Entry: Sendable where Value: Sendable {}
extension TopicTree.Node: Sendable where Value: Sendable {}
