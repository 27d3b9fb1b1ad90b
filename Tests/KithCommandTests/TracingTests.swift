import Foundation
import Testing

/// `--qlog` and `--key-log`, against the real command.
@Suite struct TracingTests {
    private struct Record: Decodable {
        var name: String?
        var file_schema: String?
        var time: Double?
    }

    /// The records of one qlog file: each a JSON text after a record separator (RFC 7464).
    private func records(_ file: URL) throws -> [Record] {
        let texts = try Data(contentsOf: file).split(separator: 0x1E)
        return try texts.map { try JSONDecoder().decode(Record.self, from: Data($0)) }
    }

    private func files(_ folder: String) throws -> [URL] {
        try FileManager.default.contentsOfDirectory(at: URL(fileURLWithPath: folder), includingPropertiesForKeys: nil)
    }

    private func mode(_ path: String) throws -> Int {
        try #require(FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int)
    }

    @Test func `each connection has a qlog file at either end, and the secrets are logged on demand only`() async throws
    {
        let (laptop, phone) = (try Machine("laptop"), try Machine("phone"))
        do {
            let (there, here) = (laptop.path("qlog"), phone.path("qlog"))
            try await laptop.up("--qlog", there)
            try await laptop.invite(phone, "shell")
            let secrets = phone.path("secrets")
            let outcome = try await phone.kith([
                "shell", "--qlog", here, "--key-log", secrets, "laptop", "--", "echo hi",
            ])
            #expect(outcome.status == 0 && outcome.output == "hi\n", "\(outcome)")
            #expect(outcome.error.contains("secrets of every connection"))

            let mine = try files(here)
            #expect(!mine.isEmpty && mine.allSatisfy { $0.lastPathComponent.hasSuffix("_client.sqlog") })
            #expect(try mode(here) == 0o700)
            let theirs = Set(try files(there).map(\.lastPathComponent))
            #expect(theirs.allSatisfy { $0.hasSuffix("_server.sqlog") })
            var complete = 0
            for file in mine {
                let records = try records(file)
                #expect(records.first?.file_schema == "urn:ietf:params:qlog:file:sequential")
                #expect(try mode(file.path) == 0o600)
                let names = Set(records.compactMap(\.name))
                guard names.contains("quic:packet_received") else { continue }
                complete += 1
                #expect(names.isSuperset(of: ["quic:connection_started", "quic:packet_sent"]))
                #expect(records.dropFirst().allSatisfy { $0.time != nil })
                // The other end's log of the connection has the same name.
                let twin = file.lastPathComponent.replacingOccurrences(of: "_client", with: "_server")
                #expect(theirs.contains(twin))
            }
            #expect(complete == 1)

            let lines = try String(contentsOfFile: secrets, encoding: .utf8).split(separator: "\n")
            #expect(lines.contains { $0.hasPrefix("CLIENT_TRAFFIC_SECRET_0 ") })
            #expect(lines.contains { $0.hasPrefix("SERVER_TRAFFIC_SECRET_0 ") })
            #expect(try mode(secrets) == 0o600)
            // Nobody asked the laptop for its secrets.
            let others = try FileManager.default.subpathsOfDirectory(atPath: laptop.folder.path)
            #expect(!others.contains("secrets"))

            // The connections of a device that is up are the daemon's.
            try await phone.up()
            let refused = try await phone.kith(["ping", "--qlog", here, "laptop"])
            #expect(refused.status == 4 && refused.error.contains("kith up"), "\(refused)")
            let denied = try await phone.kith(["up", "--qlog", "/proc/nowhere"])
            #expect(denied.status != 0)
        } catch {
            Issue.record(error)
        }
        await laptop.remove()
        await phone.remove()
    }

    @Test func `the key log goes where SSLKEYLOGFILE says, as with other programs`() async throws {
        let (laptop, phone) = (try Machine("laptop"), try Machine("phone"))
        do {
            try await laptop.up()
            try await laptop.invite(phone, "shell")
            let secrets = phone.path("secrets")
            let running = try phone.start(["ping", "laptop", "--count", "4"], environment: ["SSLKEYLOGFILE": secrets])
            let outcome = try await running.outcome(seconds: 60)
            #expect(outcome.status == 0, "\(outcome)")
            #expect(try String(contentsOfFile: secrets, encoding: .utf8).contains("CLIENT_TRAFFIC_SECRET_0 "))
        } catch {
            Issue.record(error)
        }
        await laptop.remove()
        await phone.remove()
    }
}
