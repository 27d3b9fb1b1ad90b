import Foundation
import KithAPI
import KithWire
import Testing

@testable import KithFiles

/// Numbers of a peer, or of a file system that somebody else filled, that arithmetic cannot hold.
@Suite struct NumberTests {
    private func attributes(_ name: String, seconds: Int64 = 1) -> TransferFrame.Attributes {
        TransferFrame.Attributes(
            name: Array(name.utf8), mode: 0o644, seconds: seconds, nanoseconds: 0, identity: 1)
    }

    private func refusal(
        _ folders: Folders, _ receiving: Files.ReceiveOptions = Files.ReceiveOptions(), listing: [TransferFrame],
        _ frames: [TransferFrame] = []
    ) async throws -> Files.Failure? {
        let stream = try await folders.client().open(
            Files.Push.self, .init(path: Files.Path(folders.srv), receiving: receiving), on: "laptop"
        ).stream.bytes
        guard !frames.isEmpty else { return try await stream.refusal(of: listing) }
        try await stream.say(listing)
        #expect(try await stream.hears(.send(files: 1)))
        var bytes: [UInt8] = []
        for frame in frames { try frame.append(to: &bytes) }
        try await stream.write(bytes)
        defer { stream.abort(.cancelled) }
        return try await stream.failure()
    }

    @Test func `holes and zeros lead to the end of all files and not beyond`() async throws {
        let folders = try Folders()
        let file = TransferFrame.file(attributes("file"), size: 9, .sparse)
        let nearEnd: UInt64 = 1 << 63 - 4_096
        let block = [UInt8](repeating: 0, count: 4_096)[...]
        let contents: [[TransferFrame]] = [
            [.hole(nearEnd), .data(block), .hole(1)], [.hole(nearEnd), .data(block), .data(block), .hole(.max)],
            [.hole(1 << 63)], [.hole(1), .hole(.max)], [.hole(1 << 63 - 1), .data([0])],
        ]
        for (number, frames) in contents.enumerated() {
            let refusal = try await refusal(folders, listing: [file], frames)
            #expect(refusal?.code == .exhausted, "\(number): \(String(describing: refusal))")
        }
        #expect(try folders.names("srv").isEmpty)
    }

    @Test func `files of more bytes than there can be are not even planned`() async throws {
        let folders = try Folders()
        let plan = Files.ReceiveOptions(dryRun: true)
        #expect(
            try await refusal(folders, plan, listing: [.file(attributes("a"), size: 1 << 63, [])])?.code == .invalid)
        let files = (0..<3).map { TransferFrame.file(attributes("\($0)"), size: 1 << 63 - 1, []) }
        #expect(try await refusal(folders, plan, listing: files)?.code == .invalid)
    }

    /// A folder on a file system that keeps any time, as those in memory do.
    private func timeless() throws -> String {
        let path = "/dev/shm/kith-\(UInt64.random(in: 0 ... .max))"
        guard mkdir(path, 0o700) == 0 else { try Test.cancel("There is no file system in memory here.") }
        return path
    }

    private func write(_ path: String, seconds: Int64) throws {
        try Data([1]).write(to: URL(filePath: path))
        let file = try Descriptor.open(Array(path.utf8), [])
        try file.setModified(seconds, 0)
        guard try file.info().seconds == seconds else { try Test.cancel("This file system keeps no such times.") }
    }

    @Test(arguments: [Int64.min, .min + 1, .max]) func `a file of any time is found, listed and written beside`(
        seconds: Int64
    ) async throws {
        let folder = try timeless()
        defer { try? FileManager.default.removeItem(atPath: folder) }
        // A name that a copy which was cut off gives: whether it is old is asked.
        let partial = ".kith-resume-" + String(repeating: "a", count: 20)
        for name in ["file", partial] { try write("\(folder)/\(name)", seconds: seconds) }
        let client = try Folders().client()
        let path = Files.Path(folder)
        let listed = try await client.call(Files.List.self, .init(path: path))
        #expect(listed.entries.map(\.modified) == [seconds, seconds])
        var filter = Files.Filter()
        filter.age = .init(minimum: 1)
        let search = try await client.open(Files.Find.self, .init(path: path, filter: filter, minimumDepth: 1)).stream
        var found: [Files.Entry] = []
        while let report = try await search.receive() { found += report.entries }
        #expect(found.count == (seconds > 0 ? 0 : 2))
        let writing = try await client.open(Files.Write.self, .init(path: Files.Path(folder + "/new"))).stream
        try await writing.write([7])
        try await writing.finish()
        let written = try await writing.receive()
        #expect(written?.size == 1 && written?.failure == nil)
        // What came from the year minus three hundred thousand million is older than a week.
        #expect(FileManager.default.fileExists(atPath: "\(folder)/\(partial)") == (seconds > 0))
    }

    @Test func `what is shown of a copy stops at the largest number`() {
        let progress = TransferProgress()
        for _ in 0..<3 {
            progress.add(bytes: .max, sent: .max - 1, wire: .max, files: .max)
            progress.addTotal(bytes: .max, files: 1 << 63)
        }
        var report = progress.report()
        #expect(report.bytes == .max && report.sent == .max && report.files == .max)
        #expect(report.totalBytes == .max && report.totalFiles == .max)
        progress.take(Files.Progress(bytes: 5, totalBytes: 7), after: Files.Progress(bytes: .max, totalBytes: .max))
        report = progress.report()
        #expect(report.bytes == 5 && report.totalBytes == 7)
        let largest = Files.Summary(bytes: .max, sent: .max, files: .max, folders: .max, skipped: .max)
        #expect((largest + largest).bytes == .max && (largest + largest).skipped == .max)
    }
}
