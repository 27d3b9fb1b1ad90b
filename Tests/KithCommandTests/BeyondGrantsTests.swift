import Foundation
import KithTesting
import Testing

#if canImport(Glibc)
import Glibc
#elseif canImport(Darwin)
import Darwin
#endif

/// Limits that grants do not name: the keys of the device, and what another device can make of a grant.
@Suite struct BeyondGrantsTests {
    @Test func `no forward reaches the device's own socket, by whatever name`() async throws {
        try await withTwoMachines { laptop, phone in
            let socket = laptop.data + "/kith.sock"
            try laptop.makeNames(of: socket)
            let short = laptop.path("own.sock")
            try await laptop.invite(phone, "forward", "forward:listen=unix:\(laptop.path("by/dir/new.sock"))")
            let pid = try await laptop.daemonPID()
            var ways = ["kith.sock", "by/link", "by/dir/kith.sock", "by/hard", "by/hop/kith.sock"].map {
                $0 == "kith.sock" ? socket : laptop.path($0)
            }
            #if os(Linux)
            ways += ["/proc/\(pid)/root\(socket)", "/proc/\(pid)/cwd/data/kith.sock"]
            #endif
            // Another device of this user is as much of a key to this one.
            ways.append(phone.data + "/kith.sock")
            let request = Data(#"{"jsonrpc":"2.0","id":1,"method":"device.status","params":{}}"#.utf8 + [10])
            for way in ways {
                let outcome = try await phone.kith(["via", "laptop", "unix:\(way)"], input: request)
                #expect(outcome.status == 5 && outcome.output.isEmpty, "\(way): \(outcome)")
                #expect(outcome.error.contains("belongs to kith"), "\(way): \(outcome)")
            }
            let listening = try await phone.kith([
                "forward", "laptop", "-R", "\(laptop.path("by/dir/new.sock")):127.0.0.1:1", "--detach",
            ])
            #expect(listening.status == 5, "\(listening)")
            #expect(!FileManager.default.fileExists(atPath: laptop.data + "/new.sock"))

            // Any other socket is reached as before.
            let echo = try SocketEcho(at: short)
            defer { withExtendedLifetime(echo) {} }
            let outcome = try await phone.kith(["via", "laptop", "unix:\(short)"], input: Data("hello".utf8))
            #expect(outcome.status == 0 && outcome.output == "hello", "\(outcome)")
        }
    }

    @Test(arguments: ["/", "the machine's folder"])
    func `no grant of files reaches the keys of the device`(granted: String) async throws {
        try await withTwoMachines { laptop, phone in
            try laptop.makeNames(of: laptop.data + "/machine.key")
            try Data("served".utf8).write(to: laptop.folder.appendingPathComponent("ordinary"))
            try await laptop.invite(phone, "files:write=\(granted == "/" ? "/" : laptop.folder.path)")
            let key = laptop.data + "/machine.key"
            let before = try Data(contentsOf: URL(fileURLWithPath: key))
            var ways = [key, laptop.path("by/dir/machine.key"), laptop.path("by/hard"), laptop.path("by/link")]
            ways += [laptop.path("by/hop/machine.key")]
            #if os(Linux)
            if granted == "/" {
                let pid = try await laptop.daemonPID()
                ways += ["/proc/\(pid)/root\(key)", "/proc/\(pid)/cwd/data/machine.key"]
                for process in ["\(pid)", "self", "thread-self", "\(pid)/task/\(pid)"] {
                    ways += ["environ", "maps", "mem"].map { "/proc/\(process)/\($0)" }
                }
                ways.append("/dev/fd/0")
            }
            #endif
            for way in ways {
                for command in ["cat", "tail"] {
                    let outcome = try await phone.kith([command, "laptop:\(way)"])
                    #expect(outcome.status != 0 && outcome.output.isEmpty, "\(command) \(way): \(outcome)")
                }
                let copied = try await phone.kith(["cp", "laptop:\(way)", phone.path("stolen")])
                #expect(copied.status != 0 && !FileManager.default.fileExists(atPath: phone.path("stolen")), "\(way)")
            }
            #expect(try await phone.kith(["ls", "laptop:\(laptop.data)"]).status == 5)

            // Nor is it written, deleted, moved or replaced, itself or with the folders around it.
            try Data("x".utf8).write(to: phone.folder.appendingPathComponent("x"))
            let data = "laptop:\(laptop.data)"
            let around = "laptop:\(laptop.folder.path)"
            for command in [
                ["cp", phone.path("x"), "\(data)/new"], ["cp", phone.path("x"), "\(data)/machine.key"],
                ["mv", data, "\(around)/away"], ["rm", "-rf", data], ["rm", "\(data)/machine.key"],
                ["mkdir", "\(data)/new"], ["mv", "\(around)/ordinary", "\(data)/machine.key"],
                ["mv", "\(around)/by/dir/machine.key", "\(around)/away"],
            ] + (granted == "/" ? [["mv", around, around + "-away"], ["rm", "-rf", around]] : []) {
                let outcome = try await phone.kith(command)
                #expect(outcome.status == 5, "\(command): \(outcome)")
            }
            try FileManager.default.createDirectory(atPath: phone.path("empty"), withIntermediateDirectories: true)
            _ = try await phone.kith(["sync", "--delete", phone.path("empty") + "/", around + "/"])
            #expect(try Data(contentsOf: URL(fileURLWithPath: key)) == before)
            #expect(try FileManager.default.contentsOfDirectory(atPath: laptop.data).contains("kith.sqlite"))
            #expect(!FileManager.default.fileExists(atPath: laptop.data + "/new"))
            try await laptop.expect("status")
        }
    }

    @Test func `a whole machine is served but for what is kith's`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "files:write=/")
            try FileManager.default.createDirectory(atPath: laptop.path("far/away"), withIntermediateDirectories: true)
            try Data("served".utf8).write(to: laptop.folder.appendingPathComponent("far/away/file"))
            #expect(symlink(laptop.path("far"), laptop.path("absolute")) == 0)
            #expect(symlink("../far/../far", laptop.path("far/away/relative")) == 0)
            for path in ["far/away/file", "absolute/away/file", "far/away/relative/../absolute/away/file"] {
                let outcome = try await phone.kith(["cat", "laptop:\(laptop.path(path))"])
                #expect(path.contains("..") ? outcome.status == 64 : outcome.output == "served", "\(outcome)")
            }
            #if os(Linux)
            #expect(try await phone.expect("cat", "laptop:/proc/meminfo").contains("MemTotal"))
            #expect(try await phone.expect("cat", "laptop:/proc/1/status").contains("Pid"))
            // It says that it is empty.
            #expect(try await phone.expect("tail", "-n", "2", "laptop:/proc/meminfo").split(separator: "\n").count == 2)
            #endif
            // The data directory is seen from outside, and left out of a copy without making that fail.
            #expect(try await phone.expect("ls", "laptop:\(laptop.folder.path)").contains("data"))
            try await phone.expect("cp", "-r", "laptop:\(laptop.folder.path)", phone.path("copy"))
            #expect(FileManager.default.fileExists(atPath: phone.path("copy/far/away/file")))
            #expect(!FileManager.default.fileExists(atPath: phone.path("copy/data")))
            try await phone.expect("mv", "laptop:\(laptop.path("far"))", "laptop:\(laptop.path("moved"))")
            try await phone.expect("rm", "-rf", "laptop:\(laptop.path("moved"))")
        }
    }

    @Test func `a copy from another device spares the keys of this one`() async throws {
        try await withTwoMachines { laptop, phone in
            // A backup of somebody's folder, laid out as the phone's own is.
            try FileManager.default.createDirectory(atPath: laptop.path("evil/data"), withIntermediateDirectories: true)
            try Data("evil".utf8).write(to: laptop.folder.appendingPathComponent("evil/data/machine.key"))
            try FileManager.default.createDirectory(atPath: laptop.path("none"), withIntermediateDirectories: true)
            try await laptop.invite(phone, "files:read=\(laptop.folder.path)")
            let key = try Data(contentsOf: URL(fileURLWithPath: phone.data + "/machine.key"))
            let copied = try await phone.kith(["sync", "laptop:\(laptop.path("evil"))/", phone.folder.path + "/"])
            #expect(copied.status != 0, "\(copied)")
            _ = try await phone.kith(["sync", "--delete", "laptop:\(laptop.path("none"))/", phone.folder.path + "/"])
            #expect(try Data(contentsOf: URL(fileURLWithPath: phone.data + "/machine.key")) == key)
            try await phone.expect("status")
        }
    }

    @Test func `a granted folder that another device turns into a link is not followed`() async throws {
        try await withTwoMachines { laptop, phone in
            for folder in ["srv/shared", "secret", "real"] {
                try FileManager.default.createDirectory(atPath: laptop.path(folder), withIntermediateDirectories: true)
            }
            for file in ["srv/shared/file", "secret/file", "real/file"] {
                try Data(file.utf8).write(to: laptop.folder.appendingPathComponent(file))
            }
            // What is a link when it is granted is one that the person here has made.
            #expect(symlink("real", laptop.path("alias")) == 0)
            try await laptop.invite(
                phone, "files:read=\(laptop.path("srv/shared"))", "files:read=\(laptop.path("alias"))")
            #expect(try await phone.expect("cat", "laptop:\(laptop.path("srv/shared/file"))") == "srv/shared/file")
            #expect(try await phone.expect("cat", "laptop:\(laptop.path("alias/file"))") == "real/file")

            #expect(rename(laptop.path("srv/shared"), laptop.path("srv/old")) == 0)
            #expect(symlink(laptop.path("secret"), laptop.path("srv/shared")) == 0)
            #expect(unlink(laptop.path("alias")) == 0 && symlink("secret", laptop.path("alias")) == 0)
            let replaced = try await phone.kith(["cat", "laptop:\(laptop.path("srv/shared/file"))"])
            #expect(replaced.status == 5 && replaced.output.isEmpty, "\(replaced)")
            #expect(try await phone.expect("cat", "laptop:\(laptop.path("alias/file"))") == "real/file")
            // Not one more device, not after a restart.
            try await laptop.expect("down")
            try await laptop.up()
            #expect(try await phone.kith(["cat", "laptop:\(laptop.path("srv/shared/file"))"]).status == 5)
        }
    }

    @Test func `grants of folders that lie in each other are warned about`() async throws {
        try await withTwoMachines { laptop, phone in
            let (above, below) = (laptop.path("srv"), laptop.path("srv/shared"))
            try await laptop.invite(phone, "files:read=\(below)")
            let plain = try await laptop.kith(["grant", "phone", "--add", "files:read=\(laptop.path("other"))"])
            #expect(!plain.error.contains("Warning"), "\(plain)")
            let granted = try await laptop.kith(["grant", "phone", "--add", "files:write=\(above)"])
            #expect(granted.error.contains("Warning: phone may write to \(above)"), "\(granted)")
            let again = try await laptop.expect("grant", "phone", "--add", "files:write=\(above)", "--json")
            #expect(again.contains("\"warnings\"") && again.contains("may write to"), "\(again)")
            let invited = try await laptop.kith(["invite", "--yes", "--grant", "files:read=\(below)"])
            #expect(invited.error.contains("so decides what The invited device finds in \(below)"), "\(invited)")
            let invitation = try await laptop.expect("invite", "--yes", "--json", "--grant", "files:read=\(below)")
            #expect(invitation.contains("may write to"), "\(invitation)")
        }
    }

    @Test func `who may write to what another may run is warned about`() async throws {
        try await withTwoMachines { laptop, phone in
            let (folder, script) = (laptop.path("srv"), laptop.path("srv/run.sh"))
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            try Data("#!/bin/sh\n".utf8).write(to: URL(fileURLWithPath: script))
            #expect(symlink(script, laptop.path("alias")) == 0)
            try await laptop.invite(phone, "shell:command=sh \(laptop.path("alias")) now")
            let plain = try await laptop.kith(["invite", "--yes", "--grant", "files:read=\(folder)"])
            #expect(plain.status == 0 && !plain.error.contains("Warning"), "\(plain)")
            let other = try await laptop.kith(["invite", "--yes", "--grant", "files:write=\(folder)"])
            #expect(
                other.error.contains("so decides what shell:command=sh \(laptop.path("alias")) now does for phone."),
                "\(other)")
            let own = try await laptop.kith(["grant", "phone", "--add", "files:write=\(folder)"])
            #expect(own.error.contains("does for it."), "\(own)")
            let later = try await laptop.kith(["invite", "--yes", "--grant", "shell:command=\(script)"])
            #expect(later.error.contains("Warning: phone may write to \(folder)"), "\(later)")
        }
    }

    @Test func `hard links of another device's key and database are refused, others are served`() async throws {
        try await withTwoMachines { laptop, phone in
            let folder = laptop.path("srv")
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            try Data("served".utf8).write(to: laptop.folder.appendingPathComponent("file"))
            try #require(link(laptop.path("file"), folder + "/file") == 0)
            try await laptop.invite(phone, "files:write=\(folder)")
            try Data("x".utf8).write(to: phone.folder.appendingPathComponent("x"))
            #expect(try await phone.expect("cat", "laptop:\(folder)/file") == "served")
            // The phone's own: another device of this user.
            for file in ["identity.sealed", "kith.sqlite"] {
                try #require(link(phone.data + "/" + file, folder + "/link") == 0)
                for command in [
                    ["cat", "laptop:\(folder)/link"], ["tail", "laptop:\(folder)/link"],
                    ["cp", "laptop:\(folder)/link", phone.path("stolen")],
                ] {
                    let outcome = try await phone.kith(command)
                    #expect(outcome.status == 5 && outcome.output.isEmpty, "\(file) \(command): \(outcome)")
                }
                try #require(unlink(folder + "/link") == 0)
            }
        }
    }

    @Test func `no folder or link on the way to the data directory is moved, however many there are`() async throws {
        let (laptop, phone) = (try Machine("laptop"), try Machine("phone"))
        func names(_ name: String) -> URL { laptop.folder.appendingPathComponent(name) }
        try FileManager.default.createDirectory(
            at: names("real/kith"), withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        try FileManager.default.createDirectory(at: names("way"), withIntermediateDirectories: true)
        try FileManager.default.createDirectory(at: names("free"), withIntermediateDirectories: true)
        // data → way/next/kith, and way/next → ../real.
        try #require(symlink("way/next/kith", laptop.data) == 0 && symlink("../real", laptop.path("way/next")) == 0)
        try #require(symlink("free", laptop.path("link")) == 0)
        do {
            try await laptop.up()
            try await phone.up()
            try await laptop.invite(phone, "files:write=\(laptop.folder.path)")
            let around = "laptop:\(laptop.folder.path)"
            for name in ["data", "way", "way/next", "real", "real/kith"] {
                for command in [["rm", "-rf", "\(around)/\(name)"], ["mv", "\(around)/\(name)", "\(around)/away"]] {
                    let outcome = try await phone.kith(command)
                    #expect(outcome.status == 5, "\(command): \(outcome)")
                }
            }
            for name in ["link", "free"] { try await phone.expect("rm", "-rf", "\(around)/\(name)") }
            try await laptop.expect("status")
        } catch {
            await laptop.remove()
            await phone.remove()
            throw error
        }
        await laptop.remove()
        await phone.remove()
    }

    @Test func `a forced command starts where and as its owner would start it`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell:command=pwd; env")
            let home = try await laptop.kith(["shell", "laptop", "--", "true"]).status
            #expect(home != 0)  // no device is called laptop there
            let arguments = [
                "--directory", "/usr", "--env", "LC_EVIL=1", "--env", "TZ=../evil", "--env", "LANG=evil", "--", "asked",
            ]
            let outcome = try await phone.kith(["shell", "laptop"] + arguments)
            let lines = outcome.output.split(separator: "\n").map(String.init)
            #expect(outcome.status == 0, "\(outcome)")
            #expect(lines.first != "/usr" && lines.contains("HOME=\(lines.first ?? "")"), "\(outcome)")
            #expect(lines.contains("KITH_COMMAND=asked"))
            #expect(!outcome.output.contains("evil") && !outcome.output.contains("LC_EVIL"), "\(outcome)")

            // The whole shell still takes both.
            try await laptop.expect("grant", "phone", "--add", "shell")
            let whole = try await phone.kith([
                "shell", "laptop", "--directory", "/usr", "--env", "LC_EVIL=1", "--", "pwd; env",
            ])
            #expect(whole.output.hasPrefix("/usr\n") && whole.output.contains("LC_EVIL=1"), "\(whole)")
        }
    }

    @Test func `the invitation of kith up grants nothing that nobody chose`() async throws {
        let laptop = try Machine("laptop")
        let plain = try await laptop.kith(["up", "--detach", "--json"])
        #expect(plain.status == 0 && plain.output.contains(#""invitation""#), "\(plain)")
        #expect(!plain.output.contains("shell") && !plain.output.contains("files:"), "\(plain)")
        try await laptop.expect("down")
        let told = try await laptop.kith(["up", "--detach"])
        #expect(told.output.contains("It may then: nothing yet") && told.output.contains("kith grant NAME --add"))
        try await laptop.expect("down")
        let chosen = try await laptop.kith(["up", "--detach", "--grant", "shell"])
        #expect(chosen.output.contains("It may then: shell"), "\(chosen)")
        await laptop.remove()
    }
}

extension Machine {
    /// Gives a file of the data directory names outside of it: links, a hard link, a link to its folder, and a chain.
    fileprivate func makeNames(of file: String) throws {
        try FileManager.default.createDirectory(atPath: path("by"), withIntermediateDirectories: true)
        let made = [
            symlink("../data/" + (file as NSString).lastPathComponent, path("by/link")),
            symlink("../data", path("by/dir")),
            symlink("dir/../by/dir", path("by/hop")), link(file, path("by/hard")),
        ]
        #expect(made == [0, 0, 0, 0])
    }
}

/// A Unix socket of another program's that sends back what comes.
private final class SocketEcho: @unchecked Sendable {  // set up before it is shared
    private let process = Process()

    init(at path: String) throws {
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Interop/forward_peer.py").path
        process.arguments = ["python3", script, "echo", "unix", path]
        let output = Foundation.Pipe()
        process.standardOutput = output
        try process.run()
        let line = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self)
        try #require(line.hasPrefix("ready"), "\(line)")
    }

    deinit { process.end() }
}
