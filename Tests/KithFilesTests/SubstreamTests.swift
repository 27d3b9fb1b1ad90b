import Foundation
import KithAPI
import KithIdentity
import KithNode
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

/// Transfers whose larger files go over further streams.
@Suite struct SubstreamTests {
    /// A tree of this device and where it goes, or the other way round.
    private struct Route {
        let source: String
        let target: String
        let from: Files.Location
        let to: Files.Location

        init(_ way: String, _ folders: Folders) {
            let isPush = way == "push"
            (source, target) = isPush ? ("local/tree", "srv/tree") : ("srv/tree", "local/tree")
            from = Files.Location(device: isPush ? nil : "laptop", path: Files.Path("\(folders.top)/\(source)"))
            to = Files.Location(device: isPush ? "laptop" : nil, path: Files.Path("\(folders.top)/\(target)"))
        }
    }

    private func fill(_ folders: Folders, _ path: String, files: Int, size: Int = 300_000) throws -> UInt64 {
        var sum = 0
        for index in 0..<files {
            let count = index.isMultiple(of: 3) ? index * 17 : size + index * 10_000
            try folders.write("\(path)/\(index % 4)/\(index)", bytes(count, seed: UInt64(index)))
            sum += count
        }
        return UInt64(sum)
    }

    @Test(arguments: ["push", "pull"], [2, 4, 16] as [UInt32])
    func `the files of one folder arrive over several streams, counted once`(way: String, parallel: UInt32) async throws
    {
        let folders = try Folders()
        let route = Route(way, folders)
        let size = try fill(folders, route.source, files: 40)
        #expect(link("\(folders.top)/\(route.source)/1/1", "\(folders.top)/\(route.source)/z") == 0)
        #expect(symlink("1/1", "\(folders.top)/\(route.source)/link") == 0)
        var last = Files.Progress()
        var changes: [Files.Change] = []
        let opened = Atomic(0)
        let client = folders.client(cut: {
            opened.add(1, ordering: .relaxed)
            return nil
        })
        let (summary, _) = try await client.follow(
            Files.Copy.Input(
                sources: [route.from], destination: route.to, recursive: true, selection: .init(hardLinks: true),
                receiving: .init(exact: true, report: true), compress: .never, parallel: parallel)
        ) {
            last = $0
            changes += $0.changes
        }
        #expect(try Snapshot("\(folders.top)/\(route.source)") == Snapshot("\(folders.top)/\(route.target)"))
        // The stream that lists, and the substreams.
        #expect(opened.load(ordering: .relaxed) == 1 + Int(parallel))
        #expect(summary.files == 41 && summary.bytes == size && summary.sent == size && summary.folders == 5)
        #expect(last.files >= 40 && last.bytes >= size && last.totalBytes ?? size >= size)
        #expect(changes.filter { $0.kind == .new }.count == 47)
        #expect(try folders.names(String(route.target.dropLast(5))) == ["tree"])
        // Again nothing is sent.
        let (again, _) = try await folders.client().copy(
            [route.from], to: route.to, selection: .init(hardLinks: true), receiving: .init(exact: true),
            parallel: parallel)
        #expect(again.sent == 0 && again.unchanged == 41)
    }

    @Test(arguments: ["push", "pull"])
    func `what substreams had sent of large files is not sent again`(way: String) async throws {
        let folders = try Folders()
        let route = Route(way, folders)
        for index in 0..<4 { try folders.write("\(route.source)/\(index)", bytes(6_000_000, seed: UInt64(50 + index))) }
        let cuts = Mutex(false)
        // Each substream breaks two thirds through its file; the stream that lists does not.
        let client = folders.client(cut: {
            cuts.withLock { hasBegun in
                defer { hasBegun = true }
                return hasBegun ? 4_000_000 : nil
            }
        })
        await #expect(throws: KithError(.closed, "")) {
            try await client.copy(
                [route.from], to: route.to, receiving: .init(exact: true), compress: .never, parallel: 4)
        }
        let (summary, _) = try await folders.client().copy(
            [route.from], to: route.to, receiving: .init(exact: true), compress: .never, parallel: 4)
        #expect(try Snapshot("\(folders.top)/\(route.source)") == Snapshot("\(folders.top)/\(route.target)"))
        // One that breaks ends the others, wherever they are; what the first has sent is there.
        #expect(summary.sent < 21_000_000, "\(summary.sent)")
        #expect(try folders.names(String(route.target.dropLast(5))) == ["tree"])
    }

    @Test func `of a changed file substreams send the changes`() async throws {
        let folders = try Folders()
        let route = Route("push", folders)
        for index in 0..<3 {
            var content = bytes(3_000_000, seed: UInt64(60 + index))
            try folders.write("\(route.target)/\(index)", content)
            content[1_500_000] ^= 1
            try folders.write("\(route.source)/\(index)", content)
        }
        let (summary, _) = try await folders.client().copy(
            [route.from], to: route.to, receiving: .init(exact: true), compress: .never, parallel: 3)
        #expect(try Snapshot("\(folders.top)/\(route.source)") == Snapshot("\(folders.top)/\(route.target)"))
        #expect(summary.sent > 0 && summary.sent < 1_000_000, "\(summary.sent)")
        // By the hash alone; what differs goes, too.
        try folders.write("\(route.source)/0", bytes(3_000_000, seed: 70))
        let (checked, _) = try await folders.client().copy(
            [route.from], to: route.to, receiving: .init(exact: true, checksum: true), compress: .never, parallel: 3)
        #expect(checked.unchanged == 2 && checked.files == 1)
        #expect(try Snapshot("\(folders.top)/\(route.source)") == Snapshot("\(folders.top)/\(route.target)"))
    }

    @Test func `nothing is deleted before all substreams are done, and nothing when one could not read`() async throws {
        let folders = try Folders()
        let route = Route("push", folders)
        _ = try fill(folders, route.source, files: 8)
        try folders.write("\(route.target)/old", "old")
        // The last substream's bytes are damaged on the way: the copy fails, whatever the others did.
        await #expect(throws: KithError(.corrupt, "")) {
            try await folders.client(tamper: { $0.count > 100_000 ? $0.dropLast() + [$0[$0.count - 1] ^ 1] : $0 }).copy(
                [route.from], to: route.to, receiving: .init(exact: true, delete: true), compress: .never, parallel: 4)
        }
        #expect(try folders.text("\(route.target)/old") == "old")
        var changes: [Files.Change] = []
        let (summary, _) = try await folders.client().follow(
            Files.Copy.Input(
                sources: [route.from], destination: route.to, recursive: true,
                receiving: .init(exact: true, delete: true, report: true), compress: .never, parallel: 4)
        ) { changes += $0.changes }
        #expect(summary.deleted == 1 && changes.last?.kind == .deleted)
        #expect(try Snapshot("\(folders.top)/\(route.source)") == Snapshot("\(folders.top)/\(route.target)"))
    }

    @Test func `one limit holds for all substreams together`() async throws {
        let folders = try Folders()
        let route = Route("push", folders)
        for index in 0..<4 { try folders.write("\(route.source)/\(index)", bytes(250_000, seed: UInt64(index))) }
        let start = ContinuousClock.now
        _ = try await folders.client().follow(
            Files.Copy.Input(
                sources: [route.from], destination: route.to, recursive: true, limit: 1_000_000, compress: .never,
                parallel: 4)
        ) { _ in }
        #expect(ContinuousClock.now - start > .milliseconds(850))
    }

    @Test func `a receiver that takes no substreams gets all over one stream`() async throws {
        let folders = try Folders()
        try folders.write("srv/tree/file", bytes(200_000, seed: 1))
        let substreams = Files.Substreams(token: [UInt8](repeating: 5, count: 16), count: 3)
        let stream = try await folders.client(.read).open(
            Files.Pull.self, .init(path: Files.Path(folders.srv + "/tree"), recursive: true, substreams: substreams),
            on: "laptop"
        ).stream.bytes
        try await stream.say([.send(files: 1)])
        var (count, frames) = (0, TransferParser())
        reading: while let bytes = try await stream.read(upTo: 100_000) {
            frames.feed(bytes)
            while let frame = try frames.next() {
                switch frame {
                case .data(let data): count += data.count
                case .elsewhere: Issue.record("a substream was used that nobody takes")
                case .end: break reading
                default: break
                }
            }
        }
        #expect(count == 200_000)
        stream.abort(.cancelled)
    }

    @Test func `a substream of no transfer, of another's or a second time is refused`() async throws {
        let folders = try Folders()
        let carrier = LocalCarrier(grants: [.files(.write, root: folders.srv)])
        let client = Client(carrier)
        let substreams = Files.Substreams(token: [UInt8](repeating: 9, count: 16), count: 2)
        func substream(_ index: UInt8, _ token: [UInt8]? = nil) async throws -> any ByteStream {
            try await client.open(
                Files.Substream.self, .init(token: token ?? substreams.token, index: index), on: "laptop"
            ).stream.bytes
        }
        await #expect(throws: KithError(.notFound, "")) { _ = try await substream(0) }
        let main = try await client.open(
            Files.Push.self, .init(path: Files.Path(folders.srv), receiving: .init(), substreams: substreams),
            on: "laptop"
        ).stream.bytes
        await #expect(throws: KithError(.notFound, "")) { _ = try await substream(2) }
        await #expect(throws: KithError(.notFound, "")) { _ = try await substream(0, [UInt8](repeating: 8, count: 16)) }
        // The same token from somebody else names nothing.
        await #expect(throws: KithError(.notFound, "")) {
            _ = try await client.open(Files.Substream.self, .init(token: substreams.token, index: 0), on: nil)
        }
        await #expect(throws: KithError(.conflict, "")) {
            _ = try await client.open(
                Files.Push.self, .init(path: Files.Path(folders.srv), receiving: .init(), substreams: substreams),
                on: "laptop")
        }
        for bad in [Files.Substreams(token: [1], count: 2), .init(token: substreams.token, count: 0)] {
            await #expect(throws: KithError(.invalid, "")) {
                _ = try await client.open(
                    Files.Push.self, .init(path: Files.Path(folders.srv), receiving: .init(), substreams: bad),
                    on: "laptop")
            }
        }
        // Twice the same substream: the second stream ends with a conflict.
        let first = try await substream(0)
        let second = try await substream(0)
        await #expect(throws: KithError(.conflict, "")) { _ = try await second.read(upTo: 1) }
        main.abort(.cancelled)
        first.abort(.cancelled)
        try await carrier.running.end()
        await #expect(throws: KithError(.notFound, "")) { _ = try await substream(1) }
    }

    @Test func `what does not belong on a substream is refused`() async throws {
        let folders = try Folders()
        let carrier = LocalCarrier(grants: [.files(.write, root: folders.srv)])
        let client = Client(carrier)
        let substreams = Files.Substreams(token: [UInt8](repeating: 3, count: 16), count: 1)
        let attributes = TransferFrame.Attributes(
            name: Array("file".utf8), mode: 0o600, seconds: 1, nanoseconds: 2, identity: 1)
        for frames: [TransferFrame] in [
            [.end(isComplete: true)], [.hello(version: 1, features: [])],
            [.small(root: [UInt8](repeating: 0, count: 32), [1])],
            [.same], [.folder(attributes)], [.data([1]), .data([2]), .elsewhere(substream: 0)], [.fileAbandoned],
        ] {
            let main = try await client.open(
                Files.Push.self, .init(path: Files.Path(folders.srv), receiving: .init(), substreams: substreams),
                on: "laptop"
            ).stream.bytes
            var bytes: [UInt8] = []
            for frame in [
                TransferFrame.hello(version: TransferFrame.version, features: [.confirmation, .substreams]),
                .file(attributes, size: 200_000, []),
            ] { try frame.append(to: &bytes) }
            try await main.write(bytes)
            #expect(try await main.hears(.send(files: 1)))
            bytes = []
            try TransferFrame.elsewhere(substream: 0).append(to: &bytes)
            try await main.write(bytes)
            let substream = try await client.open(
                Files.Substream.self, .init(token: substreams.token, index: 0), on: "laptop"
            ).stream
                .bytes
            bytes = []
            for frame in frames { try frame.append(to: &bytes) }
            try await substream.write(bytes)
            #expect(try await main.failure()?.code == .invalid, "\(frames)")
            main.abort(.cancelled)
            substream.abort(.cancelled)
            try await carrier.running.end()
            #expect(try folders.names("srv").isEmpty)
        }
        // A substream nobody has agreed on.
        let main = try await client.open(
            Files.Push.self, .init(path: Files.Path(folders.srv), receiving: .init()), on: "laptop"
        ).stream.bytes
        #expect(
            try await main.refusal(of: [.file(attributes, size: 200_000, []), .elsewhere(substream: 0)])?.code
                == .invalid)
        main.abort(.cancelled)
    }
}
