import Foundation
#if canImport(Glibc)
import CoreFoundation
import Glibc
#elseif canImport(Darwin)
import Darwin
#endif
import KithAPI
import KithIdentity
import KithWire
import Testing

@Suite struct CopyTests {
    @Test(arguments: [0, 1, 65_535, 65_536, 65_537, 524_288, 3_000_001])
    func `a file arrives as it is, both ways`(size: Int) async throws {
        let folders = try Folders()
        let content = bytes(size, seed: UInt64(size))
        try folders.write("local/file", content)
        try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: folders.local + "/file")
        var times = [timespec(tv_sec: 0, tv_nsec: 0), timespec(tv_sec: 1_234_567_890, tv_nsec: 123_456_789)]
        #expect(utimensat(AT_FDCWD, folders.local + "/file", &times, 0) == 0)

        let client = folders.client()
        let (summary, _) = try await client.copy([here(folders.local + "/file")], to: there(folders.srv + "/"))
        #expect(summary.files == 1 && summary.bytes == UInt64(size))
        #expect(try folders.data("srv/file") == content)
        let entry = try await client.call(Files.Stat.self, .init(path: Files.Path(folders.srv + "/file")), on: "laptop")
        #expect(entry.mode == 0o640 && entry.modified == 1_234_567_890 && entry.modifiedNanoseconds == 123_456_789)

        try await client.copy([there(folders.srv + "/file")], to: here(folders.local + "/back"))
        #expect(try folders.data("local/back") == content)
    }

    @Test func `a tree keeps links, empty folders, modes, times and names of any bytes`() async throws {
        let folders = try Folders()
        try folders.write("local/tree/a/one", "one")
        try folders.write("local/tree/new\nline\u{1B}[31m", "odd")
        try FileManager.default.createDirectory(
            atPath: folders.local + "/tree/empty", withIntermediateDirectories: true)
        #expect(symlink("a/one", folders.local + "/tree/link") == 0)
        #expect(symlink("/etc/passwd", folders.local + "/tree/absolute") == 0)
        let raw: [CChar] = Array((folders.local + "/tree/").utf8CString.dropLast()) + [CChar(bitPattern: 0xFF), 65, 0]
        let descriptor = raw.withUnsafeBufferPointer { open($0.baseAddress!, O_CREAT | O_WRONLY, 0o600) }
        #expect(descriptor >= 0)
        close(descriptor)
        chmod(folders.local + "/tree/empty", 0o711)
        var times = [timespec(tv_sec: 0, tv_nsec: 0), timespec(tv_sec: 1_000_000_000, tv_nsec: 5)]
        #expect(utimensat(AT_FDCWD, folders.local + "/tree/a", &times, 0) == 0)

        let client = folders.client()
        let (summary, _) = try await client.copy([here(folders.local + "/tree")], to: there(folders.srv))
        #expect(summary.files == 3 && summary.folders == 3 && summary.links == 2)
        try await client.copy([there(folders.srv + "/tree")], to: here(folders.local + "/again"))
        for base in ["srv/tree", "local/again"] {
            #expect(try folders.text(base + "/a/one") == "one")
            #expect(try folders.text(base + "/new\nline\u{1B}[31m") == "odd")
            #expect(try FileManager.default.destinationOfSymbolicLink(atPath: "\(folders.top)/\(base)/link") == "a/one")
            #expect(
                try FileManager.default.destinationOfSymbolicLink(atPath: "\(folders.top)/\(base)/absolute")
                    == "/etc/passwd")
            var status = stat()
            #expect(stat("\(folders.top)/\(base)/empty", &status) == 0 && status.st_mode & 0o777 == 0o711)
            #expect(stat("\(folders.top)/\(base)/a", &status) == 0 && status.st_mtim.tv_sec == 1_000_000_000)
            #expect(status.st_mtim.tv_nsec == 5)
            let list = try await client.call(
                Files.List.self, .init(path: Files.Path("\(folders.top)/\(base)")), on: nil)
            #expect(list.entries.contains { $0.name.bytes == [0xFF, 65] })
        }
        #expect(try folders.names("srv") == ["tree"])
    }

    @Test func `ten thousand small files arrive`() async throws {
        let folders = try Folders()
        for index in 0..<100 {
            let folder = folders.local + "/many/\(index)"
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            for inner in 0..<100 {
                let descriptor = open(folder + "/\(inner)", O_CREAT | O_WRONLY, 0o644)
                let text = Array("\(index) \(inner)".utf8)
                #expect(Foundation.write(descriptor, text, text.count) == text.count)
                close(descriptor)
            }
        }
        let (summary, _) = try await folders.client().copy(
            [here(folders.local + "/many")], to: there(folders.srv + "/many"))
        #expect(summary.files == 10_000 && summary.folders == 101)
        #expect(try folders.text("srv/many/99/42") == "99 42")
    }

    @Test func `several sources want a folder`() async throws {
        let folders = try Folders()
        try folders.write("local/a", "a")
        try folders.write("local/b", "b")
        let client = folders.client()
        let sources = [here(folders.local + "/a"), here(folders.local + "/b")]
        try await client.copy(sources, to: there(folders.srv))
        #expect(try folders.names("srv") == ["a", "b"])
        await #expect(throws: KithError(.notFound, "")) {
            try await client.copy(sources, to: there(folders.srv + "/none"))
        }
        try await client.copy([there(folders.srv + "/a"), there(folders.srv + "/b")], to: here(folders.local + "/"))
    }

    @Test func `between two other devices the bytes pass through this one`() async throws {
        let folders = try Folders()
        try folders.write("srv/from/file", bytes(700_000, seed: 9))
        let (summary, _) = try await folders.client().copy(
            [there(folders.srv + "/from")],
            to: Files.Location(device: "desktop", path: Files.Path(folders.srv + "/to")), compress: .never)
        #expect(summary.files == 1 && summary.sent == 700_000)
        #expect(try folders.data("srv/to/file") == bytes(700_000, seed: 9))
    }

    @Test func `existing files are replaced at once, or left alone on request`() async throws {
        let folders = try Folders()
        try folders.write("local/file", "new")
        try folders.write("srv/file", "older")
        let client = folders.client()
        let (summary, _) = try await client.copy(
            [here(folders.local + "/file")], to: there(folders.srv), receiving: .init(overwrite: false))
        #expect(summary.files == 0 && summary.skipped == 1)
        #expect(try folders.text("srv/file") == "older")
        try await client.copy([here(folders.local + "/file")], to: there(folders.srv), receiving: .init(sync: true))
        #expect(try folders.text("srv/file") == "new")
        #expect(try folders.names("srv") == ["file"])
    }

    @Test func `pipes are left out with the reason, and nothing waits for them`() async throws {
        let folders = try Folders()
        try folders.write("local/tree/file", "file")
        #expect(mkfifo(folders.local + "/tree/pipe", 0o600) == 0)
        let (summary, skipped) = try await folders.client().copy(
            [here(folders.local + "/tree")], to: there(folders.srv))
        #expect(summary.files == 1 && summary.skipped == 1)
        #expect(skipped.map(\.path.description) == ["tree/pipe"])
        await #expect(throws: KithError(.unsupported, "")) {
            try await folders.client().copy([here(folders.local + "/tree/pipe")], to: there(folders.srv))
        }
    }

    @Test func `failures have their code and leave nothing`() async throws {
        let folders = try Folders()
        let client = folders.client()
        try folders.write("local/file", "file")
        try folders.write("local/tree/inner", "inner")
        try folders.write("srv/occupied", "file")
        try folders.write("srv/folder/file/deep", "deep")
        func expect(
            _ code: KithError.Code, _ source: Files.Location, _ destination: Files.Location, recursive: Bool = true,
            _ location: SourceLocation = #_sourceLocation
        ) async {
            await #expect(throws: KithError(code, ""), sourceLocation: location) {
                try await client.copy([source], to: destination, recursive: recursive)
            }
        }
        await expect(.notFound, here(folders.local + "/none"), there(folders.srv))
        await expect(.notFound, there(folders.srv + "/none"), here(folders.local))
        await expect(.denied, here(folders.local + "/file"), there("/etc/kith-test"))
        await expect(.denied, there("/etc/passwd"), here(folders.local))
        await expect(.invalid, here(folders.local + "/tree"), there(folders.srv), recursive: false)
        await expect(.conflict, here(folders.local + "/tree"), there(folders.srv + "/occupied"))
        await expect(.conflict, here(folders.local + "/file"), there(folders.srv + "/folder"))
        await expect(.invalid, there(folders.srv + "/../x"), here(folders.local))
        #expect(try folders.names("srv") == ["folder", "occupied"])
        #expect(try folders.names("local") == ["file", "tree"])
        #expect(!FileManager.default.fileExists(atPath: "/etc/kith-test"))
    }

    @Test func `damaged bytes are refused and nothing is put in place`() async throws {
        let folders = try Folders()
        try folders.write("local/file", bytes(2_000_000, seed: 4))
        let client = folders.client(tamper: { bytes in
            // A byte of the contents of the file, far behind its header.
            var bytes = bytes
            if bytes.count > 100_000 { bytes[90_000] ^= 1 }
            return bytes
        })
        await #expect(throws: KithError(.corrupt, "")) {
            try await client.copy([here(folders.local + "/file")], to: there(folders.srv))
        }
        #expect(try folders.names("srv").isEmpty)
    }

    @Test(.enabled(if: geteuid() == 0, "needs root: mounts a small file system"))
    func `a full disk is told, and with room again the copy goes on where it was`() async throws {
        let folders = try Folders()
        let mounted = mount("tmpfs", folders.srv, "tmpfs", 0, "size=8m")
        guard mounted == 0 else {
            print("skipped: this root may not mount a file system")
            return
        }
        defer { umount2(folders.srv, 2) }
        try folders.write("local/tree/one", bytes(6_000_000, seed: 5))
        try folders.write("local/tree/two", bytes(6_000_000, seed: 6))
        let source = here(folders.local + "/tree")
        let error = try await #require(throws: KithError.self) {
            try await folders.client().copy([source], to: there(folders.srv))
        }
        // Nothing has its name, what is left is told, and it does not hold the last of the disk.
        let left = try folders.names("srv")
        #expect(error.code == .exhausted && error.message.contains("\(folders.srv)/\(left.first ?? "-") "), "\(error)")
        var room = statvfs()
        #expect(statvfs(folders.srv, &room) == 0 && room.f_bavail * UInt(room.f_frsize) >= (8 << 20) / 16)
        #expect(left.count == 1 && left[0].hasPrefix(".kith-resume-"), "\(left)")
        #expect(try folders.names("srv/" + left[0]).contains("one"))
        #expect(mount("tmpfs", folders.srv, "tmpfs", UInt(MS_REMOUNT), "size=20m") == 0)
        let (summary, _) = try await folders.client().copy([source], to: there(folders.srv))
        #expect(summary.unchanged == 1 && summary.files == 1 && summary.sent < 5_000_000, "\(summary)")
        #expect(try folders.names("srv") == ["tree"])
        #expect(try Snapshot(folders.srv + "/tree") == Snapshot(folders.local + "/tree"))
    }

    @Test(.enabled(if: geteuid() == 0, "needs root: mounts a small file system"))
    func `a full disk keeps nothing that is not worth going on with`() async throws {
        let folders = try Folders()
        guard mount("tmpfs", folders.srv, "tmpfs", 0, "size=4m") == 0 else {
            print("skipped: this root may not mount a file system")
            return
        }
        defer { umount2(folders.srv, 2) }
        func free() -> UInt64 {
            var room = statvfs()
            return statvfs(folders.srv, &room) == 0 ? UInt64(room.f_bavail) * UInt64(room.f_frsize) : 0
        }
        // One file that had only a little room; many small ones; one under a name of its own.
        try folders.write("srv/others", bytes(4_000_000, seed: 1))
        try folders.write("local/file", bytes(3_000_000, seed: 2))
        var error = try await #require(throws: KithError.self) {
            try await folders.client().copy([here(folders.local + "/file")], to: there(folders.srv))
        }
        #expect(error.code == .exhausted && !error.message.contains(".kith-"), "\(error)")
        #expect(try folders.names("srv") == ["others"])
        try FileManager.default.removeItem(atPath: folders.srv + "/others")
        for index in 0..<200 {
            try folders.write("local/tree/\(index % 7)/\(index)", bytes(30_000, seed: UInt64(index)))
        }
        error = try await #require(throws: KithError.self) {
            try await folders.client().copy([here(folders.local + "/tree")], to: there(folders.srv))
        }
        let left = try #require(try folders.names("srv").first)
        #expect(error.message.contains("\(folders.srv)/\(left) ") && free() >= (4 << 20) / 16, "\(error) \(free())")
        try FileManager.default.removeItem(atPath: folders.srv + "/" + left)
        try folders.write("local/file", bytes(6_000_000, seed: 3))
        error = try await #require(throws: KithError.self) {
            try await folders.client().copy([here(folders.local + "/file")], to: there(folders.srv + "/name"))
        }
        let names = try folders.names("srv")
        #expect(names.count == 1 && error.message.contains("\(folders.srv)/\(names[0]) "), "\(error) \(names)")
        #expect(free() >= (4 << 20) / 16)
    }

    @Test(.enabled(if: (try? FileHandle(forReadingAtPath: "/proc/kallsyms")?.read(upToCount: 1)) != nil))
    func `a file of the system's own that says no size arrives whole`() async throws {
        let folders = try Folders()
        let content = try #require(try FileHandle(forReadingAtPath: "/proc/kallsyms")?.readToEnd())
        try #require(content.count > 200_000)
        try await folders.client().copy([here("/proc/kallsyms")], to: there(folders.srv))
        #expect(try folders.data("srv/kallsyms") == content)
    }

    @Test(.enabled(if: FileManager.default.fileExists(atPath: "/sys/class/net/lo/phys_port_id")))
    func `a regular file that cannot be read makes the copy a failure, whatever the system says`() async throws {
        let folders = try Folders()
        // Opens, and says at the first byte that it does not support that.
        await #expect(throws: KithError(.unsupported, "")) {
            try await folders.client().copy([here("/sys/class/net/lo/phys_port_id")], to: there(folders.srv))
        }
        #expect(try folders.names("srv").isEmpty)
    }

    @Test func `what a killed transfer left is removed by the next one`() async throws {
        let folders = try Folders()
        let stale = ".kith-partial-abcdefghijklmnopqrst"
        try folders.write("srv/" + stale, "half")
        try folders.write("srv/.kith-partial-bbcdefghijklmnopqrst/half", "half")
        try folders.write("srv/.kith-partial-mine", "not ours")
        let kept = ".kith-resume-abcdefghijklmnopqrst"
        let old = ".kith-resume-bbcdefghijklmnopqrst"
        try folders.write("srv/" + kept, "half")
        try folders.write("srv/" + old, "half")
        try FileManager.default.setAttributes(
            [.modificationDate: Date(timeIntervalSinceNow: -8 * 86_400)], ofItemAtPath: folders.srv + "/" + old)
        try folders.write("local/file", "file")
        try await folders.client().copy([here(folders.local + "/file")], to: there(folders.srv))
        #expect(try folders.names("srv") == [".kith-partial-mine", kept, "file"])
    }
}
