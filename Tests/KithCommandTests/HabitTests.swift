import Foundation
import Testing

/// What people type who know ls, scp, rsync and git.
@Suite struct HabitTests {
    private func write(_ text: String, to path: String) throws {
        try FileManager.default.createDirectory(
            atPath: (path as NSString).deletingLastPathComponent, withIntermediateDirectories: true)
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
    }

    @Test func `a command for a device that is not there says so and makes none`() async throws {
        let machine = try Machine("nobody")
        for words in [["status"], ["ls", "laptop:/x"], ["devices"], ["down"], ["call", "api.describe"], ["inbox"]] {
            let outcome = try await machine.kith(words)
            #expect(outcome.status == 3, "\(outcome)")
            #expect(outcome.error.contains("There is no device at \(machine.data). Start one: kith up --data"))
        }
        #expect(!FileManager.default.fileExists(atPath: machine.data))
        await machine.remove()
    }

    @Test func `a wrong word says which was meant, with the status of a wrong command line`() async throws {
        let machine = try Machine("typo")
        for (words, hint) in [
            (["stauts"], "Did you mean kith status?"), (["help", "stauts"], "Did you mean kith status?"),
            (["nosuch"], "There is no command nosuch."), (["manual", "nosuch"], "There is no command nosuch."),
            (["config", "nosuch"], "There is no command nosuch."), (["forward", "-L", "80", "laptop"], "too few"),
            (["forward", "-D", "abc", "laptop"], "port"),
        ] {
            let outcome = try await machine.start(words, byEnvironment: true).outcome(seconds: 30)
            #expect(outcome.status == 64, "\(words): \(outcome)")
            #expect(outcome.error.contains(hint), "\(words): \(outcome)")
        }
        await machine.remove()
    }

    @Test func `common options may stand before the command`() async throws {
        let machine = try Machine("front")
        try await machine.up()
        for words in [
            ["--data", machine.data, "--json", "status"], ["--json", "--data=\(machine.data)", "inbox", "list"],
        ] {
            let outcome = try await machine.start(
                words, environment: ["KITH_DATA": "/nonexistent"], byEnvironment: true
            ).outcome(seconds: 30)
            #expect(outcome.status == 0, "\(outcome)")
            #expect(try JSONSerialization.jsonObject(with: Data(outcome.output.utf8)) is any Collection)
        }
        await machine.remove()
    }

    @Test func `a forgotten colon is found where a device has that name`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "files:write=\(laptop.path("srv"))")
            try write("x", to: phone.path("f"))
            for words in [["ls", "laptop"], ["mkdir", "laptop"], ["cp", phone.path("f"), "laptop"]] {
                let outcome = try await phone.kith(words)
                #expect(outcome.status == 64 && outcome.error.contains("Did you mean laptop:?"), "\(outcome)")
            }
            let other = try await phone.kith(["ls", "desk"])
            #expect(other.status == 64 && !other.error.contains("Did you mean"), "\(other)")
        }
    }

    @Test func `ls sorts, lists several, goes down and prints sizes for people`() async throws {
        try await withTwoMachines { laptop, phone in
            let srv = laptop.path("srv")
            try write(String(repeating: "x", count: 5_000), to: srv + "/big")
            try write("x", to: srv + "/small")
            try write("x", to: srv + "/d/inner")
            for (name, time) in [("big", 1_000.0), ("small", 3_000), ("d", 2_000)] {
                try FileManager.default.setAttributes(
                    [.modificationDate: Date(timeIntervalSince1970: time)], ofItemAtPath: srv + "/" + name)
            }
            try await laptop.invite(phone, "files:read=\(srv)")
            #expect(try await phone.expect("ls", "laptop:\(srv)") == "big\nd/\nsmall\n")
            #expect(try await phone.expect("ls", "-t", "laptop:\(srv)") == "small\nd/\nbig\n")
            #expect(try await phone.expect("ls", "-tr", "laptop:\(srv)") == "big\nd/\nsmall\n")
            #expect(try await phone.expect("ls", "-S", "-r", "laptop:\(srv)").hasPrefix("small\n"))
            #expect(try await phone.expect("ls", "-lh", "laptop:\(srv)/big").contains(" 4.9K "))
            #expect(try await phone.expect("ls", "-d1", "laptop:\(srv)") == "\(srv)/\n")
            #expect(
                try await phone.expect("ls", "-R", "laptop:\(srv)")
                    == "laptop:\(srv):\nbig\nd/\nsmall\n\nlaptop:\(srv)/d:\ninner\n\n")
            let both = try await phone.expect("ls", "laptop:\(srv)/d", "laptop:\(srv)")
            #expect(both.hasPrefix("laptop:\(srv)/d:\ninner\n\nlaptop:\(srv):\nbig\n"))
        }
    }

    @Test func `copies take the options of rsync, and patterns are expanded on the other device`() async throws {
        try await withTwoMachines { laptop, phone in
            let srv = laptop.path("srv")
            for name in ["d/a.txt", "d/b.txt", "d/c.log", "d/.h.txt", "e/a.txt", "[x]", "x"] {
                try write(name, to: srv + "/" + name)
            }
            try await laptop.invite(phone, "files:write=\(srv)")
            func names(_ folder: String) throws -> [String] {
                try FileManager.default.contentsOfDirectory(atPath: phone.path(folder)).sorted()
            }
            for folder in ["one", "two", "three", "four"] {
                try FileManager.default.createDirectory(atPath: phone.path(folder), withIntermediateDirectories: true)
            }
            try await phone.expect("cp", "laptop:\(srv)/d/*.txt", phone.path("one"))
            #expect(try names("one") == ["a.txt", "b.txt"])
            let listed = try await phone.expect("cp", "-avz", "--progress", "laptop:\(srv)/d", phone.path("two"))
            #expect(listed.contains("new ") && listed.contains("c.log"))
            #expect(try names("two/d") == [".h.txt", "a.txt", "b.txt", "c.log"])
            try await phone.expect("cp", "-p", "laptop:\(srv)/[x]", phone.path("three"))
            #expect(try names("three") == ["[x]"])
            try await phone.expect("cp", "laptop:\(srv)/?/b.*", phone.path("four"))
            #expect(try names("four") == ["b.txt"])
            let none = try await phone.kith(["cp", "laptop:\(srv)/*.none", phone.path("four")])
            #expect(none.status == 3 && none.error.contains("matches"), "\(none)")
        }
    }

    @Test func `moving to where nothing is granted names the grant to write`() async throws {
        try await withTwoMachines { laptop, phone in
            let srv = laptop.path("srv")
            try write("x", to: srv + "/a")
            try await laptop.invite(phone, "files:write=\(srv)")
            let outcome = try await phone.kith(["mv", "laptop:\(srv)/a", "laptop:/other/new"])
            #expect(outcome.status == 5, "\(outcome)")
            #expect(outcome.error.contains("kith grant phone --add files:write=/other/new"), "\(outcome)")
        }
    }

    @Test func `what is sent goes to the device that another name stands for`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone)
            let rule = try await laptop.start(
                ["inbox", "rule", "phone", "accept", "--to", laptop.path("in")], byEnvironment: true
            ).outcome(seconds: 30)
            #expect(rule.status == 0, "\(rule)")
            try write("[device work]\ndevice = laptop\n", to: phone.data + "/config")
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: phone.data + "/config")
            try write("x", to: phone.path("f"))
            try await phone.expect("send", phone.path("f"), "work")
            #expect(FileManager.default.fileExists(atPath: laptop.path("in/f")))
            let unknown = try await phone.kith(["send", phone.path("f"), "nobody"])
            #expect(unknown.status == 3 && !unknown.error.contains("Waiting"), "\(unknown)")
        }
    }
}
