import Kith
import KithSocket
import KithTesting
import Testing

/// What travels from a program at the socket, through its device, to another one and back.
@Suite(.timeLimit(.minutes(4))) struct `Across the socket and the network` {
    struct Overflow: Codable, Hashable {
        var a: Int
        var b: Int
    }

    /// Runs two devices, `phone` calling the methods of `laptop` that are named for mathematics.
    private func withDevices(
        _ body: (_ phone: Device, _ here: String, _ laptop: Device) async throws -> Void
    ) async throws {
        let (there, here) = (try TemporaryFolder(), try TemporaryFolder())
        var options = onLoopback
        options.services.own = [MathService()]
        let phone = try await Device.open(directory: here.path, options: options)
        options.name = "laptop"
        let laptop = try await Device.open(directory: there.path, options: options)
        try await laptop.whileRunning {
            try await phone.whileRunning {
                try await pair(phone, with: laptop, grants: [.node(pattern: "math.*")])
                try await body(phone, here.path, laptop)
            }
        }
    }

    private func expectOverflow(_ error: KithError?, _ comment: String) throws {
        #expect(error?.code == .conflict, "\(comment)")
        #expect(error?.message == "The sum is too large.", "\(comment)")
        #expect(error?.detail?.code == "math.overflow", "\(comment)")
        #expect(try error?.detail?.value(as: Overflow.self) == Overflow(a: .max, b: 1), "\(comment)")
    }

    @Test func `a stream that fails after it was accepted keeps its error's message, code and data`() async throws {
        try await withDevices { phone, here, laptop in
            let carrier = try #require(try await SocketCarrier.connect(directory: here))
            defer { carrier.close() }
            let clients = [("in process", phone.client), ("at the socket", Client(carrier))]
            for (place, client) in clients {
                for device in ["laptop", nil] {
                    let comment = "\(place), \(device ?? "here")"
                    let typed = try await client.open(Math.Running.self, Nothing(), on: device).stream
                    try await typed.send(.init(value: .max))
                    #expect(try await typed.receive()?.value == .max)
                    try await typed.send(.init(value: 1))
                    try expectOverflow(
                        await #expect(throws: KithError.self, "\(comment)") { try await typed.receive() }, comment)
                    let named = try await client.open(named: "math.running", on: device)
                    try await named.send(["value": .integer(.max)] as JSONValue)
                    #expect(try await named.next() == ["value": .integer(.max)])
                    try await named.send(["value": 1] as JSONValue)
                    try expectOverflow(
                        await #expect(throws: KithError.self, "\(comment)") { try await named.next() },
                        comment + ", by name")
                }
            }
        }
    }

    @Test func `a stream whose service ends early ends for its caller at once`() async throws {
        try await withDevices { phone, here, laptop in
            let carrier = try #require(try await SocketCarrier.connect(directory: here))
            defer { carrier.close() }
            for (client, isInProcess) in [(phone.client, true), (Client(carrier), false)] {
                for device in ["laptop", nil] {
                    // No end of ours comes first: it is theirs that says that nothing more is taken.
                    let typed = try await client.open(Math.First.self, Nothing(), on: device).stream
                    try await typed.send(.init(value: 5))
                    #expect(try await typed.receive()?.value == 5)
                    #expect(try await typed.receive() == nil)
                    // A connection of its own at the socket goes on taking what nobody reads, until it is closed.
                    guard isInProcess else { continue }
                    try await typed.bytes.stopped()
                    await #expect(throws: KithError.self) {
                        while true { try await typed.send(.init(value: 6)) }
                    }
                }
            }
            for device in [#""on":"laptop","#, ""] {
                let caller = try RawPeer(here)
                func say(_ json: String) async { await caller.send(json + "\n") }
                await say(#"{"jsonrpc":"2.0","id":0,"method":"rpc.hello","params":{"protocol":2}}"#)
                _ = await caller.line()
                await say(#"{"jsonrpc":"2.0","id":5,\#(device)"method":"math.first","params":{}}"#)
                #expect(await caller.line() == #"{"jsonrpc":"2.0","id":5,"result":{}}"#)
                await say(#"{"jsonrpc":"2.0","method":"$/message","params":{"id":5,"message":{"value":5}}}"#)
                #expect(await caller.line().contains(#""message":{"value":5}"#))
                #expect(await caller.line() == #"{"jsonrpc":"2.0","method":"$/finish","params":{"id":5}}"#)
                #expect(await caller.line() == #"{"jsonrpc":"2.0","method":"$/end","params":{"id":5}}"#)
            }
        }
    }

    @Test func `an application's error keeps its own code and data, and devices say what software they are`()
        async throws
    {
        try await withDevices { phone, here, laptop in
            let carrier = try #require(try await SocketCarrier.connect(directory: here))
            defer { carrier.close() }
            let client = Client(carrier)
            for device in ["laptop", nil] {
                let error = await #expect(throws: KithError.self) {
                    try await client.call(Math.Add.self, .init(a: .max, b: 1), on: device)
                }
                try expectOverflow(error, device ?? "here")
            }
            for client in [client, laptop.client] {
                let devices = try await client.call(Devices.List.self, .init(probe: true))
                #expect(devices.map(\.version) == [kithVersion])
                #expect(devices.first?.capabilities?.contains("error-detail") == true)
            }
        }
    }
}
