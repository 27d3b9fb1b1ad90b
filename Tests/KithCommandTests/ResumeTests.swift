import Foundation
import KithTesting
import Testing

@Suite struct ResumeTests {
    private let size = 60_000_000
    private let step = 5_000_000

    @Test func `a copy whose sender is killed six times goes on where it was each time`() async throws {
        try await withTwoMachines { laptop, phone in
            let (served, source, bytes) = try await prepare(laptop, phone)
            for round in 1...6 {
                let daemon = try await phone.daemonPID()
                let copy = try phone.start(["cp", "--limit", "5M", source, "laptop:\(served)/"])
                try await arrived(round * step, in: served)
                kill(daemon, SIGKILL)
                let outcome = try await copy.outcome(seconds: 20)
                #expect(outcome.status != 0)
                // Until the kernel has taken its lock and its socket back.
                try await eventually { try await phone.kith(["down"]).status == 3 }
                try await phone.up()
            }
            let report = try await phone.expect("cp", "--json", "-q", source, "laptop:\(served)/")
            let summary = try JSONSerialization.jsonObject(with: Data(report.utf8)) as? [String: Any]
            let sent = try #require((summary?["sent"] as? NSNumber)?.intValue)
            // The leaf that was not whole is sent again, no more.
            #expect(sent <= size - 6 * step + (256 << 10), "\(sent)")
            #expect(try Data(contentsOf: URL(fileURLWithPath: served + "/source")) == bytes)
            #expect(try FileManager.default.contentsOfDirectory(atPath: served) == ["source"])
        }
    }

    @Test func `a copy whose receiver is killed six times finishes by itself`() async throws {
        try await withTwoMachines { laptop, phone in
            let (served, source, bytes) = try await prepare(laptop, phone)
            let copy = try phone.start(["cp", "--json", "-q", "--limit", "20M", source, "laptop:\(served)/"])
            for round in 1...6 {
                try await arrived(round * step, in: served)
                try await laptop.killDaemon()
                try await laptop.up()
            }
            let outcome = try await copy.outcome(seconds: 120)
            #expect(outcome.status == 0, "\(outcome)")
            let summary = try JSONSerialization.jsonObject(with: Data(outcome.output.utf8)) as? [String: Any]
            let sent = try #require((summary?["sent"] as? NSNumber)?.intValue)
            // From the beginning each time, it would have been 105 MB more. What a sender lets be on its way, no more.
            #expect(sent >= size && sent <= size + 6 * 8_000_000, "\(sent)")
            #expect(try Data(contentsOf: URL(fileURLWithPath: served + "/source")) == bytes)
            #expect(try FileManager.default.contentsOfDirectory(atPath: served) == ["source"])
        }
    }

    @Test func `a copy whose receiver is stopped in order finishes when it is up again`() async throws {
        try await withTwoMachines { laptop, phone in
            let (served, source, bytes) = try await prepare(laptop, phone)
            let copy = try phone.start(["cp", "--json", "--limit", "4M", source, "laptop:\(served)/"])
            try await arrived(step, in: served)
            try await laptop.expect("down")
            try await laptop.up()
            let outcome = try await copy.outcome(seconds: 120)
            #expect(outcome.status == 0, "\(outcome.error)")
            #expect(outcome.output.contains("\"waiting\":\"waiting for laptop…\""))
            #expect(try Data(contentsOf: URL(fileURLWithPath: served + "/source")) == bytes)
        }
    }

    @Test func `a copy that is interrupted says how it goes on`() async throws {
        try await withTwoMachines { laptop, phone in
            let (served, source, _) = try await prepare(laptop, phone)
            let terminal = try Tmux(phone, ["cp", "--limit", "1M", source, "laptop:\(served)/"])
            defer { terminal.end() }
            try await terminal.show("left")
            try terminal.press("C-c")
            try await terminal.show("kith: interrupted. The same command goes on where it stopped.")
        }
    }

    @Test func `a folder that is sent over several streams goes on after kill -9, and its mirror is exact`()
        async throws
    {
        try await withTwoMachines { laptop, phone in
            let served = laptop.path("srv")
            try FileManager.default.createDirectory(atPath: served + "/tree", withIntermediateDirectories: true)
            try await laptop.invite(phone, "files:write=\(served)")
            try FileManager.default.createDirectory(atPath: phone.path("tree"), withIntermediateDirectories: true)
            try Data("old".utf8).write(to: URL(fileURLWithPath: served + "/tree/old"))
            let (count, size) = (6, 8_000_000)
            for index in 0..<count {
                let bytes = CopyTests.bytes(size, seed: UInt64(30 + index))
                try bytes.write(to: URL(fileURLWithPath: phone.path("tree/\(index)")))
            }
            let options = ["--parallel", "3", "--delete", phone.path("tree"), "laptop:\(served)/tree"]
            for round in 1...3 {
                let daemon = try await phone.daemonPID()
                let copy = try phone.start(["sync", "--limit", "2M"] + options)
                try await arrived(round * 1_000_000, in: served + "/tree")
                kill(daemon, SIGKILL)
                #expect(try await copy.outcome(seconds: 20).status != 0)
                try await eventually { try await phone.kith(["down"]).status == 3 }
                #expect(FileManager.default.fileExists(atPath: served + "/tree/old"))
                try await phone.up()
            }
            let last = try await phone.kith(["sync", "--json", "-i"] + options)
            #expect(last.status == 0, "\(last)")
            let events = try last.output.split(separator: "\n").map {
                try #require(try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])
            }
            let summary = try #require(events.last)
            #expect(summary["event"] as? String == "result" && summary["deleted"] as? Int == 1, "\(summary)")
            let sent = try #require((summary["sent"] as? NSNumber)?.intValue)
            #expect(sent <= count * size - 3_000_000 + 3 * (256 << 10), "\(sent)")
            #expect(events.contains { $0["event"] as? String == "change" && $0["kind"] as? String == "deleted" })
            for index in 0..<count {
                #expect(
                    try Data(contentsOf: URL(fileURLWithPath: served + "/tree/\(index)"))
                        == CopyTests.bytes(size, seed: UInt64(30 + index)))
            }
            #expect(
                try FileManager.default.contentsOfDirectory(atPath: served + "/tree").sorted()
                    == (0..<count).map(String.init))
            // Back, over as many.
            try await phone.expect("sync", "--parallel", "4", "laptop:\(served)/tree", phone.path("back"))
            #expect(try FileManager.default.contentsOfDirectory(atPath: phone.path("back")).count == count)
            let refused = try await phone.kith([
                "sync", "--parallel", "17", phone.path("tree"), "laptop:\(served)/tree",
            ])
            #expect(refused.status == 64 && refused.error.contains("1 to 16"), "\(refused)")
        }
    }

    private func prepare(_ laptop: Machine, _ phone: Machine) async throws -> (String, String, Data) {
        let served = laptop.path("srv")
        try FileManager.default.createDirectory(atPath: served, withIntermediateDirectories: true)
        try await laptop.invite(phone, "files:write=\(served)")
        let bytes = CopyTests.bytes(size, seed: 9)
        try bytes.write(to: URL(fileURLWithPath: phone.path("source")))
        return (served, phone.path("source"), bytes)
    }

    /// Waits until so much of the file is there.
    private func arrived(_ count: Int, in folder: String) async throws {
        try await eventually {
            try FileManager.default.contentsOfDirectory(atPath: folder).contains { name in
                // It may have got its name since.
                let attributes = try? FileManager.default.attributesOfItem(atPath: folder + "/" + name)
                return (attributes?[.size] as? NSNumber)?.intValue ?? 0 >= count
            }
        }
    }
}

@Suite struct SyncTests {
    @Test func `sync mirrors a folder, says what it would do first, and does nothing twice`() async throws {
        try await withTwoMachines { laptop, phone in
            let served = laptop.path("srv")
            try FileManager.default.createDirectory(atPath: served + "/site", withIntermediateDirectories: true)
            try await laptop.invite(phone, "files:write=\(served)")
            for (name, text) in [("a.txt", "a"), ("sub/b.txt", "b"), ("x.tmp", "x")] {
                let url = URL(fileURLWithPath: phone.path("site/" + name))
                try FileManager.default.createDirectory(
                    at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
                try Data(text.utf8).write(to: url)
            }
            try Data("old".utf8).write(to: URL(fileURLWithPath: served + "/site/old"))
            try Data("\n# none\n*.tmp\n".utf8).write(to: URL(fileURLWithPath: phone.path("patterns")))
            func names() throws -> [String] {
                try FileManager.default.subpathsOfDirectory(atPath: served + "/site").sorted()
            }
            let options = [
                "--delete", "--exclude-from", phone.path("patterns"), phone.path("site"), "laptop:\(served)/site",
            ]
            let dry = try await phone.kith(["sync", "-n"] + options)
            #expect(dry.status == 0, "\(dry)")
            #expect(try names() == ["old"])
            #expect(
                dry.output.contains("deleted  \(served)/site/old")
                    && dry.output.contains("new      \(served)/site/a.txt"))
            let first = try await phone.kith(["sync", "-i"] + options)
            #expect(first.status == 0, "\(first)")
            #expect(try names() == ["a.txt", "sub", "sub/b.txt"])
            let second = try await phone.kith(["sync", "--json", "-q"] + options)
            let summary = try JSONSerialization.jsonObject(with: Data(second.output.utf8)) as? [String: Any]
            #expect(summary?["unchanged"] as? Int == 2 && summary?["files"] as? Int == 0, "\(second)")
            // And back.
            let back = try await phone.kith(["sync", "laptop:\(served)/site", phone.path("copy")])
            #expect(back.status == 0, "\(back)")
            #expect(try String(contentsOfFile: phone.path("copy/sub/b.txt"), encoding: .utf8) == "b")
        }
    }
}
