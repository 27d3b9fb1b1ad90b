#if os(Linux)
import Foundation
import KithTesting
import Testing

@testable import Kith

/// References to all objects that a device is made of, which keep none of them.
private struct Parts {
    private struct Reference {
        let name: String
        weak var object: AnyObject?
    }

    private var references: [Reference] = []

    /// Takes a value, if it is an object, and each of an array of them.
    mutating func note(_ name: String, _ value: Any) {
        let mirror = Mirror(reflecting: value)
        if mirror.displayStyle == .optional {
            if let wrapped = mirror.children.first?.value { note(name, wrapped) }
        } else if mirror.displayStyle == .collection {
            for element in mirror.children { note(name, element.value) }
        } else if type(of: value) is AnyClass {
            references.append(Reference(name: name, object: value as AnyObject))
        }
    }

    /// Takes each object among the parts of a value.
    mutating func note(partsOf value: Any) {
        for child in Mirror(reflecting: value).children { note(child.label ?? "", child.value) }
    }

    var names: Set<String> { Set(references.map(\.name)) }
    /// Those that somebody keeps.
    var kept: [String] { references.filter { $0.object != nil }.map(\.name) }
}

@Suite(.timeLimit(.minutes(4))) struct `A device that nobody holds any more` {
    /// Runs two devices that are paired and talk, and lets go of them.
    private static func run(_ phoneFolder: String, _ laptopFolder: String) async throws -> Parts {
        var options = onLoopback
        var discovery = LocalDiscovery.Options()
        discovery.group.port = .random(in: 40_000..<50_000)
        options.discovery = discovery
        let laptop = try await Device.open(directory: laptopFolder, options: options)
        let phone = try await Device.open(directory: phoneFolder, options: options)
        let service = MathService()
        try laptop.add(service)
        var parts = Parts()
        parts.note("service", service)
        for device in [laptop, phone] {
            parts.note("device", device)
            parts.note("events", device.events as Any)
        }
        try await laptop.whileRunning {
            try await phone.whileRunning {
                for device in [laptop, phone] { parts.note(partsOf: try #require(device.parts)) }
                if try await phone.client.call(Devices.List.self, .init(probe: false)).isEmpty {
                    try await pair(phone, with: laptop, grants: [.node(pattern: "*")])
                }
                let peer = laptop.id.description
                let sum = try await phone.client.call(Math.Add.self, .init(a: 2, b: 3), on: peer)
                try #require(sum == 5)
                let sums = try await phone.client.open(Math.Running.self, Nothing(), on: peer).stream
                try await sums.send(Math.Number(value: 1))
                try #require(try await sums.receive() == Math.Number(value: 1))
                // A subscription and a stream that nobody ends.
                let subscription = try phone.subscribe("weather/*", as: Int.self)
                try phone.publish(20, to: "weather/here")
                for try await _ in subscription { break }
                parts.note("stream", sums)
            }
        }
        return parts
    }

    @Test func `is freed with all it was made of, as often as one comes and goes`() async {
        let turn = await ExitTestTurn.take()
        defer { turn.end() }
        // A process of its own: nobody else opens anything there.
        await #expect(processExitsWith: .success) {
            let (phone, laptop) = (try TemporaryFolder(), try TemporaryFolder())
            var (base, memory) = (Remains(), 0)
            let cycles = Remains.cycles
            for cycle in 0...cycles {
                let parts = try await Self.run(phone.path, laptop.path)
                let essential: Set = ["device", "node", "endpoint", "store", "sockets", "service", "events"]
                try #require(essential.isSubset(of: parts.names), "\(parts.names)")
                do {
                    // What ends last holds them for a moment longer than the device.
                    try await eventually(within: .seconds(60)) { parts.kept.isEmpty }
                } catch {
                    Issue.record("kept after \(cycle) times: \(parts.kept)")
                    throw error
                }
                // What the process has anyway is there from the first time on.
                if cycle == 0 { base = try Remains.now }
                if cycle == min(cycles / 2, 100) { memory = try Remains.memory }
            }
            // Threads of the system's pools come and go by themselves.
            try await eventually {
                let now = try Remains.now
                return now.sockets <= base.sockets && now.descriptors <= base.descriptors
                    && now.threads <= base.threads + 2
            }
            let grown = try Remains.memory - memory
            print("after \(cycles) times: \(try Remains.now), before: \(base); memory: \(memory) KiB and \(grown)")
            if cycles >= 200 { #expect(grown < Remains.memoryLimit, "memory does not grow") }
        }
    }
}
#endif
