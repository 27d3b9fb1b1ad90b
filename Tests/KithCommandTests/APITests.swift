import Foundation
import Testing

@Suite struct APITests {
    @Test func `the table is described where no device is, and none is made`() async throws {
        let machine = try Machine("nobody")
        func kith(_ words: String...) async throws -> Machine.Outcome {
            try await machine.start(["api"] + words, byEnvironment: true).outcome(seconds: 60)
        }
        let shown = try await kith("show", "files.list")
        #expect(shown.status == 0 && shown.output.contains("files.list  (query, needs grant files:read"), "\(shown)")
        #expect(shown.output.contains("required") && shown.output.contains("kith call files.list '{"), "\(shown)")
        let listed = try await kith("methods", "shell.")
        #expect(listed.status == 0 && listed.output.contains("shell.open") && !listed.output.contains("files."))
        let unknown = try await kith("show", "files.lst")
        #expect(unknown.status == 3 && unknown.error.contains("kith api methods"), "\(unknown)")
        let document = try await kith("openrpc")
        let read = try JSONSerialization.jsonObject(with: Data(document.output.utf8)) as? [String: Any]
        #expect((read?["methods"] as? [Any])?.count ?? 0 > 50)
        let completed = try await machine.bash("kith complete fish -- files.l call", seconds: 60)
        #expect(completed.output.contains("files.list"), "\(completed)")
        #expect(!FileManager.default.fileExists(atPath: machine.data + "/kith.sqlite"))
        await machine.remove()
    }
}
