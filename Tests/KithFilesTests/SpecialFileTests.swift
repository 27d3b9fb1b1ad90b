import Foundation
import KithAPI
import KithWire
import KithTesting
import Testing

@testable import KithFiles

#if canImport(Glibc)
import CDispatch
import CoreFoundation
import Glibc
#elseif canImport(Darwin)
import Darwin
#endif

/// Pipes, sockets, devices, and names that become them; folders larger than any memory.
@Suite struct SpecialFileTests {
    #if canImport(Glibc)
    private static let streamType = Int32(SOCK_STREAM.rawValue)
    #else
    private static let streamType = SOCK_STREAM
    #endif

    /// Makes a character and a block device that answer like `/dev/null` and nothing; false where nobody may.
    private func makeDevices(in folder: String) -> Bool {
        mknod(folder + "/null", S_IFCHR | 0o666, dev_t(1 << 8 | 3)) == 0
            && mknod(folder + "/block", S_IFBLK | 0o600, dev_t(7 << 8 | 250)) == 0
    }

    @Test func `devices and sockets are left out, and refused when they are named`() async throws {
        let folders = try Folders()
        try folders.write("local/tree/file", "file")
        let hasDevices = makeDevices(in: folders.local + "/tree")
        if !hasDevices { print("skipped in part: only root makes devices") }
        let listener = socket(AF_UNIX, Self.streamType, 0)
        defer { close(listener) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let path = Array((folders.local + "/tree/socket").utf8CString)
        try #require(path.count <= MemoryLayout.size(ofValue: address.sun_path))
        withUnsafeMutableBytes(of: &address.sun_path) { room in
            path.withUnsafeBytes { room.copyMemory(from: $0) }
        }
        let bound = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        try #require(bound == 0)
        let names = hasDevices ? ["block", "null", "socket"] : ["socket"]
        let client = folders.client()
        let (summary, skipped) = try await client.copy([here(folders.local + "/tree")], to: there(folders.srv))
        #expect(summary.files == 1 && skipped.map(\.path.description).sorted() == names.map { "tree/" + $0 })
        #expect(skipped.allSatisfy { $0.failure.code == .unsupported })
        for name in names {
            await #expect(throws: KithError.self) {
                try await client.copy([here("\(folders.local)/tree/\(name)")], to: there(folders.srv))
            }
        }
        #expect(try folders.names("srv") == ["tree"])
    }

    @Test func `a pipe or a device at the destination is replaced, never written to`() async throws {
        let folders = try Folders()
        try folders.write("local/file", "new")
        #expect(mkfifo(folders.srv + "/file", 0o600) == 0)
        let client = folders.client()
        try await client.copy([here(folders.local + "/file")], to: there(folders.srv))
        #expect(try folders.text("srv/file") == "new")
        if mknod(folders.srv + "/device", S_IFCHR | 0o666, dev_t(1 << 8 | 3)) == 0 {
            try await client.copy([here(folders.local + "/file")], to: there(folders.srv + "/device"))
            #expect(try folders.text("srv/device") == "new")
        }
        // A part of one cannot be replaced, and nobody waits for a reader.
        #expect(mkfifo(folders.srv + "/pipe", 0o600) == 0)
        await #expect(throws: KithError.self) {
            let stream = try await client.open(
                Files.Write.self, Files.Write.Input(path: Files.Path(folders.srv + "/pipe"), offset: 0), on: "laptop"
            ).stream
            try await stream.write([1])
            try await stream.finish()
            if let failure = try await stream.receive()?.failure { throw failure.error }
        }
    }

    @Test func `what is left out fails a copy unless it is harmless, and an older kith says that by the code`() throws {
        for code in [KithError.Code.conflict, .unsupported, .denied] {
            for isHarmless in [false, true] {
                let progress = TransferProgress()
                let skipped = Files.Skipped(
                    path: "x", failure: Files.Failure(code: code, message: "no"), isHarmless: isHarmless)
                progress.skip(try CBORDecoder().decode(Files.Skipped.self, from: CBOREncoder().encode(skipped)))
                #expect((progress.failure == nil) == isHarmless)
            }
            struct Older: Codable {
                var path: Files.Path
                var failure: Files.Failure
            }
            let older = try CBOREncoder().encode(
                Older(path: "x", failure: Files.Failure(code: code, message: "no")))
            #expect(try CBORDecoder().decode(Files.Skipped.self, from: older).isHarmless == (code != .denied))
        }
    }

    @Test(arguments: ["link", "pipe", "folder", "nothing"])
    func `a file that has become another thing since it was listed is left out`(kind: String) async throws {
        let folders = try Folders()
        try folders.write("srv/tree/file", "listed")
        try folders.write("secret", "not granted")
        let stream = try await folders.client().open(
            Files.Pull.self, .init(path: Files.Path(folders.srv + "/tree"), recursive: true), on: "laptop"
        ).stream.bytes
        var parser = TransferParser()
        var bytes: [UInt8] = []
        try TransferFrame.hello(version: TransferFrame.version, features: []).append(to: &bytes)
        try await stream.write(bytes)
        listing: while let bytes = try await stream.read(upTo: 1_000) {
            parser.feed(bytes)
            while let frame = try parser.next() { if case .folderEnd = frame { break listing } }
        }
        let path = folders.srv + "/tree/file"
        #expect(unlink(path) == 0)
        switch kind {
        case "link": #expect(symlink("../../secret", path) == 0)
        case "pipe": #expect(mkfifo(path, 0o600) == 0)
        case "folder": #expect(mkdir(path, 0o700) == 0)
        default: break
        }
        bytes = []
        try TransferFrame.send(files: 1).append(to: &bytes)
        try await stream.write(bytes)
        var (isAbandoned, skipped) = (false, 0)
        ending: while let bytes = try await stream.read(upTo: 1_000) {
            parser.feed(bytes)
            while let frame = try parser.next() {
                switch frame {
                case .fileAbandoned: isAbandoned = true
                case .skipped: skipped += 1
                case .small, .data: Issue.record("contents of what is no file came")
                case .end(let isComplete):
                    // What is no file any more is left out as a pipe is; what cannot be read makes the copy a failure.
                    #expect(isComplete == ["pipe", "folder"].contains(kind))
                    break ending
                default: break
                }
            }
        }
        #expect(isAbandoned && skipped == 1)
        stream.abort(.cancelled)
    }

    @Test func `ten million names are listed by pages that hold few of them`() throws {
        // 2⁶⁴/φ is odd: each number comes once, in no order. Names have their digits, so the order is known.
        let count: UInt64 = 10_000_000
        func name(_ index: UInt64) -> [UInt8] {
            var name = [UInt8](repeating: 0, count: 8)
            var number = (index &* 7_654_321) % count
            for place in stride(from: 7, through: 0, by: -1) {
                name[place] = 48 + UInt8(truncatingIfNeeded: number % 10)
                number /= 10
            }
            return name
        }
        func text(_ number: UInt64) -> [UInt8] { Array(("00000000" + String(number)).suffix(8).utf8) }
        var page = NamePage(after: text(4_999_999), limit: 2_000)
        var most = 0
        for index in 0..<count {
            page.add(name(index))
            most = max(most, page.held)
        }
        let (names, hasMore) = page.finish()
        #expect(names == (5_000_000..<5_002_000).map { text($0) } && hasMore)
        #expect(most <= 4_000)
    }

    @Test func `pages are the same whatever order the names come in, and the last one says that it is`() {
        var random = SeededRandom(seed: 61)
        let names = (0..<500).map { _ in
            (0..<Int.random(in: 1...3, using: &random)).map { _ in UInt8.random(in: 97...102, using: &random) }
        }
        let all = Set(names)
        let sorted = all.sorted { $0.lexicographicallyPrecedes($1) }
        for limit in [1, 2, 7, 100, 1_000] {
            var (found, after, isLast): ([[UInt8]], [UInt8]?, Bool) = ([], nil, false)
            while !isLast {
                var page = NamePage(after: after, limit: limit)
                for name in all.shuffled(using: &random) { page.add(name) }
                let (part, hasMore) = page.finish()
                found += part
                after = part.last
                isLast = !hasMore
                if part.count > limit || part.isEmpty { break }
            }
            #expect(found == sorted)
        }
    }
}
