import Kith
import KithTesting
import Testing

/// Whole devices that find each other on the loopback interface.
@Suite(.timeLimit(.minutes(4))) struct `A device on a local network` {
    private static let options: Device.Options = {
        var options = onLoopback
        var discovery = LocalDiscovery.Options()
        discovery.group.port = .random(in: 30_000..<40_000)
        discovery.group6 = nil
        options.discovery = discovery
        return options
    }()

    private func info(of name: String, at device: Device) async throws -> Devices.Info {
        try #require(try await device.client.call(Devices.List.self, .init(probe: false, device: name)).first)
    }

    @Test func `is found by a paired one where it has moved to while neither could tell the other`() async throws {
        let (there, here) = (try TemporaryFolder(), try TemporaryFolder())
        var options = Self.options
        options.name = "laptop"
        options.services.own = [MathService()]
        let phone = try await Device.open(directory: here.path, options: Self.options)
        var port: UInt16 = 0
        let first = try await Device.open(directory: there.path, options: options)
        try await first.whileRunning {
            try await phone.whileRunning { try await pair(phone, with: first, grants: [.node(pattern: "*")]) }
            port = try #require(first.addresses.first?.port)
        }
        try await phone.whileRunning {
            #expect(try await info(of: "laptop", at: phone).localAddresses == nil)
            // Another port, of which nobody is told but by the announcement.
            options.port = 0
            options.endpoint.bindAddresses = [NetworkAddress(ipv4: (127, 0, 0, 1), port: port ^ 1)]
            let moved = try await Device.open(directory: there.path, options: options)
            try await moved.whileRunning {
                try await eventually { try await info(of: "laptop", at: phone).localAddresses == moved.addresses }
                #expect(try await phone.client.call(Math.Add.self, .init(a: 2, b: 3), on: "laptop") == 5)
                let status = try await phone.client.call(ThisDevice.Status.self, Nothing())
                #expect(status.discovery?.heard == [moved.id])
                #expect(status.problems?.contains { $0.hasPrefix("Devices on this network") } == false)
                var steps: [Reach.Step] = []
                for try await step in try await phone.client.open(Reach.Examine.self, .init(device: "laptop")).stream
                    .messages
                { steps.append(step) }
                let local = steps.filter { $0.subject == "local network" }.map(\.finding)
                #expect(local.count == 2)
                #expect(local.first?.contains("heard: laptop") == true, "\(local)")
                #expect(local.last?.contains(moved.addresses[0].description) == true, "\(local)")
            }
            // It said goodbye.
            try await eventually { try await info(of: "laptop", at: phone).localAddresses == nil }
        }
    }

    @Test func `is looked for at once when it has just been paired`() async throws {
        let (there, here) = (try TemporaryFolder(), try TemporaryFolder())
        var options = Self.options
        options.discovery?.interval = .seconds(3_600)
        let phone = try await Device.open(directory: here.path, options: options)
        options.name = "laptop"
        let laptop = try await Device.open(directory: there.path, options: options)
        try await laptop.whileRunning {
            try await phone.whileRunning {
                // Real time: what each says at its start, and the other does not listen to, is over by then.
                try await Task.sleep(for: .seconds(6))
                try await pair(phone, with: laptop, grants: [.node(pattern: "*")])
                try await eventually { try await info(of: "laptop", at: phone).localAddresses == laptop.addresses }
                let other = try #require(try await laptop.client.call(Devices.List.self, .init(probe: false)).first)
                try await eventually { try await info(of: other.name, at: laptop).localAddresses == phone.addresses }
            }
        }
    }

    @Test func `is looked for first at an address that was given`() async throws {
        let (there, here) = (try TemporaryFolder(), try TemporaryFolder())
        var options = onLoopback
        options.name = "laptop"
        options.services.own = [MathService()]
        var phone = try await Device.open(directory: here.path, options: onLoopback)
        var laptop = try await Device.open(directory: there.path, options: options)
        try await laptop.whileRunning {
            try await phone.whileRunning { try await pair(phone, with: laptop, grants: [.node(pattern: "*")]) }
        }
        options.endpoint.bindAddresses[0].port = try #require(laptop.addresses.first?.port) ^ 1
        laptop = try await Device.open(directory: there.path, options: options)
        let moved = laptop
        try await moved.whileRunning {
            try await phone.whileRunning {
                _ = await #expect(throws: KithError(.unreachable, "")) {
                    try await phone.client.call(Math.Add.self, .init(a: 2, b: 3), on: "laptop")
                }
            }
            let port = try #require(moved.addresses.first?.port)
            let host = try #require(HostAndPort("localhost:\(port)"))
            for (name, isHost) in [("laptop", false), (laptop.id.description, false), ("laptop", true)] {
                var told = onLoopback
                if isHost { told.peerHosts = [name: [host]] } else { told.peerAddresses = [name: moved.addresses] }
                phone = try await Device.open(directory: here.path, options: told)
                let knowing = phone
                try await knowing.whileRunning {
                    let sum = try await knowing.client.call(Math.Add.self, .init(a: 2, b: 3), on: "laptop")
                    #expect(sum == 5)
                }
            }
        }
    }

    @Test func `announces nothing unless it is told to`() async throws {
        let folder = try TemporaryFolder()
        let device = try await Device.open(directory: folder.path, options: onLoopback)
        try await device.whileRunning {
            let status = try await device.client.call(ThisDevice.Status.self, Nothing())
            #expect(status.discovery == nil)
        }
    }

    @Test(arguments: [true, false]) func `names the group that it announces itself to, if it does`(isUsed: Bool)
        async throws
    {
        let folder = try TemporaryFolder()
        var options = Self.options
        options.discovery?.usesGroups = isUsed
        let device = try await Device.open(directory: folder.path, options: options)
        try await device.whileRunning {
            let status = try await device.client.call(ThisDevice.Status.self, Nothing())
            #expect(try #require(status.discovery).group == (isUsed ? options.discovery?.group : nil))
            var steps: [Reach.Step] = []
            for try await step in try await device.client.open(Reach.Examine.self, .init(device: nil)).stream.messages {
                steps.append(step)
            }
            let local = try #require(steps.first { $0.subject == "local network" })
            #expect(local.finding.contains("by multicast DNS alone") == !isUsed, "\(local)")
        }
    }

    @Test func `listens on the networks it may use, and tells others of no other address`() async throws {
        let folder = try TemporaryFolder()
        var options = Device.Options()
        options.network = NetworkPolicy(interface: "no such interface", allowsIPv6: false)
        let device = try await Device.open(directory: folder.path, options: options)
        try await device.whileRunning {
            let status = try await device.client.call(ThisDevice.Status.self, Nothing())
            #expect(!status.addresses.isEmpty && status.addresses.allSatisfy { $0.isLoopback && !$0.isIPv6 })
        }
    }
}
