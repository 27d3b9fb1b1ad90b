import Foundation
import Kith
import KithAPI
import KithRPC
import KithSocket
import KithTesting
import KithWire
import Testing

@Suite(.timeLimit(.minutes(4))) struct `A client of the reference` {
    private struct Step: Decodable {
        var step: String
        var ok: Bool
        var said: JSONAny?
    }

    /// Any JSON, for the message of a failure.
    private struct JSONAny: Decodable, CustomStringConvertible {
        var description: String
        init(from decoder: any Decoder) throws { description = "\(try JSONValue(from: decoder))" }
    }

    @Test func `gets what it asks for, by its own bytes and names`() async throws {
        let folder = try TemporaryFolder()
        let files = folder.path + "/files"
        try FileManager.default.createDirectory(atPath: files, withIntermediateDirectories: true)
        try Data("hello".utf8).write(to: URL(fileURLWithPath: files + "/annual report.txt"))
        var options = onLoopback
        options.name = "laptop"
        let device = try await Device.open(directory: folder.path + "/device", options: options)
        try await device.whileRunning {
            try await PythonPeer.run("reference_client.py", [folder.path + "/device", files]) { peer in
                var steps: [String] = []
                while steps.last != "end" {
                    let step = try await peer.next(Step.self)
                    #expect(step.ok, "\(step.step): \(step.said?.description ?? "")")
                    steps.append(step.step)
                }
                #expect(steps.count >= 40, "\(steps)")
            }
        }
    }
}

extension `A client of the reference` {
    @Test(arguments: [#"["JobStarted"]"#, "[]"])
    func `that listens does not keep a device from stopping`(types: String) async throws {
        let folder = try TemporaryFolder()
        let device = try await Device.open(directory: folder.path, options: onLoopback)
        let running = Task { try await device.run() }
        let peer = try RawPeer(folder.path)
        await peer.send(#"{"Subscribe":{"event_types":\#(types)}}"# + "\n")
        #expect(await peer.line() == "\"Subscribed\"")
        device.beginGracefulShutdown()
        try await running.value
        #expect(await peer.line() == "")
    }
}

@Suite(.timeLimit(.minutes(4))) struct `A device with a port for programs` {
    @Test func `is called there with the token, as at its socket, until it ends`() async throws {
        let folder = try TemporaryFolder()
        var options = onLoopback
        options.apiPort = 0
        let device = try await Device.open(directory: folder.path, options: options)
        try await device.whileRunning {
            let endpoint = try #require(try APIEndpoint.read(directory: folder.path))
            #expect(endpoint.addresses == device.apiAddresses)
            let carrier = try await SocketCarrier.connect(
                tcp: endpoint.port, token: endpoint.token, proof: endpoint.proof)
            #expect(try await Client(carrier).call(ThisDevice.Status.self, Nothing()).id == device.id)
            carrier.close()
            await #expect(throws: KithError(.denied, "")) {
                try await SocketCarrier.connect(tcp: endpoint.port, token: String(endpoint.token.dropLast()) + "x")
            }
        }
        #expect(try APIEndpoint.read(directory: folder.path) == nil)
        #expect(device.apiAddresses == [])
    }

    @Test func `leaves nothing of one that was killed`() async throws {
        let folder = try TemporaryFolder()
        try Device.prepare(directory: folder.path)
        // As a device that is killed leaves it: its port may be another program's by now.
        let path = folder.path + "/api.json"
        var options = onLoopback
        options.apiPort = 0
        let first = try await Device.open(directory: folder.path, options: options)
        let text = try await first.whileRunning { try Data(contentsOf: URL(fileURLWithPath: path)) }
        try text.write(to: URL(fileURLWithPath: path))
        options.apiPort = nil
        let second = try await Device.open(directory: folder.path, options: options)
        try await second.whileRunning { #expect(!FileManager.default.fileExists(atPath: path)) }
    }
}
