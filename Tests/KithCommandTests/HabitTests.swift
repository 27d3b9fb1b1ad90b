import Foundation
import Testing

/// Command lines of people who know ls, scp, rsync and git.
@Suite struct HabitTests {
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
            ["inbox", "--data", machine.data, "--json", "list"],
            ["--json", "api", "--data", machine.data, "show", "files.list"],
            ["--json", "inbox", "--data", machine.data],
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

    @Test func `a mistyped device is told which was meant, whatever the command`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            for words in [
                ["ls", "laptpo:/tmp"], ["shell", "lpatop", "--", "true"], ["ping", "latop"], ["forget", "Laptpo"],
                ["cp", "laptip:/x", "."], ["shell", "ana@laptop", "--", "true"],
            ] {
                let outcome = try await phone.kith(words)
                #expect(outcome.status == 3 && outcome.error.contains("Did you mean laptop?"), "\(words): \(outcome)")
            }
            let other = try await phone.kith(["ping", "desk"])
            #expect(other.status == 3 && other.error.contains("`kith devices` lists them."), "\(other)")
            let taken = try await phone.kith(["rename", "laptop", "phone"])
            #expect(taken.status == 4 && taken.error.contains("phone is this device itself."), "\(taken)")
        }
    }

    @Test func `a device alone is the one folder that is granted, where the home folder is not`() async throws {
        try await withTwoMachines { laptop, phone in
            let srv = laptop.path("srv")
            try write("x", to: srv + "/inside")
            try write("x", to: laptop.path("more/other"))
            try await laptop.invite(phone, "files:read=\(srv)")
            #expect(try await phone.expect("ls", "laptop:") == "inside\n")
            #expect(try await phone.expect("ls", "laptop:*") == "inside\n")
            let denied = try await phone.kith(["ls", "laptop:~/x"])
            #expect(denied.status == 5, "\(denied)")
            #expect(
                denied.error.contains(
                    "granted for that is \(srv). On the other device: kith grant phone --add files:read=$HOME/x"),
                "\(denied)")
            let none = try await phone.kith([
                "call", "files.list", #"{"path":"\#(srv)","limit":-1}"#, "--on", "laptop",
            ])
            #expect(none.status == 64 && none.error.contains("`limit` must be 1 or more"), "\(none)")
            // Of several, none is meant more than another.
            try await laptop.expect("grant", "phone", "--add", "files:read=\(laptop.path("more"))")
            let several = try await phone.kith(["ls", "laptop:"])
            #expect(several.status == 5 && several.error.contains(srv), "\(several)")
            #expect(
                several.error.contains(laptop.path("more")) && several.error.contains("--add files:read=$HOME"),
                "\(several)")
            // What changes something is to say what.
            try await laptop.expect("grant", "phone", "--remove", "files:read=\(laptop.path("more"))")
            try await laptop.expect("grant", "phone", "--add", "files:write=\(srv)")
            let sync = try await phone.kith(["sync", "--delete", phone.path("."), "laptop:"])
            #expect(sync.status == 5, "\(sync)")
            #expect(FileManager.default.fileExists(atPath: srv + "/inside"))
        }
    }

    @Test func `with -v mkdir, mv and rm name what they made, moved and deleted`() async throws {
        try await withTwoMachines { laptop, phone in
            let srv = laptop.path("srv")
            try write("x", to: srv + "/d/inside")
            try await laptop.invite(phone, "files:write=\(srv)")
            #expect(try await phone.expect("mkdir", "-pv", "laptop:\(srv)/a/b") == "made laptop:\(srv)/a/b\n")
            #expect(try await phone.expect("mkdir", "-pv", "laptop:\(srv)/a/b") == "")
            #expect(
                try await phone.expect("mv", "-v", "laptop:\(srv)/a/b", "laptop:\(srv)/c")
                    == "moved laptop:\(srv)/a/b to laptop:\(srv)/c\n")
            #expect(
                try await phone.expect("rm", "-rfv", "laptop:\(srv)/d", "laptop:\(srv)/c")
                    == "deleted laptop:\(srv)/d, and 1 in it\ndeleted laptop:\(srv)/c\n")
            let missing = try await phone.kith(["mkdir", "laptop:\(srv)/x/y"])
            #expect(missing.status == 3 && missing.error.contains("Pass -p"), "\(missing)")
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
            #expect(try await phone.expect("ls", "laptop:\(srv)") == "big\nd\nsmall\n")
            #expect(try await phone.expect("ls", "-t", "laptop:\(srv)") == "small\nd\nbig\n")
            #expect(try await phone.expect("ls", "-tr", "laptop:\(srv)") == "big\nd\nsmall\n")
            #expect(try await phone.expect("ls", "-S", "-r", "laptop:\(srv)").hasPrefix("small\n"))
            #expect(try await phone.expect("ls", "-lh", "laptop:\(srv)/big").contains(" 4.9K "))
            #expect(try await phone.expect("ls", "-d1", "laptop:\(srv)") == "\(srv)\n")
            #expect(
                try await phone.expect("ls", "-R", "laptop:\(srv)")
                    == "laptop:\(srv):\nbig\nd\nsmall\n\nlaptop:\(srv)/d:\ninner\n\n")
            let both = try await phone.expect("ls", "laptop:\(srv)/d", "laptop:\(srv)")
            #expect(both.hasPrefix("laptop:\(srv)/d:\ninner\n\nlaptop:\(srv):\nbig\n"))
        }
    }

    @Test func `a folder that takes several messages is listed in the order of ls`() async throws {
        try await withTwoMachines { laptop, phone in
            let srv = laptop.path("srv")
            for number in 0..<1_200 {
                // Some names differ behind the first eight bytes only, some times are before 1970, many are the same.
                let name = "\(srv)/\(["same-beginning-", "é", "", ","][number % 4])\(number)"
                try write(String(repeating: "x", count: number % 7), to: name)
                let thousands = number % 11 - 5
                let time = Double(thousands) * 1_000 + (thousands < 0 ? 0 : Double(number % 3) / 4)
                try FileManager.default.setAttributes(
                    [.modificationDate: Date(timeIntervalSince1970: time)], ofItemAtPath: name)
            }
            try await laptop.invite(phone, "files:read=\(srv)")
            for options in [[], ["-t"], ["-S"], ["-t", "-r"]] {
                let outcome = try await phone.kith(["ls"] + options + ["laptop:\(srv)"])
                #expect(try outcome.output == local(["ls", "-1"] + options + [srv]), "\(options)")
            }
            let found = try await phone.expect("find", "laptop:\(srv)").split(separator: "\n").sorted()
            #expect(try found == local(["find", srv]).split(separator: "\n").sorted())
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

    @Test func `ls -l and find print what the coreutils print, and -type finds its own only`() async throws {
        try await withTwoMachines { laptop, phone in
            let srv = laptop.path("srv")
            for (name, mode) in [
                ("plain", 0o640), ("setuid", 0o4755), ("setgid", 0o2755), ("both", 0o6644), ("sticky", 0o1644),
                ("d/inner", 0o7777), ("none", 0),
            ] {
                try write(name, to: srv + "/" + name)
                #expect(chmod(srv + "/" + name, mode_t(mode)) == 0)
            }
            #expect(chmod(srv + "/d", 0o1777) == 0)
            try FileManager.default.linkItem(atPath: srv + "/plain", toPath: srv + "/again")
            try FileManager.default.createSymbolicLink(atPath: srv + "/link", withDestinationPath: "/no where")
            #expect(mkfifo(srv + "/pipe", 0o600) == 0)
            let socket = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
            defer { close(socket) }
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            let path = srv + "/socket"
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix(107)) }
            let isBound = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(socket, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
                }
            }
            var types = ["p", "f", "d", "l", "c", "b", "f,p", "l,d"]
            if isBound == 0, path.utf8.count < 108 { types += ["s", "p,s"] }
            // Devices need root, and may be refused even then.
            let hasDevice = mknod(srv + "/null", S_IFCHR | 0o600, 0x103) == 0
            try await laptop.invite(phone, "files:read=\(srv)")
            let listing = try local(["ls", "-la", "--time-style=long-iso", srv]).split(separator: "\n").dropFirst()
            let expected = listing.filter { !$0.hasSuffix(" .") && !$0.hasSuffix(" ..") }.map(words)
            let own = try await phone.expect("ls", "-la", "laptop:\(srv)")
            #expect(!own.contains("\u{1B}") && !own.contains("d/"))
            #expect(
                own.split(separator: "\n").map(words).sorted { $0.last! < $1.last! }
                    == expected.sorted { $0.last! < $1.last! }, "\(own)")
            #expect(hasDevice == own.contains("crw------- 1"))
            for type in types {
                let expected = try local(["find", srv, "-type", type]).split(separator: "\n").sorted()
                for words in [["-type", type], ["(", "-type", type, ")"]] {
                    let outcome = try await phone.kith(["find", "laptop:\(srv)"] + words)
                    #expect(
                        outcome.status == 0 && outcome.output.split(separator: "\n").sorted() == expected, "\(type)")
                }
            }
            let format = "%F %a %A %u %g %U %G %h %s"
            for name in ["plain", "setuid", "pipe", "link", "d", "sticky"] {
                #expect(
                    try await phone.expect("stat", "-c", format, "laptop:\(srv)/\(name)")
                        == local(["stat", "-c", format, srv + "/" + name]), "\(name)")
            }
            let json = try await phone.expect("ls", "--json", "laptop:\(srv)")
            let entries = try #require(try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [[String: Any]])
            let pipe = try #require(entries.first { $0["name"] as? String == "pipe" })
            #expect(pipe["special"] as? String == "pipe" && pipe["links"] as? Int == 1 && pipe["userName"] != nil)
        }
    }

    /// The words of a line.
    private func words(_ line: Substring) -> [String] { line.split(separator: " ").map { String($0) } }

    @Test func `patterns stand for what matches there, in every command that takes files`() async throws {
        try await withTwoMachines { laptop, phone in
            let srv = laptop.path("srv")
            for name in ["a.txt", "b.txt", "c.log", ".h.txt", "d/e.txt", "[x].txt"] {
                try write(name + "\n", to: srv + "/" + name)
            }
            try await laptop.invite(phone, "files:write=\(srv)")
            // Without a slash they begin in the granted folder, as every path does.
            #expect(try await phone.expect("ls", "laptop:*.txt") == "[x].txt\na.txt\nb.txt\n")
            #expect(try await phone.expect("ls", "laptop:\(srv)/?.*") == "\(srv)/a.txt\n\(srv)/b.txt\n\(srv)/c.log\n")
            #expect(try await phone.expect("ls", "laptop:*/e.txt", "laptop:a*") == "a.txt\nd/e.txt\n")
            #expect(try await phone.expect("ls", "-d", "laptop:?") == "d\n")
            #expect(try await phone.expect("ls", "laptop:?", "laptop:c*") == "c.log\n\nlaptop:d:\ne.txt\n\n")
            #expect(try await phone.expect("cat", "laptop:[ab].txt") == "a.txt\nb.txt\n")
            // What has that very name comes first.
            #expect(try await phone.expect("cat", "laptop:[x].txt") == "[x].txt\n")
            // Behind a pattern, a name stands for what is there; a link to nowhere is.
            let manager = FileManager.default
            try manager.createDirectory(atPath: srv + "/z", withIntermediateDirectories: true)
            try manager.createSymbolicLink(atPath: srv + "/z/dead", withDestinationPath: "nowhere")
            #expect(try await phone.expect("ls", "laptop:*/e.txt") == "d/e.txt\n")
            #expect(try await phone.expect("ls", "laptop:*/dead", "laptop:z/dead") == "z/dead\nz/dead\n")
            #expect(try await phone.expect("ls", "-l", "laptop:z/dead").contains("z/dead -> nowhere\n"))
            #expect(try await phone.kith(["ls", "laptop:z/nothing"]).status == 3)
            #expect(try await phone.kith(["ls", "laptop:z/dead/"]).status == 3)
            let unmatched = try await phone.kith(["cp", "laptop:*/none", phone.path("none")])
            #expect(unmatched.status == 3 && unmatched.error.contains("matches */none"), "\(unmatched)")
            try await phone.expect("cp", "laptop:\(srv)/*/e.txt", phone.path("e.txt"))
            #expect(try String(contentsOfFile: phone.path("e.txt"), encoding: .utf8) == "d/e.txt\n")
            try manager.removeItem(atPath: srv + "/z")
            for tool in ["head", "tail"] {
                #expect(
                    try await phone.expect(tool, "-n", "1", "laptop:[ab].*")
                        == "==> laptop:a.txt <==\na.txt\n\n==> laptop:b.txt <==\nb.txt\n")
                #expect(try await phone.expect(tool, "laptop:c*") == "c.log\n")
            }
            #expect(try await phone.expect("stat", "-c", "%n", "laptop:*.log") == "c.log\n")
            #expect(try await phone.expect("du", "-b", "laptop:[ab].txt") == "6\ta.txt\n6\tb.txt\n")
            for words in [["ls"], ["cat"], ["rm"], ["head"], ["tail"], ["stat"], ["du"], ["cp"]] {
                let outcome = try await phone.kith(words + ["laptop:*.none"] + (words == ["cp"] ? ["."] : []))
                #expect(outcome.status == 3 && outcome.error.contains("matches *.none"), "\(words): \(outcome)")
            }
            let partly = try await phone.kith(["cat", "laptop:*.none", "laptop:c*"])
            #expect(partly.status == 3 && partly.output == "c.log\n", "\(partly)")
            try await phone.expect("rm", "laptop:[ab].*", "laptop:c*")
            #expect(try FileManager.default.contentsOfDirectory(atPath: srv).sorted() == [".h.txt", "[x].txt", "d"])
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
