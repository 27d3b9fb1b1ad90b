import CKithSystem
import Foundation
import KithAPI
import KithWire
import Testing

@testable import KithFiles

#if canImport(Glibc)
import Glibc
#elseif canImport(Darwin)
import Darwin
#endif

/// Tests of what has the name of something that comes, and of what may be done about it.
@Suite struct ReplacingTests {
    /// Mirrors `local/tree` to `srv/tree` without `*.keep`; what it tells until it ends, and how it fails.
    private func mirror(
        _ folders: Folders, dryRun: Bool = false
    ) async throws -> (summary: Files.Summary?, changes: [Files.Change], failure: KithError?) {
        var changes: [Files.Change] = []
        let input = Files.Copy.Input(
            sources: [here(folders.local + "/tree")], destination: there(folders.srv + "/tree"), recursive: true,
            selection: .init(exclude: ["*.keep"]),
            receiving: .init(exact: true, delete: true, dryRun: dryRun, report: true))
        do {
            let (summary, _) = try await folders.client().follow(input) { changes += $0.changes }
            return (summary, changes, nil)
        } catch let error as KithError {
            return (nil, changes, error)
        }
    }

    @Test(arguments: ["file", "link"])
    func `a folder in the way of what is none goes, but not what the patterns protect in it`(kind: String) async throws
    {
        let folders = try Folders()
        try folders.write("local/tree/other", "other")
        if kind == "file" {
            try folders.write("local/tree/x", "file")
        } else {
            #expect(symlink("other", folders.local + "/tree/x") == 0)
        }
        try folders.write("srv/tree/x/deep/gone", "gone")
        try folders.write("srv/tree/x/b.keep", "protected")
        let deletion = Files.Change(path: Files.Path(folders.srv + "/tree/x"), kind: .deleted)

        let before = try Snapshot(folders.srv)
        let planned = try await mirror(folders, dryRun: true)
        #expect(try Snapshot(folders.srv) == before)
        #expect(planned.failure?.code == .conflict && planned.changes.contains(deletion), "\(planned)")

        let done = try await mirror(folders)
        #expect(done.failure?.code == .conflict && Set(done.changes) == Set(planned.changes), "\(done)")
        #expect(try folders.names("srv/tree/x") == ["b.keep"] && folders.text("srv/tree/other") == "other")
        #expect(try folders.names("srv/tree") == ["other", "x"])

        try FileManager.default.moveItem(atPath: folders.srv + "/tree/x/b.keep", toPath: folders.srv + "/tree/x/b")
        let all = try await mirror(folders, dryRun: true)
        #expect(try #require(all.summary).deleted == 2 && all.changes.contains(deletion), "\(all)")
        #expect(try #require(await mirror(folders).summary).deleted == 2)
        #expect(try Snapshot(folders.srv + "/tree") == Snapshot(folders.local + "/tree"))
    }

    @Test func `one file brought up to date in a folder lands in it under its own name`() async throws {
        let folders = try Folders()
        try folders.write("local/file", "new")
        try folders.write("srv/folder/other", "stays")
        let client = folders.client()
        for content in ["new", "newer"] {
            try folders.write("local/file", content)
            try await client.copy(
                [here(folders.local + "/file")], to: there(folders.srv + "/folder"),
                receiving: .init(exact: true, delete: true))
            #expect(try folders.names("srv/folder") == ["file", "other"] && folders.text("srv/folder/file") == content)
        }
        await #expect(throws: KithError(.conflict, "")) {
            try await client.copy(
                [there(folders.srv + "/folder/file")], to: there(folders.srv + "/folder"), receiving: .init(exact: true)
            )
        }
        #expect(try folders.text("srv/folder/file") == "newer")
    }

    @Test(.enabled(if: geteuid() != 0, "root may read everything"))
    func `a file at the destination that nobody may read is replaced, and the others arrive`() async throws {
        let folders = try Folders()
        for name in ["a", "b"] { try folders.write("local/tree/" + name, name) }
        let client = folders.client()
        func sync() async throws -> Files.Summary {
            try await client.copy(
                [here(folders.local + "/tree")], to: there(folders.srv + "/tree"), receiving: .init(exact: true)
            ).summary
        }
        _ = try await sync()
        #expect(chmod(folders.srv + "/tree/a", 0) == 0)
        try folders.write("local/tree/b", "changed")
        #expect(try await sync().files == 2)
        #expect(try Snapshot(folders.srv + "/tree") == Snapshot(folders.local + "/tree"))
        #expect(try await sync().unchanged == 2)
    }

    @Test func `what was listed by another spelling is not what the source does not have`() throws {
        let folders = try Folders()
        try folders.write("srv/Photo.JPG", "the only copy")
        try folders.write("srv/other", "not at the source")
        let folder = try Descriptor.open(Array(folders.srv.utf8), [.folder])
        var listed = try ListedNames(in: folder)
        // As where cases are folded: another name, and the very same file.
        #expect(link(folders.srv + "/Photo.JPG", folders.srv + "/photo.jpg") == 0)
        try listed.insert(Array("photo.jpg".utf8), in: folder)
        // As where letters are decomposed: what comes is listed by another name than it was sent.
        try listed.insert(Array("\u{E9}".utf8), in: folder)
        try folders.write("srv/\u{E9}", "new")
        #expect(link(folders.srv + "/\u{E9}", folders.srv + "/e\u{301}") == 0)
        var others: [[UInt8]] = []
        try listed.forEachOther(in: folder) { name throws(Errno) in others.append(name) }
        #expect(others == [Array("other".utf8)])
    }

    @Test func `where nothing renames without replacing, files and folders get free names, and no others`() throws {
        let folders = try Folders()
        let folder = try Descriptor.open(Array(folders.srv.utf8), [.folder])
        func rename(_ from: String, to name: String) -> Int32 {
            kith_file_rename_in_steps(folder.number, from, folder.number, name)
        }
        try folders.write("srv/folder/inner", "inner")
        try folders.write("srv/file", "file")
        try folders.write("srv/taken", "taken")
        #expect(mkdir(folders.srv + "/empty", 0o755) == 0)
        for name in ["file", "folder"] {
            #expect(rename(name, to: "taken") == -EEXIST && rename(name, to: "empty") == -EEXIST)
            #expect(rename(name, to: "free " + name) == 0)
        }
        #expect(rename("none", to: "free") == -ENOENT)
        #expect(try folders.names("srv") == ["empty", "free file", "free folder", "taken"])
        #expect(try folders.text("srv/free folder/inner") == "inner" && folders.text("srv/free file") == "file")
        #expect(try folders.text("srv/taken") == "taken")
    }
}
