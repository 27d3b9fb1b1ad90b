import KithAPI
import KithTesting
import KithWire
import Synchronization
import Testing

@testable import KithNode

/// Reacts to events by what is given.
private struct Reacting: Service {
    let handlers: [Handler]

    init(_ handlers: Handler...) { self.handlers = handlers }
}

@Suite(.timeLimit(.minutes(4))) struct `A service that reacts to events` {
    private func node() throws -> Node {
        Node(id: try Friends.id(1), directory: MemoryDirectory(), logger: .quiet)
    }

    @Test func `handles one after the other, with the values of its pattern, and publishes itself`() async throws {
        let node = try node()
        try node.add(
            Reacting(
                .on("rooms/{room}/light") { (brightness: Int, event) in
                    try event.publish(
                        "\(event.parameters["room"] ?? "?") \(brightness) \(event.isLocal) \(event.sequence)",
                        to: "log/light")
                }))
        var log = try node.subscribe("log/*", as: String.self).makeAsyncIterator()
        for number in 1...3 { try node.publish(number, to: "rooms/hall/light") }
        var lines: [String] = []
        for _ in 1...3 { lines.append(try #require(try await log.next()).message) }
        #expect(lines.map { $0.prefix(11) } == ["hall 1 true", "hall 2 true", "hall 3 true"])
    }

    @Test func `an error in one handler hurts neither its next event nor anybody else`() async throws {
        let node = try node()
        let id = try node.add(
            Reacting(
                .on("work") { (number: Int, event) in
                    guard number != 2 else { throw KithError(.internal, "As asked.") }
                    try event.publish(number, to: "done/first")
                },
                .on("work") { (number: Int, event) in try event.publish(number, to: "done/second") }))
        var first = try node.subscribe("done/first", as: Int.self).makeAsyncIterator()
        var second = try node.subscribe("done/second", as: Int.self).makeAsyncIterator()
        try node.publish("not a number", to: "work")
        for number in 1...3 { try node.publish(number, to: "work") }
        #expect(try await [first.next()?.message, first.next()?.message] == [1, 3])
        #expect(try await [second.next()?.message, second.next()?.message, second.next()?.message] == [1, 2, 3])
        await node.remove(id)
        #expect(node.hub.counts.subscriptions == 2)
        #expect(try node.publish(4, to: "work").subscribers == 0)
    }

    @Test func `a handler that never returns keeps neither its service nor other handlers`() async throws {
        let node = try node()
        let started = Signal()
        let id = try node.add(
            Reacting(
                .on("hang") { (_: Int, _) in
                    started.open()
                    try await untilCancelled()
                }))
        try node.add(Reacting(.on("hang") { (number: Int, event) in try event.publish(number, to: "through") }))
        let through = try node.once("through", as: Int.self, timeout: .seconds(60))
        try node.publish(5, to: "hang")
        await started.wait()
        #expect(try await through.value().message == 5)
        await node.remove(id)
        #expect(node.hub.counts.subscriptions == 1)
    }

    @Test func `hears nothing while its service is paused, and its states are events`() async throws {
        struct Lamp: Service {
            let info = ServiceInfo("lamp")
            var handlers: [Handler] {
                [
                    .on("light") { (number: Int, event) in try event.publish(number, to: "shone") },
                    .action("shine") { (number: Int, context) in
                        try context.publish(number, to: "light").subscribers
                    },
                ]
            }
        }
        let node = try node()
        let states = try node.subscribe("$registry/services/*/state", as: ServiceState.self)
        try node.add(Lamp())
        var shone = try node.subscribe("shone", as: Int.self).makeAsyncIterator()
        let heard: UInt64 = try await node.client.request("lamp/shine", 1)
        #expect(heard == 1)
        #expect(try await shone.next()?.message == 1)
        try node.pause("lamp")
        #expect(try node.publish(2, to: "light").subscribers == 0)
        try node.resume("lamp")
        #expect(try node.publish(3, to: "light").subscribers == 1)
        #expect(try await shone.next()?.message == 3)
        var seen: [ServiceState] = []
        var iterator = states.makeAsyncIterator()
        for _ in 0..<5 { seen.append(try #require(try await iterator.next()).message) }
        #expect(seen == [.created, .starting, .running, .paused, .running])
        let newest = try node.once("$registry/services/lamp/state", as: ServiceState.self, lookBack: .seconds(60))
        #expect(try await newest.value().message == .running)
    }

    @Test func `a pattern that is none is refused, and nothing of its service is added`() throws {
        let node = try node()
        #expect(throws: KithError.self) {
            try node.add(Reacting(.call(Ask.self) { input, _ in input }, .on("a/>/b") { (_: Int, _) in }))
        }
        try node.add(Reacting(.call(Ask.self) { input, _ in input }))
    }

    @Test func `a node that goes takes its listeners along`() async throws {
        var node: Node? = try node()
        let hub = try #require(node).hub
        try node?.add(Reacting(.on("x") { (_: Int, _) in }))
        #expect(hub.counts.subscriptions == 1)
        node = nil
        try await eventually { hub.counts.subscriptions == 0 }
    }
}
