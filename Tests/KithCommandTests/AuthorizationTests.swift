import Foundation
import KithTesting
import Testing

@Suite struct AuthorizationTests {
    @Test func `a missing grant is refused before anything happens`() async throws {
        try await withTwoMachines { laptop, phone in
            let shared = laptop.path("shared")
            try FileManager.default.createDirectory(atPath: shared, withIntermediateDirectories: true)
            try await laptop.invite(phone, "files:read=\(shared)")

            let witness = laptop.path("witness")
            let shell = try await phone.kith(["shell", "laptop", "--", "touch", witness])
            #expect(shell.status == 5)
            #expect(shell.error.contains("kith grant"))
            #expect(!FileManager.default.fileExists(atPath: witness))

            #expect(try await phone.kith(["mkdir", "laptop:\(shared)/new"]).status == 5)
            #expect(!FileManager.default.fileExists(atPath: shared + "/new"))

            try Data("hello".utf8).write(to: phone.folder.appendingPathComponent("hello"))
            #expect(try await phone.kith(["cp", phone.path("hello"), "laptop:\(shared)/"]).status == 5)
            #expect(!FileManager.default.fileExists(atPath: shared + "/hello"))
            #expect(try await phone.kith(["ls", "laptop:/etc"]).status == 5)
            try await phone.expect("ls", "laptop:\(shared)")

            let audit = try await laptop.expect("audit", "--json")
            #expect(audit.contains("denied"))
        }
    }

    @Test func `what a device owns says nothing about what it may do here`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            // The phone may use the laptop; nothing was said about the other direction.
            let back = try await laptop.kith(["shell", "phone", "--", "true"])
            #expect(back.status == 5)
            try await phone.expect("grant", "laptop", "--add", "shell")
            try await laptop.expect("shell", "phone", "--", "true")
        }
    }

    @Test func `a forgotten device is cut off at once, also in a running shell`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            let marker = laptop.path("alive")
            let holders = try Holders(laptop.path("held"))
            let shell = try phone.start([
                "shell", "laptop", "--", "exec 3>\(holders.path); touch \(marker); while :; do sleep 0.05; done",
            ])
            try await laptop.waitForFile(marker)
            try await laptop.expect("forget", "phone")
            let outcome = try await shell.outcome(seconds: 10)
            #expect(outcome.status != 0)
            // The loop died with its right to run.
            try await eventually { holders.areGone }
            #expect(try await phone.kith(["shell", "laptop", "--", "true"]).status == 6)
        }
    }

    @Test func `a grant taken away ends the shell that needed it`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            let marker = laptop.path("alive")
            let shell = try phone.start(["shell", "laptop", "--", "touch \(marker); sleep 1000"])
            try await laptop.waitForFile(marker)
            try await laptop.expect("grant", "phone", "--remove", "shell")
            #expect(try await shell.outcome(seconds: 10).status != 0)
            #expect(try await phone.kith(["shell", "laptop", "--", "true"]).status == 5)
            try await phone.expect("ping", "laptop", "--count", "1")
        }
    }
}

extension Machine {
    /// Waits until a file exists.
    func waitForFile(_ path: String) async throws {
        try await eventually { FileManager.default.fileExists(atPath: path) }
    }
}
