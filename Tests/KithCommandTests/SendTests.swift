import CKithSystem
import Foundation
import KithTesting
import Testing

#if canImport(Glibc)
import Glibc
#elseif canImport(Darwin)
import Darwin
#endif

@Suite struct SendTests {
    /// Runs `body` with two paired machines, neither holding any grant on the other; the laptop's inbox is `folder`.
    private func withPairedMachines(
        _ body: (_ laptop: Machine, _ phone: Machine, _ folder: String) async throws -> Void
    ) async throws {
        let (laptop, phone) = (try Machine("laptop"), try Machine("phone"))
        do {
            let outcome = try await laptop.start(
                ["up", "--detach", "--no-invite", "--name", "laptop"],
                environment: ["XDG_DOWNLOAD_DIR": laptop.path("downloads")]
            ).outcome(seconds: 60)
            try #require(outcome.status == 0, "\(outcome)")
            try await phone.up()
            try await laptop.invite(phone)
            try await body(laptop, phone, laptop.path("downloads/Kith"))
        } catch {
            await laptop.remove()
            await phone.remove()
            throw error
        }
        await laptop.remove()
        await phone.remove()
    }

    private func entries(_ machine: Machine) async throws -> [[String: Any]] {
        let json = try JSONSerialization.jsonObject(
            with: Data(try await machine.inbox("list", "--json").utf8))
        return try #require(json as? [[String: Any]])
    }

    /// Waits until the newest offer has this state, and returns its number.
    @discardableResult
    private func wait(for state: String, on machine: Machine, count: Int = 1) async throws -> String {
        var id: String?
        try await eventually {
            let all = try await entries(machine)
            guard all.count >= count, let last = all.last, last["state"] as? String == state else { return false }
            id = try #require(last["id"] as? String)
            return true
        }
        return try #require(id)
    }

    private func write(_ bytes: Data, to path: String) throws {
        try FileManager.default.createDirectory(
            atPath: (path as NSString).deletingLastPathComponent, withIntermediateDirectories: true)
        try bytes.write(to: URL(fileURLWithPath: path))
    }

    private func names(_ folder: String) -> [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []).sorted()
    }

    @Test func `what is sent gets no mode, access list or link of its sender`() async throws {
        try await withPairedMachines { laptop, phone, folder in
            let tree = phone.path("tree")
            try write(Data("#!/bin/sh\n".utf8), to: tree + "/deep/run.sh")
            try write(Data("x".utf8), to: phone.path("tool"))
            chmod(tree + "/deep/run.sh", 0o4777)
            chmod(phone.path("tool"), 0o6755)
            chmod(tree + "/deep", 0o777)
            let source = open(tree + "/deep/run.sh", O_RDONLY)
            defer { close(source) }
            try #require(kith_file_set_attribute(source, "user.kith", "x", 1) == 0)
            try FileManager.default.createSymbolicLink(atPath: tree + "/link", withDestinationPath: "deep/run.sh")
            try await laptop.inbox("rule", "phone", "accept")
            try await phone.expect("send", tree, phone.path("tool"), "laptop")
            try await wait(for: "arrived", on: laptop)
            let modes = ["tool", "tree/deep/run.sh", "tree/deep", "tree"].map { name in
                (try? FileManager.default.attributesOfItem(atPath: folder + "/" + name))?[.posixPermissions] as? Int
            }
            let mask = umask(0)
            umask(mask)
            let (file, place) = (0o666 & ~Int(mask), 0o777 & ~Int(mask))
            #expect(modes == [file, file, place, place])
            #expect(names(folder + "/tree") == ["deep"])
            let arrived = open(folder + "/tree/deep/run.sh", O_RDONLY)
            defer { close(arrived) }
            #expect(kith_file_attribute(arrived, "user.kith", nil, 0) < 0)
        }
    }

    @Test func `what is sent arrives once it is accepted, beside what is there`() async throws {
        try await withPairedMachines { laptop, phone, folder in
            let bytes = CopyTests.bytes(3_000_001, seed: 7)
            try write(bytes, to: phone.path("photo.jpg"))
            try write(Data("x".utf8), to: phone.path("tree/deep/file"))
            try write(Data("mine".utf8), to: folder + "/photo.jpg")
            let sending = try phone.start(["send", phone.path("photo.jpg"), phone.path("tree"), "laptop"])
            let id = try await wait(for: "waiting", on: laptop)
            // Nothing has been sent before it is wanted.
            #expect(names(folder) == ["photo.jpg"])
            let list = try await laptop.inbox()
            #expect(list.contains("waiting") && list.contains("photo.jpg, tree") && list.contains("phone"), "\(list)")
            let accepted = try await laptop.inbox("accept", id)
            #expect(accepted.contains("photo (2).jpg") && accepted.contains(folder), "\(accepted)")
            let outcome = try await sending.outcome(seconds: 30)
            #expect(outcome.status == 0 && outcome.error.contains("Sent 2 files"), "\(outcome)")
            #expect(names(folder) == ["photo (2).jpg", "photo.jpg", "tree"])
            #expect(try Data(contentsOf: URL(fileURLWithPath: folder + "/photo (2).jpg")) == bytes)
            #expect(try String(contentsOfFile: folder + "/photo.jpg", encoding: .utf8) == "mine")
            #expect(try String(contentsOfFile: folder + "/tree/deep/file", encoding: .utf8) == "x")

            // No grant came with it.
            #expect(try await phone.kith(["ls", "laptop:\(folder)"]).status == 5)
            // What has arrived is remembered beyond a restart.
            try await laptop.expect("down")
            try await laptop.up()
            #expect(try await entries(laptop).map { $0["state"] as? String } == ["arrived"])
        }
    }

    @Test func `what is rejected, or not answered, or taken back is never sent`() async throws {
        try await withPairedMachines { laptop, phone, folder in
            try write(Data("x".utf8), to: phone.path("file"))
            let rejected = try phone.start(["send", phone.path("file"), "laptop:"])
            let id = try await wait(for: "waiting", on: laptop)
            try await laptop.inbox("reject", String(id.prefix(4)))
            let outcome = try await rejected.outcome(seconds: 30)
            #expect(outcome.status == 5 && outcome.error.contains("rejected"), "\(outcome)")
            #expect(try await laptop.tryInbox(["accept", id]).status == 4)

            let expired = try await phone.kith(["send", "--wait", "1s", phone.path("file"), "laptop"])
            #expect(expired.status == 8 && expired.error.contains("in time"), "\(expired)")
            try await wait(for: "expired", on: laptop, count: 2)

            let taken = try phone.start(["send", phone.path("file"), "laptop"])
            try await wait(for: "waiting", on: laptop, count: 3)
            kill(taken.process.processIdentifier, SIGINT)
            _ = try await taken.outcome(seconds: 10)
            try await wait(for: "withdrawn", on: laptop, count: 3)
            #expect(names(folder).isEmpty)
            #expect(try await laptop.tryInbox(["accept", "nothing"]).status == 3)
        }
    }

    @Test func `a rule decides without asking, until it ends`() async throws {
        try await withPairedMachines { laptop, phone, folder in
            try write(Data(repeating: 1, count: 2_000), to: phone.path("small"))
            try write(Data(repeating: 1, count: 20_000), to: phone.path("large"))
            let chosen = laptop.path("chosen folder")
            let rule = try await laptop.inbox("rule", "phone", "accept", "--to", chosen, "--max", "10k")
            #expect(rule.contains("accept") && rule.contains(chosen), "\(rule)")
            try await phone.expect("send", phone.path("small"), "laptop")
            #expect(names(chosen) == ["small"])
            // More than the rule allows is asked about.
            let large = try phone.start(["send", phone.path("large"), "laptop"])
            let id = try await wait(for: "waiting", on: laptop, count: 2)
            try await laptop.inbox("accept", id, "--to", laptop.path("other"))
            #expect(try await large.outcome(seconds: 30).status == 0)
            #expect(names(laptop.path("other")) == ["large"])

            // The rule outlasts the process.
            try await laptop.expect("down")
            try await laptop.up()
            try await phone.expect("send", phone.path("small"), "laptop")
            #expect(names(chosen) == ["small", "small (2)"])

            try await laptop.inbox("rule", "phone", "reject")
            let rejected = try await phone.kith(["send", phone.path("small"), "laptop"])
            #expect(rejected.status == 5, "\(rejected)")
            for _ in 0..<3 { _ = try await phone.kith(["send", phone.path("small"), "laptop"]) }
            // The log has what was refused once, counted, and never as allowed.
            let lines = try await laptop.expect("audit", "--json")
            let log = try #require(try JSONSerialization.jsonObject(with: Data(lines.utf8)) as? [[String: Any]])
            let refused = log.filter {
                $0["method"] as? String == "offer.send" && ($0["detail"] as? String)?.contains("takes no files") == true
            }
            #expect(refused.count == 1 && refused.first?["decision"] as? String == "denied", "\(lines)")
            #expect((refused.first?["detail"] as? String)?.contains("4 times") == true, "\(lines)")
            #expect(try await laptop.tryInbox(["rule", "nobody", "accept"]).status == 3)
            #expect(names(folder).isEmpty)
        }
    }

    @Test func `a sender killed in the middle leaves nothing behind, and the inbox works on`() async throws {
        try await withPairedMachines { laptop, phone, folder in
            try await laptop.inbox("rule", "phone", "accept")
            // So large that it is on its way long after it was seen to be.
            let piece = CopyTests.bytes(150_000_000, seed: 8)
            try write(piece, to: phone.path("big"))
            let big = try FileHandle(forWritingTo: URL(fileURLWithPath: phone.path("big")))
            try big.seekToEnd()
            for _ in 0..<11 { try big.write(contentsOf: piece) }
            try big.close()
            let sending = try phone.start(["send", phone.path("big"), "laptop"])
            try await wait(for: "receiving", on: laptop)
            try await phone.killDaemon()
            _ = try await sending.outcome(seconds: 30)
            // The other end learns of it when the connection is given up, after a minute and a half.
            try await eventually { try await entries(laptop).last?["state"] as? String != "receiving" }
            let ended = try await entries(laptop).last?["state"] as? String ?? ""
            #expect(["failed", "withdrawn"].contains(ended), "\(ended)")
            // Its stream may be told of that a moment later than the offer's.
            try await eventually { names(folder).isEmpty }
            try await phone.up()
            try write(Data("x".utf8), to: phone.path("small"))
            try await phone.expect("send", phone.path("small"), "laptop")
            #expect(names(folder) == ["small"])
        }
    }

    @Test func `a name that would write to the terminal is shown and kept harmless`() async throws {
        try await withPairedMachines { laptop, phone, folder in
            let evil = "\u{1B}]52;c;aGk=\u{7}\n.sh"
            try write(Data("x".utf8), to: phone.path(evil))
            let sending = try phone.start(["send", phone.path(evil), "laptop"])
            let id = try await wait(for: "waiting", on: laptop)
            let list = try await laptop.inbox()
            #expect(!list.unicodeScalars.contains("\u{1B}") && list.contains("\\u{1b}"), "\(list)")
            try await laptop.inbox("accept", id)
            #expect(try await sending.outcome(seconds: 30).status == 0)
            #expect(names(folder) == ["_]52;c;aGk=__.sh"])
        }
    }

    @Test(.enabled(if: geteuid() == 0, "needs root: mounts a small file system"))
    func `no room is said before anything is accepted, and when it runs out on the way`() async throws {
        try await withPairedMachines { laptop, phone, folder in
            let small = laptop.path("small")
            try FileManager.default.createDirectory(atPath: small, withIntermediateDirectories: true)
            let mount = Process()
            mount.executableURL = URL(fileURLWithPath: "/bin/mount")
            mount.arguments = ["-t", "tmpfs", "-o", "size=8m,nr_inodes=20", "tmpfs", small]
            mount.standardError = FileHandle.nullDevice
            try mount.run()
            mount.waitUntilExit()
            guard mount.terminationStatus == 0 else {
                print("skipped: this root may not mount a file system")
                return
            }
            defer {
                let unmount = Process()
                unmount.executableURL = URL(fileURLWithPath: "/bin/umount")
                unmount.arguments = ["-l", small]
                if (try? unmount.run()) != nil { unmount.waitUntilExit() }
            }
            try write(CopyTests.bytes(20_000_000, seed: 9), to: phone.path("large"))
            let large = try phone.start(["send", phone.path("large"), "laptop"])
            let id = try await wait(for: "waiting", on: laptop)
            let refused = try await laptop.tryInbox(["accept", id, "--to", small])
            #expect(refused.status == 11 && refused.error.contains("no room"), "\(refused)")
            // It still waits: there may be room elsewhere.
            try await laptop.inbox("accept", id, "--to", laptop.path("roomy"))
            #expect(try await large.outcome(seconds: 30).status == 0)

            // Room for the bytes, and none for so many files: it runs out on the way.
            for number in 0..<50 { try write(Data("x".utf8), to: phone.path("many/\(number)")) }
            let many = try phone.start(["send", phone.path("many"), "laptop"])
            let next = try await wait(for: "waiting", on: laptop, count: 2)
            let failed = try await laptop.tryInbox(["accept", next, "--to", small])
            #expect(failed.status == 11 && failed.error.contains("no space left"), "\(failed)")
            let outcome = try await many.outcome(seconds: 30)
            #expect(outcome.status == 11 && outcome.error.contains("no space left"), "\(outcome)")
            // Where it is at the receiver's is not the sender's business.
            #expect(!outcome.error.contains(small), "\(outcome)")
            #expect(names(small).isEmpty && names(folder).isEmpty, "\(names(small))")
        }
    }
}

extension Machine {
    /// Runs a command of `kith inbox`, whose words come before its options.
    fileprivate func tryInbox(_ words: [String]) async throws -> Outcome {
        try await start(["inbox"] + words, byEnvironment: true).outcome(seconds: 60)
    }

    /// The same, and expects it to succeed.
    @discardableResult
    fileprivate func inbox(_ words: String..., sourceLocation: SourceLocation = #_sourceLocation) async throws -> String
    {
        let outcome = try await tryInbox(words)
        try #require(outcome.status == 0, "\(words): \(outcome)", sourceLocation: sourceLocation)
        return outcome.output
    }
}
