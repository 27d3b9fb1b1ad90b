import Kith
import KithTesting
import Synchronization
import Testing

// `import Kith` alone: whoever embeds a device names nothing else.

/// Methods from outside the package.
enum Math {
    struct Pair: Codable, Sendable {
        var a: Int
        var b: Int
    }

    struct Number: StreamMessage, Hashable {
        var value: Int
    }

    enum Add: Method {
        typealias Input = Pair
        typealias Output = Int
        static let header = MethodHeader.action("math.add", by: .grant(.node), "Adds two numbers.")
    }

    enum Running: StreamMethod {
        typealias Input = Nothing
        typealias Output = Nothing
        typealias Upstream = Number
        typealias Downstream = Number
        static let header = MethodHeader.stream(
            "math.running", by: .grant(.node), "Answers each number with the sum so far.")
    }

    enum First: StreamMethod {
        typealias Input = Nothing
        typealias Output = Nothing
        typealias Upstream = Number
        typealias Downstream = Number
        static let header = MethodHeader.stream("math.first", by: .grant(.node), "Answers one number, and ends.")
    }
}

final class MathService: Service {
    let stops = Atomic(0)

    var handlers: [Handler] {
        [
            .call(Math.Add.self) { input, _ in
                let (sum, isTooLarge) = input.a.addingReportingOverflow(input.b)
                guard !isTooLarge else {
                    throw KithError(
                        .conflict, "The sum is too large.", detail: try KithError.Detail("math.overflow", data: input))
                }
                return sum
            },
            .stream(Math.Running.self) { _, _, pending in
                let stream = try await pending.accept()
                var sum = 0
                for try await number in stream.messages {
                    let (next, isTooLarge) = sum.addingReportingOverflow(number.value)
                    guard !isTooLarge else {
                        throw KithError(
                            .conflict, "The sum is too large.",
                            detail: try KithError.Detail("math.overflow", data: Math.Pair(a: sum, b: number.value)))
                    }
                    sum = next
                    try await stream.send(Math.Number(value: sum))
                }
            },
            .stream(Math.First.self) { _, _, pending in
                let stream = try await pending.accept()
                if let number = try await stream.receive() { try await stream.send(number) }
            },
        ]
    }

    func stop() async { stops.add(1, ordering: .relaxed) }
}

let onLoopback: Device.Options = {
    var options = Device.Options()
    options.endpoint.bindAddresses = [NetworkAddress(ipv4: (127, 0, 0, 1), port: 0)]
    return options
}()

/// Pairs `phone` with `laptop`, where it may do what `grants` say.
func pair(_ phone: Device, with laptop: Device, grants: [Grant]) async throws {
    let invitation = try await laptop.client.call(
        Invitations.Create.self, .init(grants: grants, lifetimeSeconds: 60, isAutomatic: true))
    try await join(phone, invitation.text)
}

/// Takes an invitation for `phone`.
func join(_ phone: Device, _ invitation: String) async throws {
    let joining = try await phone.client.open(
        PairingMethods.Join.self, .init(invitation: invitation, grants: [])
    ).stream
    for try await event in joining.messages {
        switch event {
        case .compare: try await joining.send(.init(accept: true))
        case .paired: return
        case .failed(let code, let message): throw KithError(code, message)
        }
    }
    throw KithError(.closed, "The pairing ended without a word.")
}

@Suite(.timeLimit(.minutes(4))) struct `A device that is embedded` {
    @Test func `serves methods of an application to devices that hold their grant, and says so in its log`()
        async throws
    {
        let (there, here) = (try TemporaryFolder(), try TemporaryFolder())
        var options = onLoopback
        options.name = "laptop"
        options.services.own = [MathService()]
        let laptop = try await Device.open(directory: there.path, options: options)
        let phone = try await Device.open(directory: here.path, options: onLoopback)
        try await laptop.whileRunning {
            try await phone.whileRunning {
                try await pair(phone, with: laptop, grants: [.node(pattern: "math.*")])
                #expect(try await phone.client.call(Math.Add.self, .init(a: 2, b: 3), on: "laptop") == 5)
                let sums = try await phone.client.open(Math.Running.self, Nothing(), on: "laptop").stream
                for (number, sum) in [(1, 1), (2, 3), (3, 6)] {
                    try await sums.send(Math.Number(value: number))
                    #expect(try await sums.receive() == Math.Number(value: sum))
                }
                try await sums.finish()
                #expect(try await sums.receive() == nil)
                _ = try await laptop.client.call(
                    Devices.ChangeGrants.self,
                    .init(
                        device: phone.id.description, add: [.node(pattern: "maths.*")],
                        remove: [.node(pattern: "math.*")]))
                await #expect(throws: KithError(.denied, "")) {
                    try await phone.client.call(Math.Add.self, .init(a: 2, b: 3), on: "laptop")
                }
                let log = try await laptop.client.call(Audit.List.self, .init(limit: 100))
                    .filter { $0.method == "math.add" }
                #expect(Set(log.map(\.decision)) == ["allowed", "denied"])
                #expect(log.allSatisfy { $0.detail == "node:math.add" })
            }
        }
    }

    @Test func `takes a service while it runs, and a removed one is ended with its calls`() async throws {
        let folder = try TemporaryFolder()
        let device = try await Device.open(directory: folder.path, options: onLoopback)
        try await device.whileRunning {
            let service = MathService()
            let id = try device.add(service)
            #expect(throws: KithError(.conflict, "")) { try device.add(MathService()) }
            #expect(try await device.client.call(Math.Add.self, .init(a: 2, b: 3)) == 5)
            let sums = try await device.client.open(Math.Running.self, Nothing()).stream
            await device.remove(id)
            #expect(service.stops.load(ordering: .relaxed) == 1)
            await #expect(throws: KithError(.unsupported, "")) { try await sums.receive() }
            await #expect(throws: KithError(.unsupported, "")) {
                try await device.client.call(Math.Add.self, .init(a: 2, b: 3))
            }
            await device.remove(id)
            #expect(service.stops.load(ordering: .relaxed) == 1)
            try device.add(MathService())
            #expect(try await device.client.call(Math.Add.self, .init(a: 1, b: 1)) == 2)
        }
    }

    @Test func `has only the services that were chosen`() async throws {
        let folder = try TemporaryFolder()
        var options = onLoopback
        options.services = .only([MathService()])
        let device = try await Device.open(directory: folder.path, options: options)
        try await device.whileRunning {
            let names = try await device.client.call(API.Describe.self, Nothing()).methods.map(\.name)
            #expect(names.contains("math.add") && names.contains("device.status"))
            #expect(
                !names.contains { name in ["shell.", "files.", "forward.", "inbox."].contains { name.hasPrefix($0) } })
        }
        options.services = Device.Services(own: [MathService(), MathService()])
        let twice = options
        await #expect(throws: KithError(.conflict, "")) {
            try await Device.open(directory: folder.path, options: twice)
        }
        // What could not be opened left nothing open.
        _ = try await Device.open(directory: folder.path, options: onLoopback)
    }

    @Test func `runs again after it ended, as the same device, with its services, for the same client`() async throws {
        let (there, here) = (try TemporaryFolder(), try TemporaryFolder())
        var options = onLoopback
        options.name = "laptop"
        let service = MathService()
        options.services.own = [service]
        let laptop = try await Device.open(directory: there.path, options: options)
        let phone = try await Device.open(directory: here.path, options: onLoopback)
        let client = phone.client
        try await laptop.whileRunning {
            try await phone.whileRunning { try await pair(phone, with: laptop, grants: [.node(pattern: "*")]) }
            #expect(!Device.isRunning(directory: here.path))
            await #expect(throws: KithError.self) { try await client.call(ThisDevice.Status.self, Nothing()) }
        }
        #expect(service.stops.load(ordering: .relaxed) == 1)
        for run in 2...3 {
            try await laptop.whileRunning {
                await #expect(throws: KithError(.conflict, "")) { try await laptop.run() }
                try await phone.whileRunning {
                    let status = try await client.call(ThisDevice.Status.self, Nothing())
                    #expect(status.id == phone.id)
                    let sum = try await client.call(Math.Add.self, .init(a: 2, b: run), on: "laptop")
                    #expect(sum == 2 + run)
                }
            }
            #expect(service.stops.load(ordering: .relaxed) == run)
        }
        // And gracefully, as a daemon does.
        async let ended: Void = laptop.run()
        while (try? await laptop.client.call(ThisDevice.Status.self, Nothing())) == nil { await Task.yield() }
        laptop.beginGracefulShutdown()
        try await ended
        #expect(!Device.isRunning(directory: there.path))
    }
}
