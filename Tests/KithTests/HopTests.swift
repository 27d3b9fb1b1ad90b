import Kith
import KithSocket
import KithTesting
import Testing

/// What travels from a program at the socket, through its device, to another one and back.
@Suite(.timeLimit(.minutes(2))) struct `Across the socket and the network` {
    struct Overflow: Codable, Hashable {
        var a: Int
        var b: Int
    }

    @Test func `an application's error keeps its own code and data, and devices say what software they are`()
        async throws
    {
        let (there, here) = (try TemporaryFolder(), try TemporaryFolder())
        var options = Device.Options()
        options.endpoint.bindAddresses = [NetworkAddress(ipv4: (127, 0, 0, 1), port: 0)]
        options.services.own = [MathService()]
        let phone = try await Device.open(directory: here.path, options: options)
        options.name = "laptop"
        let laptop = try await Device.open(directory: there.path, options: options)
        try await laptop.whileRunning {
            try await phone.whileRunning {
                try await pair(phone, with: laptop, grants: [.node(pattern: "math.*")])
                let carrier = try #require(try await SocketCarrier.connect(directory: here.path))
                defer { carrier.close() }
                let client = Client(carrier)
                for device in ["laptop", nil] {
                    let error = await #expect(throws: KithError.self) {
                        try await client.call(Math.Add.self, .init(a: .max, b: 1), on: device)
                    }
                    #expect(error?.code == .conflict)
                    #expect(error?.message == "The sum is too large.")
                    #expect(error?.detail?.code == "math.overflow")
                    #expect(try error?.detail?.value(as: Overflow.self) == Overflow(a: .max, b: 1))
                }
                for client in [client, laptop.client] {
                    let devices = try await client.call(Devices.List.self, .init(probe: true))
                    #expect(devices.map(\.version) == [kithVersion])
                    #expect(devices.first?.capabilities?.contains("error-detail") == true)
                }
            }
        }
    }
}
