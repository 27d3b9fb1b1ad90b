import Foundation
import Testing

@Suite struct CopyTests {
    @Test func `a file arrives whole, with mode and time, both ways`() async throws {
        try await withTwoMachines { laptop, phone in
            let served = try await shared(laptop, with: phone)
            let big = phone.path("big.iso")
            let bytes = Self.bytes(5_000_001, seed: 1)
            try bytes.write(to: URL(fileURLWithPath: big))
            try FileManager.default.setAttributes(
                [.posixPermissions: 0o640, .modificationDate: Date(timeIntervalSince1970: 1_234_567_890)],
                ofItemAtPath: big)
            try await phone.expect("cp", big, "laptop:\(served)/")
            #expect(try Data(contentsOf: URL(fileURLWithPath: served + "/big.iso")) == bytes)
            let attributes = try FileManager.default.attributesOfItem(atPath: served + "/big.iso")
            #expect(attributes[.posixPermissions] as? Int == 0o640)
            #expect(attributes[.modificationDate] as? Date == Date(timeIntervalSince1970: 1_234_567_890))

            try await phone.expect("cp", "laptop:\(served)/big.iso", phone.path("back.iso"))
            #expect(try Data(contentsOf: URL(fileURLWithPath: phone.path("back.iso"))) == bytes)
        }
    }

    @Test func `a tree keeps its links and its empty directories`() async throws {
        try await withTwoMachines { laptop, phone in
            let served = try await shared(laptop, with: phone)
            let manager = FileManager.default
            try manager.createDirectory(atPath: served + "/photos/empty", withIntermediateDirectories: true)
            try Self.bytes(10_000, seed: 2).write(to: URL(fileURLWithPath: served + "/photos/one.jpg"))
            try manager.createSymbolicLink(atPath: served + "/photos/latest", withDestinationPath: "one.jpg")
            let outcome = try await phone.kith(["cp", "-r", "laptop:\(served)/photos", "."])
            #expect(outcome.status == 0, "\(outcome)")
            #expect(
                try Data(contentsOf: URL(fileURLWithPath: phone.path("photos/one.jpg"))) == Self.bytes(10_000, seed: 2))
            #expect(try manager.destinationOfSymbolicLink(atPath: phone.path("photos/latest")) == "one.jpg")
            var isDirectory: ObjCBool = false
            #expect(manager.fileExists(atPath: phone.path("photos/empty"), isDirectory: &isDirectory))
            #expect(isDirectory.boolValue)
        }
    }

    @Test(arguments: ["sender", "receiver"])
    func `kill -9 of either side leaves the destination absent or whole`(victim: String) async throws {
        try await withTwoMachines { laptop, phone in
            let served = try await shared(laptop, with: phone)
            let source = phone.path("source")
            let bytes = Self.bytes(60_000_000, seed: 3)
            try bytes.write(to: URL(fileURLWithPath: source))
            var generator = SystemRandomNumberGenerator()
            for round in 0..<4 {
                let destination = "\(served)/copy-\(round)"
                let copy = try phone.start(["cp", source, "laptop:\(destination)"])
                let delay = Int.random(in: 0...250, using: &generator)
                try await Task.sleep(for: .milliseconds(delay))  // Real time: the moment of the kill is random.
                let machine = victim == "sender" ? phone : laptop
                try await machine.killDaemon()
                _ = try await copy.outcome(seconds: 4)
                if FileManager.default.fileExists(atPath: destination) {
                    #expect(
                        try Data(contentsOf: URL(fileURLWithPath: destination)) == bytes,
                        "torn after \(delay) ms in round \(round)")
                }
                try await machine.up()
            }
            // Nothing is left of the attempts once a copy into the same folder has succeeded.
            try await phone.expect("cp", source, "laptop:\(served)/last")
            #expect(try Data(contentsOf: URL(fileURLWithPath: served + "/last")) == bytes)
        }
    }

    @Test func `the first call after the other device has restarted works, whatever it is`() async throws {
        try await withTwoMachines { laptop, phone in
            let served = try await shared(laptop, with: phone)
            try await laptop.expect("grant", "phone", "--add", "shell")
            try Data("hello".utf8).write(to: URL(fileURLWithPath: phone.path("file")))
            let calls = [
                ["mkdir", "laptop:\(served)/folder"], ["cp", phone.path("file"), "laptop:\(served)/"],
                ["shell", "laptop", "--", "true"], ["ls", "laptop:\(served)"],
            ]
            for call in calls {
                try await phone.expect("ping", "laptop", "--count", "1")
                try await laptop.killDaemon()
                try await laptop.up()
                let outcome = try await phone.kith(call)
                #expect(outcome.status == 0, "\(call): \(outcome)")
            }
        }
    }

    @Test func `every failure is one clear line and a status of its own`() async throws {
        try await withTwoMachines { laptop, phone in
            let served = try await shared(laptop, with: phone)
            let file = phone.path("file")
            try Data("hello".utf8).write(to: URL(fileURLWithPath: file))

            func expectFailure(_ status: Int32, _ words: String, _ arguments: String...) async throws {
                let outcome = try await phone.kith(arguments)
                #expect(outcome.status == status, "\(arguments): \(outcome)")
                let lines = outcome.error.split(separator: "\n")
                #expect(lines.count == 1, "\(arguments): \(outcome)")
                #expect(outcome.error.localizedCaseInsensitiveContains(words), "\(arguments): \(outcome)")
            }
            try await expectFailure(3, "nothing-here", "cp", phone.path("nothing-here"), "laptop:\(served)/")
            try await expectFailure(3, "absent", "cp", "laptop:\(served)/absent", ".")
            try await expectFailure(3, "nobody", "cp", file, "nobody:/srv/")
            try await expectFailure(5, "permitted", "cp", file, "laptop:/etc/kith-test")
            try FileManager.default.createDirectory(atPath: served + "/taken/inside", withIntermediateDirectories: true)
            try await phone.expect("mkdir", "laptop:\(served)/tree")
            try FileManager.default.createDirectory(atPath: phone.path("tree"), withIntermediateDirectories: true)
            try await expectFailure(64, "-r", "cp", phone.path("tree"), "laptop:\(served)/")
            try Data("file".utf8).write(to: URL(fileURLWithPath: served + "/occupied"))
            try await expectFailure(4, "occupied", "cp", "-r", phone.path("tree"), "laptop:\(served)/occupied")
        }
    }

    @Test(.enabled(if: geteuid() == 0, "needs root: mounts a small file system"))
    func `a full disk is one clear line, and with more room the copy goes on`() async throws {
        try await withTwoMachines { laptop, phone in
            let small = laptop.path("small")
            try FileManager.default.createDirectory(atPath: small, withIntermediateDirectories: true)
            guard try await run("/bin/mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", small) == 0 else {
                print("skipped: this root may not mount a file system")
                return
            }
            try await laptop.invite(phone, "files:write=\(small)")
            try Self.bytes(8_000_000, seed: 4).write(to: URL(fileURLWithPath: phone.path("large")))
            let outcome = try await phone.kith(["cp", phone.path("large"), "laptop:\(small)/"])
            let left = try FileManager.default.contentsOfDirectory(atPath: small)
            _ = try await run("/bin/mount", "-o", "remount,size=20m", small)
            let again = try await phone.kith(["cp", phone.path("large"), "laptop:\(small)/"])
            let arrived = try FileManager.default.contentsOfDirectory(atPath: small)
            _ = try await run("/bin/umount", "-l", small)
            #expect(outcome.status == 11, "\(outcome)")
            #expect(outcome.error.split(separator: "\n").count == 1, "\(outcome)")
            #expect(left.count == 1 && left[0].hasPrefix(".kith-resume-"), "\(left)")
            #expect(outcome.error.contains("\(small)/\(left.first ?? "-") "), "\(outcome)")
            #expect(again.status == 0 && arrived == ["large"], "\(again) \(arrived)")
        }
    }

    private func shared(_ laptop: Machine, with phone: Machine) async throws -> String {
        let folder = laptop.path("srv")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try await laptop.invite(phone, "files:write=\(folder)")
        return folder
    }

    private func run(_ program: String, _ arguments: String...) async throws -> Int32 {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments = arguments
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        return process.terminationStatus
    }

    static func bytes(_ count: Int, seed: UInt64) -> Data {
        var state = seed
        var data = Data(capacity: count + 8)
        while data.count < count {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            withUnsafeBytes(of: state) { data.append(contentsOf: $0) }
        }
        return data.prefix(count)
    }
}
