import KithNet

/// QUIC without the rest of Kith: two endpoints that speak a protocol of their own, known to each other by their keys.
@main struct QUICEcho {
    static func main() async throws {
        var options = Endpoint.Options()
        options.alpn = ["example-echo"]
        options.bindAddresses = [NetworkAddress(ipv4: (127, 0, 0, 1), port: 0)]
        let logger = Logger(label: "echo")
        let server = try await Endpoint.bind(key: DeviceKey(), options: options, logger: logger)
        let client = try await Endpoint.bind(key: DeviceKey(), options: options, logger: logger)

        let serving = Task {
            for await connection in server.established {
                for await stream in connection.incomingStreams {
                    while let bytes = try await stream.read(upTo: 64 << 10) { try await stream.write(bytes) }
                    try await stream.finish()
                }
            }
        }
        let connection = try await client.connect(to: server.id, at: server.localAddresses)
        print("speaks", connection.negotiatedALPN)
        let stream = try await connection.openStream()
        try await stream.write(Array("hello, hello".utf8))
        try await stream.finish()
        var answer: [UInt8] = []
        while let bytes = try await stream.read(upTo: 64 << 10) { answer += bytes }
        print("heard", String(decoding: answer, as: UTF8.self))

        await client.shutdown()
        await server.shutdown()
        serving.cancel()
    }
}
