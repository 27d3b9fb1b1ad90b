import Kith
import KithSocket
import KithTesting
import Testing

private struct Sum: Codable, Sendable {
    var a: Double
    var b: Double
}

private struct Adding: Service {
    let info = ServiceInfo("math", version: "1.0.0", "Adds numbers.")
    var handlers: [Handler] {
        [.action("add") { (input: Sum, _) in input.a + input.b }]
    }
}

@Suite(.timeLimit(.minutes(4))) struct `A service of a device, by its path` {
    @Test func `a start that is called off at any moment leaves a device that starts again`() async throws {
        let folder = try TemporaryFolder()
        var options = onLoopback
        options.services = .only([Adding()])
        let device = try await Device.open(directory: folder.path, options: options)
        for yields in 0..<20 {
            let run = Task { try await device.run() }
            for _ in 0..<yields * yields { await Task.yield() }
            if yields.isMultiple(of: 2) { run.cancel() } else { device.beginGracefulShutdown() }
            // A stop that came before the start had begun was for nothing, and a second one is nothing.
            run.cancel()
            device.beginGracefulShutdown()
            _ = await run.result
            #expect(!Device.isRunning(directory: folder.path))
            await #expect(throws: KithError(.closed, "")) {
                try await device.request("math/add", Sum(a: 5, b: 3), as: Double.self)
            }
        }
        try await device.whileRunning {
            let eight: Double = try await device.request("math/add", Sum(a: 5, b: 3))
            #expect(eight == 8)
        }
    }

    @Test func `answers in process, over the socket and from another device`() async throws {
        let (there, here) = (try TemporaryFolder(), try TemporaryFolder())
        var options = onLoopback
        options.name = "laptop"
        let laptop = try await Device.open(directory: there.path, options: options)
        let phone = try await Device.open(directory: here.path, options: onLoopback)
        let math = try laptop.add(Adding())
        let folder = there.path
        try await laptop.whileRunning {
            try await phone.whileRunning {
                try await pair(phone, with: laptop, grants: [.node(pattern: "math/add")])
                let eight: Double = try await laptop.request("math/add", Sum(a: 5, b: 3))
                #expect(eight == 8.0)
                let far8: Double = try await phone.request("math/add", Sum(a: 5, b: 3), from: .device("laptop"))
                #expect(far8 == 8.0)
                let near = try #require(try await SocketCarrier.connect(directory: folder))
                defer { near.close() }
                let far = try #require(try await SocketCarrier.connect(directory: here.path))
                defer { far.close() }
                for path in ["math/add", "math.add"] {
                    #expect(try await Client(near).call(named: path, ["a": 5, "b": 3]) == 8)
                    #expect(try await Client(far).call(named: path, ["a": 5, "b": 3], on: "laptop") == 8)
                    let typed: Double = try await Client(far).request(
                        path, Sum(a: 5, b: 3), from: .device("laptop"))
                    #expect(typed == 8)
                }
                try laptop.pause("math")
                await #expect(throws: KithError(.unreachable, "")) {
                    try await Client(far).call(named: "math/add", ["a": 5, "b": 3], on: "laptop")
                }
                try laptop.resume("math")
                await laptop.remove(math)
                await #expect(throws: KithError(.unsupported, "")) {
                    try await Client(far).call(named: "math/add", ["a": 5, "b": 3], on: "laptop")
                }
            }
        }
    }

    @Test func `is there after each start, and its calls fail at once in between`() async throws {
        let folder = try TemporaryFolder()
        var options = onLoopback
        options.services = .only([Adding()])
        let device = try await Device.open(directory: folder.path, options: options)
        for _ in 0..<5 {
            try await device.whileRunning {
                #expect(device.state(of: "math") == .running)
                let eight: Double = try await device.request("math/add", Sum(a: 5, b: 3))
                #expect(eight == 8)
            }
            #expect(device.state(of: "math") == .stopped)
            await #expect(throws: KithError(.closed, "")) {
                try await device.request("math/add", Sum(a: 5, b: 3), as: Double.self)
            }
        }
    }
}
