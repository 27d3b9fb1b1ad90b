import Foundation
import Kith
import KithIdentity
import KithAPI
import KithTesting
import KithWire
import Testing

@testable import KithWeb

/// Archives, read by other programs.
@Suite(.timeLimit(.minutes(2))) struct WebArchiveTests {
    @Test func `sizes that no files have are refused before they are added up`() throws {
        func entry(_ size: UInt64) -> ArchiveEntry {
            ArchiveEntry(name: "a", isFolder: false, size: size, modified: 0, mode: 0o644)
        }
        try ArchiveStream.check([entry(1 << 53), entry(0)])
        for sizes in [[UInt64.max], [(1 << 53) + 1], Array(repeating: 1 << 53, count: 129)] as [[UInt64]] {
            #expect(throws: KithError.self) { try ArchiveStream.check(sizes.map(entry)) }
        }
    }

    @Test(arguments: ["zip", "tar"])
    func `a selection comes as an archive that others read, with its size before it`(_ form: String) async throws {
        try await ServedPage.run { served in
            let page = try await served.signedIn()
            let manager = FileManager.default
            let top = served.folder.path + "/tree"
            try manager.createDirectory(atPath: top + "/sub/empty", withIntermediateDirectories: true)
            let large = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
            let long = String(repeating: "n", count: 200)
            for (name, bytes) in [
                ("tree/large.bin", large), ("tree/é\u{1F600}.txt", Array("text".utf8)), ("tree/sub/none", []),
                ("tree/sub/\(long)", [7]), ("alone.txt", [1, 2]),
            ] { try served.folder.write(bytes, to: name) }
            try manager.createSymbolicLink(atPath: top + "/link", withDestinationPath: "/etc/passwd")
            let ticket = try await page.ticket(
                "web/download", #"{"paths":["\#(top)","\#(served.folder.path)/alone.txt"],"form":"\#(form)"}"#)
            let answer = try #require(try await page.get(ticket.url))
            #expect(answer.status == 200 && answer.headers["content-length"] == String(answer.body.count))
            #expect(answer.headers["content-disposition"]?.contains("files.\(form)") == true)
            let archive = served.folder.path + "/archive"
            try Data(answer.body).write(to: URL(fileURLWithPath: archive))
            let script = """
                import sys, zipfile, tarfile, json, hashlib
                out = {}
                if sys.argv[1] == 'zip':
                    z = zipfile.ZipFile(sys.argv[2])
                    assert z.testzip() is None
                    for i in z.infolist():
                        out[i.filename] = '' if i.is_dir() else hashlib.sha256(z.read(i)).hexdigest()
                        assert i.compress_type == 0
                else:
                    t = tarfile.open(sys.argv[2])
                    for i in t:
                        out[i.name + ('/' if i.isdir() else '')] = '' if i.isdir() else hashlib.sha256(t.extractfile(i).read()).hexdigest()
                print(json.dumps(out))
                """
            let found = try JSONDecoder().decode(
                [String: String].self, from: Data(try run("python3", ["-c", script, form, archive]).utf8))
            #expect(
                found.keys.sorted()
                    == [
                        "alone.txt", "tree/", "tree/large.bin", "tree/sub/", "tree/sub/empty/", "tree/sub/\(long)",
                        "tree/sub/none", "tree/é\u{1F600}.txt",
                    ].sorted())
            #expect(found["tree/large.bin"] == (try run("sha256sum", [top + "/large.bin"])).prefix(64).description)
        }
    }

    @Test func `sizes that need 64 bits are written with them`() async throws {
        // Contents that are not there: what counts is what stands around them.
        let entries = [
            ArchiveEntry(name: "large", isFolder: false, size: 5 << 30, modified: 1_700_000_000, mode: 0o644),
            ArchiveEntry(name: "after", isFolder: false, size: 3, modified: 1_700_000_000, mode: 0o600),
        ]
        let layout = ZipLayout(entries)
        let folder = try TemporaryFolder()
        let path = folder.path + "/a.zip"
        #expect(FileManager.default.createFile(atPath: path, contents: nil))
        let file = try #require(FileHandle(forWritingAtPath: path))
        var (offset, checksums): (UInt64, [UInt32]) = (0, [])
        for (entry, contents) in zip(entries, [nil, Array("abc".utf8)]) {
            var crc = CRC32()
            if let contents { crc.update(contents) }
            let header = ZipLayout.header(entry, crc: crc.value)
            try file.write(contentsOf: header)
            if let contents { try file.write(contentsOf: contents) }
            offset += UInt64(header.count) + entry.size
            // A hole in the file.
            try file.seek(toOffset: offset)
            let trailer = ZipLayout.trailer(entry, crc: crc.value)
            try file.write(contentsOf: trailer)
            offset += UInt64(trailer.count)
            checksums.append(crc.value)
        }
        var directory: [UInt8] = []
        await layout.directory(checksums) { directory += $0 }
        try file.write(contentsOf: directory)
        try file.close()
        #expect(layout.size == offset + UInt64(directory.count))
        let script = """
            import sys, zipfile
            z = zipfile.ZipFile(sys.argv[1])
            print([(i.filename, i.file_size, i.external_attr >> 16 & 0o777, i.date_time) for i in z.infolist()], z.read('after'))
            """
        let found = try run("python3", ["-c", script, path])
        #expect(
            found
                == "[('large', 5368709120, 420, (2023, 11, 14, 22, 13, 20)), ('after', 3, 384, (2023, 11, 14, 22, 13, 20))] b'abc'\n"
        )
    }

    @Test func `names of a hostile device unpack below where they are unpacked`() {
        #expect(ArchiveEntry.name(Array(#"..\..\evil"#.utf8)) == ".._.._evil")
        #expect(ArchiveEntry.name([0x61, 0x0A, 0x1B, 0x7F]) == "a___")
        #expect(ArchiveEntry.name([0x61, 0xFF]) == "a\u{FFFD}")
    }

    @Test func `a thousand small files come in one archive`() async throws {
        try await ServedPage.run { served in
            let page = try await served.signedIn()
            try FileManager.default.createDirectory(
                atPath: served.folder.path + "/many", withIntermediateDirectories: true)
            for number in 0..<1_000 { try served.folder.write([UInt8](repeating: 9, count: 100), to: "many/\(number)") }
            let ticket = try await page.ticket(
                "web/download", #"{"paths":["\#(served.folder.path)/many"],"form":"zip"}"#)
            let head = try #require(try await page.get(ticket.url, method: "HEAD"))
            let answer = try #require(try await page.get(ticket.url))
            #expect(head.headers["content-length"] == String(answer.body.count))
            #expect(answer.body.suffix(22).prefix(4) == [0x50, 0x4B, 5, 6])
        }
    }

    private func run(_ program: String, _ arguments: [String]) throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [program] + arguments
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.run()
        let output = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return String(decoding: output, as: UTF8.self)
    }
}
