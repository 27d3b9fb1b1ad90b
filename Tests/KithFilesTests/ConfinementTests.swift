import Foundation
import KithAPI
import KithIdentity
import KithWire
import Synchronization
import Testing

@testable import KithFiles

@Suite struct ConfinementTests {
    @Test func `neither dots nor links lead out of the granted folder`() async throws {
        let folders = try Folders()
        try folders.write("secret", "secret")
        try folders.write("srv/inside/file", "file")
        #expect(symlink("../secret", folders.srv + "/up") == 0)
        #expect(symlink(folders.top + "/secret", folders.srv + "/absolute") == 0)
        #expect(symlink("..", folders.srv + "/parent") == 0)
        #expect(symlink("inside", folders.srv + "/alias") == 0)
        let client = folders.client()
        func read(_ path: String) async throws -> [UInt8] {
            let stream = try await client.open(Files.Read.self, .init(path: Files.Path(path)), on: "laptop").stream
                .bytes
            var all: [UInt8] = []
            while let bytes = try await stream.read(upTo: 1_000) { all += bytes }
            return all
        }
        #expect(try await read(folders.srv + "/alias/file") == Array("file".utf8))
        #expect(try await read("inside/file") == Array("file".utf8))
        for path in ["up", "absolute", "parent/secret"] {
            await #expect(throws: KithError(.denied, "")) { try await read(folders.srv + "/" + path) }
            await #expect(throws: KithError(.denied, "")) {
                try await client.copy([there(folders.srv + "/" + path)], to: here(folders.local), recursive: false)
            }
        }
        for path in [
            "../secret", folders.srv + "/../secret", folders.srv + "/a\0b", String(repeating: "a", count: 256),
        ] {
            await #expect(throws: KithError(.invalid, "")) { try await read(path) }
        }
        await #expect(throws: KithError(.denied, "")) {
            _ = try await client.call(
                Files.MakeFolder.self, .init(path: Files.Path(folders.srv + "/parent/new")), on: "laptop")
        }
        await #expect(throws: KithError(.denied, "")) {
            try await client.copy([here(folders.top + "/secret")], to: there(folders.srv + "/parent/stolen"))
        }
        #expect(try folders.names("") == ["local", "secret", "srv"])
    }

    @Test(arguments: [false, true])
    func `the descriptor walk and the kernel agree`(walking: Bool) throws {
        let folders = try Folders()
        try folders.write("secret", "secret")
        try folders.write("srv/a/b/file", "file")
        for (target, name) in [
            ("b/../b/file", "srv/a/in"), ("../../secret", "srv/a/out"), ("/etc/passwd", "srv/abs"),
            ("loop", "srv/loop"),
            ("a/b", "srv/dir"), ("../../../secret", "srv/a/b/deep"),
        ] { #expect(symlink(target, folders.top + "/" + name) == 0) }
        let root = try Descriptor.open(Array(folders.srv.utf8), [.path, .folder])
        func number(_ path: String, _ flags: Descriptor.Flags = []) -> Int32 {
            do throws(Errno) {
                _ = try root.open(beneath: Array(path.utf8), flags, walking: walking)
                return 0
            } catch {
                return error.number
            }
        }
        #expect(
            number("a/b/file") == 0 && number("a/in") == 0 && number("dir/file") == 0 && number("dir/../b/file") == 0)
        #expect(number("a/out") == EXDEV && number("abs") == EXDEV && number("..") == EXDEV)
        #expect(number("a/b/deep") == EXDEV && number("a/../../srv") == EXDEV)
        #expect(number("loop") == ELOOP && number("none") == ENOENT && number("a/b/file/x") == ENOTDIR)
        #expect(number("dir", .noFollow) == ELOOP && number("a/b/file/") == ENOTDIR)
    }

    @Test(arguments: [false, true])
    func `a folder that becomes a link meanwhile lets nothing out`(walking: Bool) async throws {
        let folders = try Folders()
        try folders.write("outside/file", "secret")
        try folders.write("srv/dir/file", "public")
        #expect(symlink("../outside", folders.srv + "/link") == 0)
        let stop = Atomic(false)
        let srv = folders.srv
        let thread = Thread {
            while !stop.load(ordering: .relaxed) {
                rename(srv + "/dir", srv + "/kept")
                rename(srv + "/link", srv + "/dir")
                rename(srv + "/dir", srv + "/link")
                rename(srv + "/kept", srv + "/dir")
            }
        }
        thread.start()
        let root = try Descriptor.open(Array(folders.srv.utf8), [.path, .folder])
        var seen = 0
        for _ in 0..<20_000 {
            guard let file = try? root.open(beneath: Array("dir/file".utf8), [], walking: walking),
                let content = try file.bytes(at: 0, limit: 100)
            else { continue }
            seen += 1
            #expect(content == Array("public".utf8))
        }
        stop.store(true, ordering: .relaxed)
        #expect(seen > 0)
    }

    @Test(arguments: ["..", ".", "", "a/b", "/etc", "a\0b"])
    func `a hostile name is refused before anything is made`(name: String) async throws {
        let folders = try Folders()
        let attributes = TransferFrame.Attributes(name: Array(name.utf8), mode: 0o777, seconds: 0, nanoseconds: 0)
        for frame in [
            TransferFrame.file(attributes, size: 1, []), .folder(attributes),
            .link(attributes, target: Array("/etc".utf8)),
        ] {
            let stream = try await folders.client().open(
                Files.Push.self, .init(path: Files.Path(folders.srv), receiving: .init()), on: "laptop"
            ).stream.bytes
            let refusal = try await stream.refusal(of: [frame])
            #expect(refusal?.code == .invalid)
            stream.abort(.cancelled)
        }
        #expect(try folders.names("srv").isEmpty)
    }

    @Test func `a link that was sent is not followed by what is sent after it`() async throws {
        let folders = try Folders()
        try folders.write("outside/keep", "keep")
        let stream = try await folders.client().open(
            Files.Push.self, .init(path: Files.Path(folders.srv), receiving: .init()), on: "laptop"
        ).stream.bytes
        let attributes = TransferFrame.Attributes(name: Array("x".utf8), mode: 0o777, seconds: 0, nanoseconds: 0)
        let refusal = try await stream.refusal(
            of: [.link(attributes, target: Array("../outside".utf8)), .folder(attributes)])
        #expect(refusal?.code == .conflict)
        stream.abort(.cancelled)
        #expect(try folders.names("outside") == ["keep"])
    }
}
