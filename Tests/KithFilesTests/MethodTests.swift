import Foundation
import KithAPI
import KithIdentity
import KithWire
import Testing

@testable import KithFiles

@Suite struct MethodTests {
    @Test func `folders are made, listed by pages, renamed and deleted`() async throws {
        let folders = try Folders()
        let client = folders.client()
        _ = try await client.call(Files.MakeFolder.self, .init(path: "a/b/c", parents: true), on: "laptop")
        _ = try await client.call(Files.MakeFolder.self, .init(path: "a/b/c", parents: true), on: "laptop")
        await #expect(throws: KithError(.conflict, "")) {
            _ = try await client.call(Files.MakeFolder.self, .init(path: "a"), on: "laptop")
        }
        for index in 0..<25 { try folders.write("srv/a/\(index)", "\(index)") }
        var names: [String] = []
        while true {
            let page = try await client.call(
                Files.List.self, .init(path: "a", after: names.last.map { Files.Path($0) }, limit: 7), on: "laptop")
            names += page.entries.map(\.name.description)
            if !page.hasMore { break }
        }
        #expect(names == ((0..<25).map(String.init) + ["b"]).sorted())

        _ = try await client.call(Files.Rename.self, .init(from: "a/0", to: "a/zero"), on: "laptop")
        await #expect(throws: KithError(.conflict, "")) {
            _ = try await client.call(Files.Rename.self, .init(from: "a/1", to: "a/zero"), on: "laptop")
        }
        #expect(try await client.call(Files.Exists.self, .init(path: "a/0"), on: "laptop").kind == nil)
        #expect(try await client.call(Files.Exists.self, .init(path: "a/b"), on: "laptop").kind == .folder)
        await #expect(throws: KithError(.conflict, "")) {
            _ = try await client.call(Files.Delete.self, .init(path: "a"), on: "laptop")
        }
        let deleted = try await client.call(Files.Delete.self, .init(path: "a", recursive: true), on: "laptop")
        #expect(deleted.count == 28)
        await #expect(throws: KithError(.invalid, "")) {
            _ = try await client.call(
                Files.Delete.self, .init(path: Files.Path(folders.srv), recursive: true), on: "laptop")
        }
    }

    @Test func `parts of a file are read, and written`() async throws {
        let folders = try Folders()
        try folders.write("srv/file", "0123456789")
        let client = folders.client()
        let opened = try await client.open(Files.Read.self, .init(path: "file", offset: 3, length: 4), on: "laptop")
        #expect(opened.output.size == 10)
        #expect(try await opened.stream.read(upTo: 100) == Array("3456".utf8))
        #expect(try await opened.stream.read(upTo: 100) == nil)

        func write(_ input: Files.Write.Input, _ text: String) async throws -> Files.Write.Written? {
            let stream = try await client.open(Files.Write.self, input, on: "laptop").stream
            try await stream.write(Array(text.utf8))
            try await stream.finish()
            return try await stream.receive()
        }
        #expect(try await write(.init(path: "file", offset: 2), "ab")?.size == 2)
        #expect(try folders.text("srv/file") == "01ab456789")
        #expect(try await write(.init(path: "file"), "new")?.failure == nil)
        #expect(try folders.text("srv/file") == "new")
        #expect(try await write(.init(path: "file", overwrite: false), "no")?.failure?.code == .conflict)
        #expect(try folders.names("srv") == ["file"])
    }

    @Test func `a grant to read is none to write`() async throws {
        let folders = try Folders()
        try folders.write("srv/file", "file")
        let client = folders.client(.read)
        _ = try await client.call(Files.Stat.self, .init(path: "file"), on: "laptop")
        for path in ["file", folders.srv + "/file"] {
            await #expect(throws: KithError(.denied, "")) {
                _ = try await client.call(Files.Delete.self, .init(path: Files.Path(path)), on: "laptop")
            }
        }
        #expect(folders.exists("srv/file"))
    }

    @Test func `messages survive being cut anywhere, and long ones are refused`() throws {
        let attributes = TransferFrame.Attributes(name: [0xFF, 10], mode: 0o644, seconds: -5, nanoseconds: 7)
        let frames: [TransferFrame] = [
            .hello(version: 1, features: [.compression]), .folder(attributes), .file(attributes, size: 3, [.sparse]),
            .data([1, 2, 3]), .fileEnd(root: [UInt8](0..<32)), .small(root: [UInt8](32..<64), [9, 9]),
            .link(attributes, target: [0xFE]), .hardLink(name: [65], to: 7),
            .extended([.init(name: [65], value: []), .init(name: [66], value: [0])]), .hole(1 << 40), .kept(leaves: 3),
            .copied(offset: 5, length: 6), .same, .send(files: 1), .notNeeded(files: 2),
            .leaves([UInt8](repeating: 1, count: 64)[...]),
            .chunks(exponent: 13, [UInt8](repeating: 2, count: 40)[...]), .root([UInt8](0..<32)), .sendDifference,
            .change(Files.Change(path: "a", kind: .deleted)),
            .skipped(Files.Skipped(path: "b", failure: Files.Failure(code: .denied, message: "no"))),
            .failure(Files.Failure(code: .closed, message: "gone")), .acknowledgement(Files.Summary(bytes: 1, sent: 2)),
            .total(bytes: 1, files: 2), .folderEnd(isComplete: true), .fileAbandoned, .end(isComplete: false),
        ]
        var bytes: [UInt8] = []
        for frame in frames { try frame.append(to: &bytes) }
        for size in 1...bytes.count {
            var parser = TransferParser()
            var read: [TransferFrame] = []
            var data: [UInt8] = []
            for start in stride(from: 0, to: bytes.count, by: size) {
                parser.feed(Array(bytes[start..<min(start + size, bytes.count)]))
                while let frame = try parser.next() {
                    if case .data(let part) = frame { data += part } else { read.append(frame) }
                }
            }
            #expect(data == [1, 2, 3] && parser.isBetweenFrames)
            #expect(read == frames.filter { $0 != .data([1, 2, 3]) })
        }
        var parser = TransferParser()
        parser.feed([1, 0xC0, 0, 0, 0, 0, 0, 0xFF, 0xFF])
        #expect(throws: KithError(.invalid, "")) { try parser.next() }
    }
}
