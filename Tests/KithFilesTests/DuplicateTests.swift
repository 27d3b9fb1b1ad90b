import Foundation
import KithAPI
import KithIdentity
import KithWire
import KithTesting
import Testing

@testable import KithFiles

#if canImport(Glibc)
import CDispatch
import Glibc
#elseif canImport(Darwin)
import Darwin
#endif

/// Copies whose two ends are on one device.
@Suite struct DuplicateTests {
    private func place(_ where_: String, _ folders: Folders, _ path: String) -> Files.Location {
        where_ == "there" ? there("\(folders.srv)/\(path)") : here("\(folders.local)/\(path)")
    }

    @Test(arguments: ["here", "there"])
    func `a tree is copied on its own device, and nothing passes over a link`(on: String) async throws {
        let folders = try Folders()
        let top = on == "there" ? folders.srv : folders.local
        var maker = TreeMaker(random: SeededRandom(seed: 7))
        try maker.make(at: top + "/tree")
        unlink(top + "/tree/pipe")
        var last = Files.Progress()
        // Not a byte of it is asked for by streams to the laptop but the one that tells how it goes.
        let client = folders.client(cut: { 100_000 })
        let (summary, _) = try await client.follow(
            Files.Copy.Input(
                sources: [place(on, folders, "tree")], destination: place(on, folders, "copy"), recursive: true,
                selection: .init(hardLinks: true), receiving: .init(report: true), parallel: 4)
        ) { last = $0 }
        #expect(try Snapshot(top + "/tree") == Snapshot(top + "/copy"))
        #expect(summary.sent == 0 && last.sent == 0 && summary.bytes > 300_000 && last.bytes == last.totalBytes)
        // Again it finds all there.
        let (again, _) = try await client.follow(
            Files.Copy.Input(
                sources: [place(on, folders, "tree")], destination: place(on, folders, "copy"), recursive: true,
                receiving: .init(exact: true))
        ) { _ in }
        #expect(again.files == 0 && again.unchanged > 0)
    }

    @Test(arguments: ["here", "there"])
    func `a copy into a folder that is not there says so, and one that finds all there counts nothing`(
        on: String
    ) async throws {
        let folders = try Folders()
        let top = on == "there" ? folders.srv : folders.local
        try FileManager.default.createDirectory(atPath: top + "/a/b", withIntermediateDirectories: true)
        try Data("x".utf8).write(to: URL(fileURLWithPath: top + "/a/file"))
        #expect(symlink("file", top + "/a/link") == 0)
        await #expect(throws: KithError(.notFound, "")) {
            try await folders.client().copy([place(on, folders, "a/file")], to: place(on, folders, "none/y"))
        }
        func sync(dryRun: Bool) async throws -> Files.Summary {
            try await folders.client().follow(
                Files.Copy.Input(
                    sources: [place(on, folders, "a")], destination: place(on, folders, "c"), recursive: true,
                    receiving: .init(exact: true, dryRun: dryRun))
            ) { _ in }.0
        }
        for dryRun in [true, false] {
            let first = try await sync(dryRun: dryRun)
            #expect(first.files == 1 && first.folders == 2 && first.links == 1 && first.unchanged == 0)
        }
        for dryRun in [true, false] {
            let second = try await sync(dryRun: dryRun)
            #expect(second.files == 0 && second.folders == 0 && second.links == 0 && second.unchanged == 1)
        }
    }

    @Test(arguments: ["here", "there"])
    func `nothing is copied into itself or onto itself, whatever its path`(on: String) async throws {
        let folders = try Folders()
        let top = on == "there" ? folders.srv : folders.local
        try FileManager.default.createDirectory(atPath: top + "/a/b", withIntermediateDirectories: true)
        try Data("x".utf8).write(to: URL(fileURLWithPath: top + "/a/file"))
        #expect(symlink("a/b", top + "/way in") == 0)
        #expect(symlink("a/file", top + "/same") == 0)
        let before = try Snapshot(top)
        func copy(_ from: String, _ to: String, _ receiving: Files.ReceiveOptions = .init()) async throws {
            try await folders.client().copy(
                [place(on, folders, from)], to: place(on, folders, to), receiving: receiving)
        }
        for (from, to, receiving) in [
            ("a", "a/b", Files.ReceiveOptions()), ("a", "a", .init()), ("a", "a/new", .init()),
            ("a", "way in", .init()),
            ("a", "way in/", .init(exact: true)), ("a", "a", .init(exact: true)), ("a", "", .init()),
            ("a/file", "a/file", .init()), ("a/file", "a", .init()), ("same", "a/file", .init()),
            ("a/b", "a", .init(exact: true, delete: true)),
        ] {
            await #expect(throws: KithError(.conflict, ""), "\(from) to \(to)") { try await copy(from, to, receiving) }
        }
        #expect(try Snapshot(top) == before)
        // Beside itself it may.
        try await copy("a", "c")
        #expect(try Snapshot(top + "/a") == Snapshot(top + "/c"))
        try await copy("a/file", "a/other")
        #expect(try String(contentsOfFile: top + "/a/other", encoding: .utf8) == "x")
    }

    @Test func `what is copied there must be permitted to be read there`() async throws {
        let folders = try Folders()
        try folders.write("secret/file", "secret")
        try folders.write("srv/file", "mine")
        let input = Files.Duplicate.Input(
            sources: [Files.Path(folders.top + "/secret/file")], destination: Files.Path(folders.srv + "/stolen"))
        await #expect(throws: KithError(.denied, "")) {
            _ = try await folders.client().open(Files.Duplicate.self, input, on: "laptop")
        }
        // Nor by a link.
        #expect(symlink("../secret", folders.srv + "/link") == 0)
        await #expect(throws: KithError.self) {
            try await folders.client().copy(
                [there(folders.srv + "/link/file")], to: there(folders.srv + "/stolen"), recursive: false)
        }
        await #expect(throws: KithError(.denied, "")) {
            try await folders.client(.read).copy([there(folders.srv + "/file")], to: there(folders.srv + "/copy"))
        }
        #expect(try folders.names("srv") == ["file", "link"])
    }

    @Test func `a device with an older kith gets it through this one`() async throws {
        let folders = try Folders()
        try folders.write("srv/tree/file", bytes(200_000, seed: 4))
        var carrier = LocalCarrier(grants: [.files(.write, root: folders.srv)])
        carrier.unknown = [Files.Duplicate.name]
        let (summary, _) = try await Client(carrier).copy(
            [there(folders.srv + "/tree")], to: there(folders.srv + "/copy"), compress: .never)
        #expect(try Snapshot(folders.srv + "/tree") == Snapshot(folders.srv + "/copy"))
        #expect(summary.sent == 200_000)
    }

    @Test func `a copy that fails there says why, and what was left out`() async throws {
        let folders = try Folders()
        try folders.write("srv/tree/file", bytes(200_000, seed: 3))
        #expect(mkfifo(folders.srv + "/tree/pipe", 0o600) == 0)
        let (summary, skipped) = try await folders.client().copy(
            [there(folders.srv + "/tree")], to: there(folders.srv + "/copy"))
        #expect(summary.skipped == 1 && skipped.map(\.path.description) == ["tree/pipe"])
        try folders.write("srv/taken", "a file")
        await #expect(throws: KithError(.conflict, "")) {
            try await folders.client().copy([there(folders.srv + "/tree")], to: there(folders.srv + "/taken"))
        }
        await #expect(throws: KithError(.notFound, "")) {
            try await folders.client().copy([there(folders.srv + "/none")], to: there(folders.srv + "/x"))
        }
        #expect(try folders.names("srv") == ["copy", "taken", "tree"])
    }
}
