import KithTesting
import KithWire
import Testing

@testable import KithNode

struct TopicTreeTests {
    private func values(_ entries: [TopicTree<Int>.Entry]) -> [Int] { entries.map { $0.value } }

    private func tree(_ paths: [String]) throws -> TopicTree<Int> {
        var tree = TopicTree<Int>()
        for (number, path) in paths.enumerated() { tree.insert(number, at: try TopicPath(path)) }
        return tree
    }

    @Test func `a topic finds itself, templates, and both wildcards`() throws {
        let tree = try tree(["a/b", "a/*", "a/>", "a/{x}", "a/b/c", "other:a/b", ">", "*", "a/b"])
        #expect(values(tree.entries(for: try TopicPath("a/b"))) == [0, 1, 2, 3, 6, 8])
        #expect(values(tree.entries(for: try TopicPath("a/b/c"))) == [2, 4, 6])
        #expect(values(tree.entries(for: try TopicPath("a"))) == [6, 7])
        #expect(values(tree.entries(for: try TopicPath("other:a/b"))) == [5])
        #expect(values(tree.entries(for: try TopicPath("none:a/b"))) == [])
        #expect(values(tree.entries(for: try TopicPath("a/*"))) == [])
    }

    @Test func `a pattern finds the topics it matches, and descendants are all there are beneath`() throws {
        let tree = try tree(["s/a", "s/a/x", "s/b", "s", "s/*", "s/>", "s/{p}/x", "t/a"])
        #expect(values(tree.entries(matching: try TopicPath("s/*"))) == [0, 2])
        #expect(values(tree.entries(matching: try TopicPath("s/>"))) == [0, 1, 2])
        #expect(values(tree.entries(matching: try TopicPath(">"))) == [0, 1, 2, 3, 7])
        #expect(values(tree.entries(matching: try TopicPath("*/a"))) == [0, 7])
        #expect(values(tree.entries(matching: try TopicPath("s/a"))) == [0])
        #expect(values(tree.entries(matching: try TopicPath("s/{p}"))) == [])
        #expect(values(tree.descendants(of: try TopicPath("s"))) == [0, 1, 2, 4, 5, 6])
        #expect(values(tree.descendants(of: try TopicPath("s/a"))) == [1])
        #expect(values(tree.descendants(of: try TopicPath("u"))) == [])
    }

    @Test func `what is at a path is read, changed and removed by its name`() throws {
        var tree = try tree(["a/{x}", "a/{y}", "a/*", "a/>", "a/{x}"])
        #expect(values(tree.entries(at: try TopicPath("a/{x}"))) == [0, 4])
        #expect(values(tree.entries(at: try TopicPath("a/*"))) == [2])
        let id = try #require(tree.entries(at: try TopicPath("a/>")).first?.id)
        #expect(tree[id] == 3)
        #expect(tree.remove(id) == 3)
        #expect(tree.remove(id) == nil)
        #expect(tree[id] == nil)
        #expect(tree.removeAll(at: try TopicPath("a/{x}")) == [0, 4])
        #expect(values(tree.entries(for: try TopicPath("a/b"))) == [1, 2])
        #expect(tree.count == 2)
    }

    @Test func `what is removed leaves nothing`() throws {
        var tree = TopicTree<Int>()
        for _ in 0..<100_000 {
            let id = tree.insert(0, at: try TopicPath("main:sensors/kitchen/>"))
            tree.remove(id)
        }
        #expect(tree.isEmpty)
        #expect(tree.nodeCount == 0)
        let kept = tree.insert(1, at: try TopicPath("main:a/b"))
        for number in 0..<1000 {
            let ids = try ["main:a/b/c\(number)/{x}", "main:a/c\(number)", "n\(number):x/>"].map {
                tree.insert(0, at: try TopicPath($0))
            }
            for id in ids { tree.remove(id) }
        }
        // The root of the network, `a` and `b`.
        #expect(tree.nodeCount == 3)
        #expect(tree[kept] == 1)
    }

    @Test(arguments: 0..<20) func `the tree finds what looking at every path finds`(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        func path(patterns: Bool) throws -> TopicPath {
            var segments: [String] = []
            for depth in 0..<Int.random(in: 1...4, using: &random) {
                switch patterns ? Int.random(in: 0..<6, using: &random) : 0 {
                case 1: segments.append("*")
                case 2: segments.append("{p\(depth)}")
                default: segments.append(["a", "b", "c"].randomElement(using: &random) ?? "a")
                }
            }
            if patterns, Int.random(in: 0..<5, using: &random) == 0 { segments.append(">") }
            return try TopicPath(["m:", "n:"].randomElement(using: &random)! + segments.joined(separator: "/"))
        }
        func stands(_ path: TopicPath, for topic: TopicPath) throws -> Bool {
            // A template stands for what a wildcard in each of its places does.
            let pattern = path.segments.map { segment in
                if case .parameter = segment { "*" } else { segment.description }
            }
            return try TopicPath("\(path.network):" + pattern.joined(separator: "/")).matches(topic)
        }
        var tree = TopicTree<Int>()
        var model: [(id: TopicTree<Int>.ID, path: TopicPath, value: Int)] = []
        for value in 0..<400 {
            if Int.random(in: 0..<3, using: &random) == 0, !model.isEmpty {
                let gone = model.remove(at: Int.random(in: model.indices, using: &random))
                #expect(tree.remove(gone.id) == gone.value)
            } else {
                let path = try path(patterns: true)
                model.append((tree.insert(value, at: path), path, value))
            }
            let topic = try path(patterns: false)
            let expected = try model.filter { try stands($0.path, for: topic) }.map(\.value)
            #expect(values(tree.entries(for: topic)) == expected, "\(topic) \(random)")
            let pattern = try path(patterns: true)
            #expect(
                values(tree.entries(matching: pattern)) == model.filter { pattern.matches($0.path) }.map(\.value),
                "\(pattern) \(random)")
            #expect(
                values(tree.descendants(of: topic))
                    == model.filter { $0.path.starts(with: topic) && $0.path != topic }.map(\.value),
                "\(topic) \(random)")
            #expect(tree.count == model.count)
        }
        for entry in model { tree.remove(entry.id) }
        #expect(tree.nodeCount == 0)
    }
}
