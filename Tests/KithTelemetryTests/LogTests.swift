import Foundation
import Kith
import KithTesting
import KithWire
import Logging
import Testing

/// Keeps every line, of every level, with all that goes with it.
private struct Collector: LogHandler {
    let lines: Locked<[String]>
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.trace

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let all = metadata.merging(event.metadata ?? [:]) { $1 }.sorted { $0.key < $1.key }
            .map { "\($0)=\($1)" }.joined(separator: " ")
        lines.set(lines.value + ["\(event.level) \(event.message) \(all)"])
    }
}

@Suite(.timeLimit(.minutes(4))) struct `The log of a device` {
    @Test func `says who connected, paired and called what, and never what was said`() async throws {
        let lines = Locked<[String]>([])
        var options = Device.Options()
        options.endpoint.bindAddresses = [NetworkAddress(ipv4: (127, 0, 0, 1), port: 0)]
        options.logger = Logger(label: "test") { _ in Collector(lines: lines) }
        options.logger.logLevel = .trace
        let (there, here, files) = (try TemporaryFolder(), try TemporaryFolder(), try TemporaryFolder())
        let (content, name, said) = ("Dearest-Diary-7719", "unspeakable-5521.txt", "whisper-3301")
        try content.write(toFile: files.path + "/" + name, atomically: true, encoding: .utf8)
        options.name = "laptop"
        let laptop = try await Device.open(directory: there.path, options: options)
        options.name = "phone"
        let phone = try await Device.open(directory: here.path, options: options)
        let secrets = Locked([content, name, said])
        try await laptop.whileRunning {
            try await phone.whileRunning {
                let code = try await ThreeDevices.pair(
                    phone, with: laptop, grants: [.shell, .files(.read, root: files.path)],
                    invited: { secrets.set(secrets.value + [$0]) })
                // Its halves alone are numbers as any: those of ports, too.
                secrets.set(secrets.value + [code, code.filter { $0 != " " }])

                let copy = try await phone.client.open(
                    Files.Copy.self,
                    .init(
                        sources: [.init(device: "laptop", path: Files.Path(files.path + "/" + name))],
                        destination: .init(device: nil, path: Files.Path(here.path + "-copied")))
                ).stream
                for try await _ in copy.messages {}
                #expect(try String(contentsOfFile: here.path + "-copied", encoding: .utf8) == content)
                try FileManager.default.removeItem(atPath: here.path + "-copied")

                let shell = try await phone.client.open(
                    Shell.Open.self, .init(command: ["cat"]), on: "laptop"
                ).stream
                try await shell.send(.input(Array(said.utf8)))
                try await shell.send(.endOfInput)
                var echoed: [UInt8] = []
                for try await frame in shell.messages {
                    if case .output(let bytes) = frame { echoed += bytes }
                    if case .exited = frame { break }
                }
                #expect(String(decoding: echoed, as: UTF8.self) == said)
                try await shell.finish()
                await #expect(throws: KithError(.denied, "")) {
                    try await phone.client.call(ThisDevice.Status.self, Nothing(), on: "laptop")
                }
            }
        }
        let log = lines.value
        for part in [
            "debug a connection began address=127.0.0.1", "debug a connection ended outcome=",
            "debug an invitation is presented peer=", "debug the codes are compared peer=",
            "debug paired outcome=done peer=", "debug refused a call method=device.status outcome=denied peer=phone",
            "method=shell.open", "method=files.copy outcome=done peer=owner",
        ] {
            #expect(log.contains { $0.contains(part) }, "\(part)")
        }
        for line in log {
            for secret in secrets.value { #expect(!line.contains(secret), "\(line)") }
            // Keys, nonces and tokens are long; nothing that long stands in a line but a device's own name.
            let words = line.split { !$0.isLetter && !$0.isNumber && $0 != "+" && $0 != "/" }
            for word in words where word.count >= 43 && !word.contains("/") {
                #expect([phone.id.description, laptop.id.description].contains(String(word)), "\(line)")
            }
        }
    }
}
