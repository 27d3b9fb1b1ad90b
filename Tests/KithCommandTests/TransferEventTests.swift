import Foundation
import Testing

/// The output of transfers for programs: a line of JSON for each event.
@Suite struct TransferEventTests {
    /// The events of an outcome; every line must be one.
    private func events(_ output: String) throws -> [[String: Any]] {
        try output.split(separator: "\n").map { line in
            try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
        }
    }

    private func kinds(_ events: [[String: Any]]) -> Set<String> { Set(events.compactMap { $0["event"] as? String }) }

    @Test func `a copy tells how far it is, what it left out and changed, and last of all how it ended`() async throws {
        try await withTwoMachines { laptop, phone in
            let served = laptop.path("srv")
            try FileManager.default.createDirectory(atPath: served, withIntermediateDirectories: true)
            try await laptop.invite(phone, "files:write=\(served)")
            let tree = phone.path("tree")
            try FileManager.default.createDirectory(atPath: tree, withIntermediateDirectories: true)
            let text = Data(String(repeating: "all of this is said again and again. ", count: 40_000).utf8)
            try text.write(to: URL(fileURLWithPath: tree + "/evil\u{1B}]0;x\u{7}\nname"))
            try CopyTests.bytes(2_000_000, seed: 5).write(to: URL(fileURLWithPath: tree + "/noise"))
            #expect(mkfifo(tree + "/pipe", 0o600) == 0)
            let copied = try events(
                try await phone.expect("cp", "-r", "--json", "-i", "-z", "--limit", "4M", tree, "laptop:\(served)/"))
            #expect(kinds(copied) == ["progress", "skipped", "change", "result"])
            let result = try #require(copied.last)
            let size = text.count + 2_000_000
            #expect(result["event"] as? String == "result" && result["files"] as? Int == 2)
            #expect(result["bytes"] as? Int == size && result["sent"] as? Int == size)
            let wire = try #require(result["wire"] as? Int)
            #expect(wire > 1_000_000 && wire < size - text.count / 2, "\(wire)")
            let progress = copied.filter { $0["event"] as? String == "progress" }
            let done = progress.compactMap { $0["bytes"] as? Int }
            #expect(done == done.sorted() && done.count == progress.count && (done.last ?? 0) <= size)
            let skipped = copied.first { $0["event"] as? String == "skipped" }
            #expect(skipped?["path"] as? String == "tree/pipe" && skipped?["code"] as? String == "unsupported")

            let quiet = try events(try await phone.expect("sync", "--json", "-q", tree, "laptop:\(served)/tree"))
            #expect(kinds(quiet) == ["skipped", "result"] && quiet.last?["unchanged"] as? Int == 2)

            let failed = try await phone.kith(["cp", "--json", phone.path("none"), "laptop:\(served)/"])
            #expect(failed.status != 0)
            let last = try events(failed.output).last
            #expect(last?["event"] as? String == "failure" && last?["code"] as? String == "notFound")

            // Several at once, and a command line that asks for too many.
            let several = try events(
                try await phone.expect(
                    "cp", "--json", "--parallel", "2", tree + "/noise", phone.path("tree/evil\u{1B}]0;x\u{7}\nname"),
                    "laptop:\(served)/"))
            #expect(several.last?["files"] as? Int == 2)
            #expect(try await phone.kith(["cp", "--parallel", "17", tree, "laptop:\(served)/"]).status == 64)
        }
    }

    @Test func `what is sent to somebody tells how it stands`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone)
            let rule = try await laptop.start(
                ["inbox", "rule", "phone", "accept", "--to", laptop.path("in")], byEnvironment: true
            ).outcome(seconds: 60)
            #expect(rule.status == 0, "\(rule)")
            try CopyTests.bytes(3_000_000, seed: 6).write(to: URL(fileURLWithPath: phone.path("file")))
            let sent = try events(try await phone.expect("send", "--json", phone.path("file"), "laptop"))
            #expect(kinds(sent).isSubset(of: ["state", "progress", "result"]))
            #expect(sent.last?["event"] as? String == "result" && sent.last?["bytes"] as? Int == 3_000_000)
            #expect(sent.last?["state"] as? String == "arrived")
        }
    }
}
