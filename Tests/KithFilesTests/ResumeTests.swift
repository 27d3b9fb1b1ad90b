import Foundation
import KithAPI
import KithIdentity
import KithTesting
import KithWire
import Synchronization
import Testing

@testable import KithFiles

#if canImport(Glibc)
import CDispatch
import Glibc
#elseif canImport(Darwin)
import Darwin
#endif

@Suite struct ResumeTests {
    @Test(arguments: ["push", "pull"])
    func `a large file that was cut goes on where it was`(direction: String) async throws {
        let folders = try Folders()
        let size = 12_000_000
        let content = bytes(size, seed: 21)
        let (source, target) = direction == "push" ? ("local", "srv") : ("srv", "local")
        try folders.write(source + "/file", content)
        let from = Files.Location(
            device: direction == "push" ? nil : "laptop", path: Files.Path("\(folders.top)/\(source)/file"))
        let to = Files.Location(
            device: direction == "push" ? "laptop" : nil, path: Files.Path("\(folders.top)/\(target)/"))
        await #expect(throws: KithError(.closed, "")) {
            try await folders.client(cut: { size / 2 }).copy([from], to: to)
        }
        let left = try folders.names(target)
        #expect(left.count == 1 && left[0].hasPrefix(".kith-resume-"), "\(left)")
        let (summary, _) = try await folders.client().copy([from], to: to)
        #expect(try folders.data(target + "/file") == content)
        #expect(try folders.names(target) == ["file"])
        // What was on its way when the link was cut, and the leaf it was in.
        #expect(summary.sent <= UInt64(size / 2 + 3_000_000), "\(summary.sent)")
        #expect(summary.bytes == UInt64(size))
    }

    @Test func `a partial that was damaged meanwhile is put right, not believed`() async throws {
        let folders = try Folders()
        let content = bytes(5_000_000, seed: 22)
        try folders.write("local/file", content)
        await #expect(throws: KithError(.closed, "")) {
            try await folders.client(cut: { 4_000_000 }).copy([here(folders.local + "/file")], to: there(folders.srv))
        }
        let partial = try #require(try folders.names("srv").first)
        var half = try folders.data("srv/" + partial)
        half[100_000] ^= 1
        half[half.count - 1] ^= 1
        half += bytes(3_000_000, seed: 23)
        try folders.write("srv/" + partial, half)
        let (summary, _) = try await folders.client().copy([here(folders.local + "/file")], to: there(folders.srv))
        #expect(try folders.data("srv/file") == content)
        #expect(summary.sent < 4_000_000)
    }

    @Test func `what was left is not gone on with when the source is another by now`() async throws {
        let folders = try Folders()
        try folders.write("local/file", bytes(3_000_000, seed: 24))
        await #expect(throws: KithError(.closed, "")) {
            try await folders.client(cut: { 2_500_000 }).copy([here(folders.local + "/file")], to: there(folders.srv))
        }
        try folders.write("local/file", bytes(2_000_000, seed: 25))
        let (summary, _) = try await folders.client().copy([here(folders.local + "/file")], to: there(folders.srv))
        #expect(try folders.data("srv/file") == bytes(2_000_000, seed: 25) && summary.sent == 2_000_000)
    }

    @Test func `somebody else's file under the name of a partial is left alone`() async throws {
        let folders = try Folders()
        try folders.write("local/file", bytes(2_000_000, seed: 26))
        await #expect(throws: KithError(.closed, "")) {
            try await folders.client(cut: { 1_500_000 }).copy([here(folders.local + "/file")], to: there(folders.srv))
        }
        let partial = try #require(try folders.names("srv").first)
        try folders.write("victim", "precious")
        for kind in ["hard link", "link"] {
            #expect(unlink(folders.srv + "/" + partial) == 0)
            if kind == "link" {
                #expect(symlink("../victim", folders.srv + "/" + partial) == 0)
            } else {
                #expect(link(folders.top + "/victim", folders.srv + "/" + partial) == 0)
            }
            try await folders.client().copy([here(folders.local + "/file")], to: there(folders.srv))
            #expect(try folders.text("victim") == "precious")
            #expect(try folders.data("srv/file") == bytes(2_000_000, seed: 26))
            #expect(unlink(folders.srv + "/file") == 0)
        }
    }

    @Test func `one copy outlives several cuts by itself, and says that it waits`() async throws {
        let folders = try Folders()
        let content = bytes(6_000_000, seed: 27)
        try folders.write("local/tree/file", content)
        for index in 0..<50 { try folders.write("local/tree/small/\(index)", "\(index)") }
        let cuts = Mutex([2_000_000, 1_500_000, 100, 2_000_000])
        let waits = Atomic(0)
        let client = folders.client(cut: { cuts.withLock { $0.isEmpty ? nil : $0.removeFirst() } })
        let (summary, _) = try await client.follow(
            Files.Copy.Input(sources: [here(folders.local + "/tree")], destination: there(folders.srv), recursive: true)
        ) { progress in
            if progress.waiting != nil { waits.add(1, ordering: .relaxed) }
        }
        #expect(cuts.withLock { $0.isEmpty })
        #expect(waits.load(ordering: .relaxed) > 0)
        #expect(try folders.data("srv/tree/file") == content && folders.text("srv/tree/small/49") == "49")
        // From the beginning each time, it would be more than 10 MB.
        #expect(summary.sent >= 6_000_000 && summary.sent < 9_500_000, "\(summary.sent)")
        #expect(try folders.names("srv") == ["tree"])
    }

    @Test func `a transfer begun again takes its partial from the one that hangs`() async throws {
        let folders = try Folders()
        let content = bytes(3_000_000, seed: 28)
        try folders.write("local/file", content)
        let carrier = LocalCarrier(grants: [.files(.write, root: folders.srv)])
        let client = Client(carrier)
        // A sender whose link is gone and which does not know: it has listed the file, sent a part, and says no more.
        let info = try Descriptor.open(Array((folders.local + "/file").utf8), []).info()
        let hanging = try await client.open(
            Files.Push.self, .init(path: Files.Path(folders.srv), receiving: .init()), on: "laptop"
        ).stream.bytes
        try await hanging.say([
            .file(
                TransferFrame.Attributes(
                    name: Array("file".utf8), mode: 0o644, seconds: info.seconds, nanoseconds: info.nanoseconds,
                    identity: TreeSender.identity(of: info)), size: info.size, [])
        ])
        #expect(try await hanging.hears(.send(files: 1)))
        var data: [UInt8] = []
        try TransferFrame.data([UInt8](content.prefix(1_000_000))[...]).append(to: &data)
        try await hanging.write(data)
        func arrived() throws -> Int { try folders.names("srv").first.map { try folders.data("srv/" + $0).count } ?? 0 }
        try await eventually { try arrived() >= 512 << 10 }
        let (summary, _) = try await client.copy([here(folders.local + "/file")], to: there(folders.srv))
        #expect(try folders.data("srv/file") == content)
        #expect(summary.sent < 3_000_000, "\(summary.sent)")
        var refusal: KithError?
        do { while try await hanging.read(upTo: 100) != nil {} } catch let error as KithError { refusal = error }
        #expect(refusal?.code == .conflict)
    }
}

@Suite struct UnchangedTests {
    @Test func `files that are there already are not sent`() async throws {
        let folders = try Folders()
        for index in 0..<30 { try folders.write("local/tree/\(index % 3)/\(index)", bytes(index * 9_000, seed: 31)) }
        let client = folders.client()
        try await client.copy([here(folders.local + "/tree")], to: there(folders.srv))
        let (again, _) = try await client.copy([here(folders.local + "/tree")], to: there(folders.srv))
        #expect(again.unchanged == 30 && again.files == 0 && again.sent == 0)
        try folders.write("local/tree/0/0", "changed")
        chmod(folders.local + "/tree/1/1", 0o700)
        let (third, _) = try await client.copy([here(folders.local + "/tree")], to: there(folders.srv))
        #expect(third.unchanged == 29 && third.files == 1)
        #expect(try folders.text("srv/tree/0/0") == "changed")
        let attributes = try FileManager.default.attributesOfItem(atPath: folders.srv + "/tree/1/1")
        #expect(attributes[.posixPermissions] as? Int == 0o700)
    }

    @Test func `with the hash, the same contents are the same file and others are not, whatever the times say`()
        async throws
    {
        let folders = try Folders()
        try folders.write("local/same", bytes(700_000, seed: 32))
        try folders.write("srv/same", bytes(700_000, seed: 32))
        try folders.write("local/other", bytes(500_000, seed: 33))
        var changed = bytes(500_000, seed: 33)
        changed[250_000] ^= 1
        try folders.write("srv/other", changed)
        let when = Date(timeIntervalSince1970: 1_500_000_000)
        for path in ["local/other", "srv/other", "local/same"] {
            try FileManager.default.setAttributes([.modificationDate: when], ofItemAtPath: folders.top + "/" + path)
        }
        let sources = [here(folders.local + "/same"), here(folders.local + "/other")]
        let client = folders.client()
        let (summary, _) = try await client.copy(sources, to: there(folders.srv), receiving: .init(checksum: true))
        #expect(summary.unchanged == 1 && summary.files == 1)
        #expect(summary.sent > 0 && summary.sent < 200_000, "\(summary.sent)")
        #expect(try folders.data("srv/other") == bytes(500_000, seed: 33))
        let times = try FileManager.default.attributesOfItem(atPath: folders.srv + "/same")
        #expect(times[.modificationDate] as? Date == when)
    }

    @Test func `newer files stay on request`() async throws {
        let folders = try Folders()
        try folders.write("local/file", "old and long")
        try FileManager.default.setAttributes(
            [.modificationDate: Date(timeIntervalSince1970: 1_000_000_000)], ofItemAtPath: folders.local + "/file")
        try folders.write("srv/file", "new")
        let client = folders.client()
        try await client.copy([here(folders.local + "/file")], to: there(folders.srv), receiving: .init(update: true))
        #expect(try folders.text("srv/file") == "new")
        try await client.copy([here(folders.local + "/file")], to: there(folders.srv))
        #expect(try folders.text("srv/file") == "old and long")
    }

    @Test(arguments: [0, 1, 700_000, 1_999_999])
    func `of a changed file only the changes are sent`(place: Int) async throws {
        let folders = try Folders()
        let old = bytes(2_000_000, seed: 34)
        try folders.write("srv/file", old)
        var new = old
        new.insert(contentsOf: Data("something new".utf8), at: place)
        new.removeSubrange(1_200_000..<1_200_100)
        try folders.write("local/file", new)
        let client = folders.client()
        let (summary, _) = try await client.copy([here(folders.local + "/file")], to: there(folders.srv))
        #expect(try folders.data("srv/file") == new)
        #expect(summary.sent < 300_000 && summary.bytes == UInt64(new.count), "\(summary.sent)")
        // And the other way round; whole on request.
        try folders.write("local/file", old)
        let (back, _) = try await client.copy([there(folders.srv + "/file")], to: here(folders.local))
        #expect(try folders.data("local/file") == new && back.sent < 300_000)
        try folders.write("local/file", old)
        let (whole, _) = try await client.copy(
            [there(folders.srv + "/file")], to: here(folders.local), receiving: .init(wholeFile: true))
        #expect(whole.sent == UInt64(new.count))
    }
}
