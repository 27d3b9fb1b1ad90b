import Foundation
import KithAPI
import KithCatalog
import KithWire
import Testing

@testable import KithFiles

/// Ends made by hand that do not keep to the protocol, or mean harm.
@Suite struct HostileTests {
    private func attributes(_ name: String, identity: UInt64 = 1) -> TransferFrame.Attributes {
        TransferFrame.Attributes(name: Array(name.utf8), mode: 0o7777, seconds: 1, nanoseconds: 2, identity: identity)
    }

    private func push(_ folders: Folders, _ receiving: Files.ReceiveOptions = .init()) async throws -> any ByteStream {
        try await folders.client().open(
            Files.Push.self, .init(path: Files.Path(folders.srv), receiving: receiving), on: "laptop"
        ).stream.bytes
    }

    /// Says the messages behind the listing of one file that is wanted, and returns the refusal.
    private func refusal(
        _ folders: Folders, size: UInt64 = 10, _ frames: [TransferFrame]
    ) async throws -> Files.Failure? {
        let stream = try await push(folders)
        try await stream.say([.file(attributes("file"), size: size, [])])
        #expect(try await stream.hears(.send(files: 1)))
        var bytes: [UInt8] = []
        for frame in frames { try frame.append(to: &bytes) }
        try await stream.write(bytes)
        let refusal = try await stream.failure()
        stream.abort(.cancelled)
        return refusal
    }

    @Test func `what a sender says is here and is not is refused`() async throws {
        let folders = try Folders()
        for frame in [
            TransferFrame.kept(leaves: 1), .kept(leaves: .max), .copied(offset: 0, length: 1),
            .copied(offset: .max, length: 2), .same, .end(isComplete: true), .folderEnd(isComplete: true),
            .hello(version: 1, features: []), .acknowledgement(Files.Summary()), .send(files: 1),
        ] {
            let refusal = try await refusal(folders, [frame])
            #expect(refusal?.code == .invalid, "\(frame): \(String(describing: refusal))")
        }
        #expect(try await refusal(folders, [.hole(.max)])?.code == .exhausted)
        #expect(try await refusal(folders, [.small(root: [UInt8](repeating: 0, count: 32), [1])])?.code == .corrupt)
        #expect(
            try await refusal(folders, [.data([1]), .fileEnd(root: [UInt8](repeating: 0, count: 32))])?.code == .corrupt
        )
        #expect(try folders.names("srv").isEmpty)
    }

    @Test func `contents that were not asked for are refused`() async throws {
        let folders = try Folders()
        for frames: [TransferFrame] in [
            [.data([1])], [.file(attributes("file"), size: 1, []), .data([1])], [.fileAbandoned], [.hole(1)],
            [.hardLink(name: [65], to: 0)], [.end(isComplete: true), .data([1])],
        ] {
            let stream = try await push(folders)
            let refusal = try await stream.refusal(of: frames)
            if frames.count == 2, case .end = frames[0] { continue }
            #expect(refusal?.code == .invalid, "\(frames)")
        }
        #expect(try folders.names("srv").isEmpty)
    }

    @Test func `a sender that lists without end is stopped`() async throws {
        let folders = try Folders()
        var stream = try await push(folders)
        var nested: [TransferFrame] = []
        for depth in 0..<(TreeSource.maximumDepth + 1) {
            nested.append(.folder(attributes("d", identity: UInt64(depth))))
        }
        #expect(try await stream.refusal(of: nested)?.code == .exhausted)
        stream = try await push(folders)
        // Every folder waits for a file whose contents never come.
        var wide: [TransferFrame] = []
        for index in 0..<(TransferFrame.maximumFolders + 1) {
            wide += [
                .folder(attributes("\(index)", identity: UInt64(index))), .file(attributes("f"), size: 1, []),
                .folderEnd(isComplete: true),
            ]
        }
        #expect(try await stream.refusal(of: wide)?.code == .invalid)
        stream = try await push(folders)
        let files = (0...TransferFrame.maximumListed).map { TransferFrame.file(attributes("\($0)"), size: 1, []) }
        #expect(try await stream.refusal(of: files)?.code == .invalid)
    }

    @Test func `a sender that lists further names, or attributes, without end is stopped`() async throws {
        let folders = try Folders()
        var stream = try await push(folders)
        let links = (0...TransferFrame.maximumWaitingLinks).map {
            TransferFrame.hardLink(name: Array("\($0)".utf8), to: 0)
        }
        let refusal = try await stream.refusal(of: [.file(attributes("file"), size: 1, .linked)] + links)
        #expect(refusal?.code == .exhausted)
        // Few large attributes, and many small ones.
        for (size, count) in [(60_000, 1), (1, 1_500)] {
            let extended = (0..<count).map {
                TransferFrame.ExtendedAttribute(
                    name: Array("user.\($0)".utf8), value: [UInt8](repeating: 1, count: size))
            }
            let each = ExtendedAttributes.cost(of: extended)
            stream = try await push(folders)
            var frames: [TransferFrame] = []
            for index in 0...(TransferFrame.maximumWaitingExtended / each) {
                frames += [.extended(extended), .file(attributes("\(index)"), size: 1, [])]
            }
            #expect(frames.count / 2 < TransferFrame.maximumListed)
            #expect(try await stream.refusal(of: frames)?.code == .exhausted)
        }
        #expect(try folders.names("srv").isEmpty)
    }

    @Test func `modes of more than the nine bits, and the attributes of the system, are not taken over`() async throws {
        let folders = try Folders()
        let stream = try await push(folders)
        let data: [UInt8] = [1, 2, 3]
        try await stream.say([
            .extended([
                .init(name: Array("security.capability".utf8), value: [1]),
                .init(name: Array("trusted.x".utf8), value: [1]),
            ]),
            .file(attributes("file"), size: 3, []),
        ])
        #expect(try await stream.hears(.send(files: 1)))
        var bytes: [UInt8] = []
        let root = data.withUnsafeBytes { TreeHash.leaf($0) }
        try TransferFrame.small(root: root, data[...]).append(to: &bytes)
        try TransferFrame.end(isComplete: true).append(to: &bytes)
        try await stream.write(bytes)
        try await stream.finish()
        #expect(try await stream.failure() == nil)
        let file = try Descriptor.open(Array((folders.srv + "/file").utf8), [])
        #expect(try file.info().mode == 0o777)
        #expect(try ExtendedAttributes.read(file).isEmpty)
    }

    @Test func `a folder of the destination that becomes a link is not followed`() async throws {
        let folders = try Folders()
        try folders.write("outside/keep", "keep")
        try FileManager.default.createDirectory(atPath: folders.srv + "/tree", withIntermediateDirectories: true)
        let stream = try await push(folders)
        try await stream.say([.folder(attributes("tree")), .file(attributes("file"), size: 1, [])])
        #expect(try await stream.hears(.send(files: 1)))
        // The folder is open by now; what has its name meanwhile is another thing.
        #expect(rename(folders.srv + "/tree", folders.srv + "/moved") == 0)
        #expect(symlink("../outside", folders.srv + "/tree") == 0)
        var bytes: [UInt8] = []
        let root = [UInt8(9)].withUnsafeBytes { TreeHash.leaf($0) }
        try TransferFrame.small(root: root, [9]).append(to: &bytes)
        for frame in [TransferFrame.folderEnd(isComplete: true), .end(isComplete: true)] {
            try frame.append(to: &bytes)
        }
        try await stream.write(bytes)
        try await stream.finish()
        #expect(try await stream.failure() == nil)
        #expect(try folders.names("outside") == ["keep"] && folders.names("srv/moved") == ["file"])
    }

    @Test func `a receiver that wants what is not there, or says too much, is refused`() async throws {
        let folders = try Folders()
        try folders.write("srv/tree/file", bytes(400_000, seed: 51))
        for frames: [TransferFrame] in [
            [.send(files: 3)], [.notNeeded(files: .max)],
            [.acknowledgement(Files.Summary())], [.data([1])], [.folderEnd(isComplete: true)],
            [TransferFrame](
                repeating: .leaves([UInt8](repeating: 0, count: 32 * 1_900)[...]), count: 1_200),
        ] {
            let stream = try await folders.client().open(
                Files.Pull.self, .init(path: Files.Path(folders.srv + "/tree"), recursive: true), on: "laptop"
            ).stream.bytes
            // What it sends is read away meanwhile.
            async let heard = stream.everything()
            // It may refuse before it has read all of that.
            try? await stream.say(frames)
            // Either it says why, or it just ends; it never believes that it is done.
            for frame in await heard {
                if case .end = frame { Issue.record("it went on after \(frames.prefix(2))") }
                if case .failure(let failure) = frame {
                    #expect(failure.code == .invalid || failure.code == .exhausted)
                }
            }
            stream.abort(.cancelled)
        }
    }

    @Test func `leaves and chunks made up by a receiver get it no wrong file`() async throws {
        let folders = try Folders()
        let content = bytes(600_000, seed: 52)
        try folders.write("srv/file", content)
        let stream = try await folders.client().open(
            Files.Pull.self, .init(path: Files.Path(folders.srv + "/file"), recursive: false), on: "laptop"
        ).stream.bytes
        try await stream.say([
            .root([UInt8](repeating: 7, count: 32)), .leaves([UInt8](repeating: 0, count: 32 * 50)[...]),
            .chunks(exponent: 13, [UInt8](repeating: 1, count: 0)[...]), .sendDifference,
        ])
        var parser = TransferParser()
        var data: [UInt8] = []
        reading: while let bytes = try await stream.read(upTo: 100_000) {
            parser.feed(bytes)
            while let frame = try parser.next() {
                if case .data(let part) = frame { data += part }
                if case .fileEnd = frame { break reading }
            }
        }
        #expect(Data(data) == content)
        stream.abort(.cancelled)
    }

    @Test func `a file that grows or shrinks while it is read arrives as it was read`() async throws {
        let folders = try Folders()
        try folders.write("local/log", bytes(3_000_000, seed: 53))
        let path = folders.local + "/log"
        let writer = Task.detached {
            var count: UInt64 = 0
            while !Task.isCancelled {
                if let file = FileHandle(forWritingAtPath: path) {
                    count += 1
                    if count.isMultiple(of: 40) {
                        try file.truncate(atOffset: 1_000_000)
                    } else {
                        try file.seekToEnd()
                        try file.write(contentsOf: Data(repeating: UInt8(truncatingIfNeeded: count), count: 10_000))
                    }
                    try file.close()
                }
                await Task.yield()
            }
        }
        let client = folders.client()
        for round in 0..<15 {
            let (summary, _) = try await client.copy([here(path)], to: there(folders.srv + "/log"))
            var status: [FileAttributeKey: Any] = [:]
            status = try FileManager.default.attributesOfItem(atPath: folders.srv + "/log")
            #expect(summary.files + summary.unchanged == 1, "round \(round)")
            if summary.files == 1 { #expect((status[.size] as? NSNumber)?.uint64Value == summary.bytes) }
        }
        writer.cancel()
        _ = try? await writer.value
        try await client.copy([here(path)], to: there(folders.srv + "/log"))
        #expect(try folders.data("srv/log") == folders.data("local/log"))
    }

    @Test func `a folder of two hundred thousand names is listed a part at a time`() async throws {
        let folders = try Folders()
        for index in 0..<200_000 {
            let file = open("\(folders.local)/\(index)", O_CREAT | O_WRONLY, 0o644)
            try #require(file >= 0)
            close(file)
        }
        let source = try TreeSource(ConfinedPath(ownPath: Files.Path(folders.local)), recursive: true)
        let walk = TreeWalk([source], leavingOut: try IgnoreRules([]))
        var (files, most) = (0, 0)
        while let step = try walk.next() {
            if case .file = step { files += 1 }
            most = max(most, walk.held)
        }
        #expect(files == 200_000)
        #expect(most <= TreeWalk.part)
    }
}
