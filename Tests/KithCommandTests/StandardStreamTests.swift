import Foundation
import Testing

/// Standard streams that are closed, full, or read by nobody any more.
@Suite struct StandardStreamTests {
    /// Commands that print something on standard output.
    private static let printing = [
        "status", "status --json", "devices", "audit", "ls laptop:/etc", "cat laptop:/etc/passwd",
        "head laptop:/etc/passwd",
        "find laptop:/etc -maxdepth 1", "du laptop:/etc/ssl", "stat laptop:/etc", "ping laptop --count 1", "doctor",
        "shell laptop -- echo hello", "shell -t laptop -- echo hello", "shell laptop --list --json",
        "call device.status", "manual cp", "completions bash", "config example", "service install --print",
        "invite --text",
    ]

    @Test func `an output that cannot be written is an error of the status, and nothing hangs or crashes`() async throws
    {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell", "files:read=/")
            try await withThrowingTaskGroup(of: Void.self) { group in
                for (number, command) in Self.printing.enumerated() {
                    if number >= 4 { try await group.next() }
                    group.addTask {
                        let closed = try await phone.bash("kith \(command) >&-", seconds: 30)
                        #expect(closed.status == 1, "\(command) >&-: \(closed)")
                        #expect(closed.error.contains("standard output is closed"), "\(command): \(closed)")
                        let full = try await phone.bash("kith \(command) >/dev/full", seconds: 30)
                        #expect(full.status == 11 && full.error.contains("the disk is full"), "\(command): \(full)")
                        let unread = try await phone.bash("kith \(command) | true; exit ${PIPESTATUS[0]}", seconds: 30)
                        #expect([0, 141].contains(unread.status), "\(command) | true: \(unread)")
                        let none = try await phone.bash("kith \(command) <&- >&- 2>&-", seconds: 30)
                        #expect(none.status == 1 && none.output.isEmpty && none.error.isEmpty, "\(command): \(none)")
                    }
                }
                try await group.waitForAll()
            }
        }
    }

    @Test func `what is said without anybody to hear it changes nothing`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell", "files:write=\(laptop.folder.path)", "forward")
            let file = phone.path("f")
            try Data("text".utf8).write(to: URL(fileURLWithPath: file))
            for streams in ["2>&-", "2>/dev/full", "<&-", "<&- 2>&-"] {
                let there = laptop.path("copy")
                for command in [
                    "cp \(file) laptop:\(there)", "shell laptop -- true", "status >/dev/null", "forward --list",
                    "ping laptop --count 1 >/dev/null", "bench laptop --time 0.1 -n 3 >/dev/null",
                    "via laptop -- true", "mkdir -p laptop:\(laptop.path("d"))",
                ] {
                    let outcome = try await phone.bash("kith \(command) \(streams)", seconds: 30)
                    #expect(outcome.status == 0, "\(command) \(streams): \(outcome)")
                }
                #expect(try String(contentsOfFile: there, encoding: .utf8) == "text")
                let wrong = try await phone.bash("kith nosuch \(streams)", seconds: 30)
                #expect(wrong.status == 64, "\(wrong)")
                let unread = try await phone.bash(
                    "kith shell laptop -- 'echo said >&2; exit 3' \(streams)", seconds: 30)
                #expect([3, 1, 11].contains(unread.status), "\(streams): \(unread)")
            }
        }
    }

    @Test func `a daemon is started with every stream closed, and keeps none of its starter's`() async throws {
        let machine = try Machine("closed")
        let started = try await machine.bash("kith up --detach --no-invite <&- >&- 2>&-", seconds: 30)
        #expect([0, 1].contains(started.status), "\(started)")
        #expect(try await machine.kith(["status"]).output.contains("is up"))
        #expect(try await machine.kith(["down"]).status == 0)
        await machine.remove()
    }
}
