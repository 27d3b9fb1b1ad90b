#if os(Linux)
import Foundation
import KithIndex
import KithJobs
import KithTesting
import KithWire
import Logging
import Testing

@testable import KithLibrary

/// A job that reads files, when the process that does it is killed in the middle of one.
@Suite(.timeLimit(.minutes(3))) struct KilledExtractionTests {
    /// Answers as `kith-extract` does, and kills itself at a file that says so.
    private static let script = #"""
        #!/usr/bin/python3
        import os, signal, socket, struct
        device = socket.socket(fileno=0)
        device.sendall(b"\0" * 5)
        while True:
            request, handed, _, _ = socket.recv_fds(device, 12, 1)
            if not request:
                break
            text = os.pread(handed[0], 1 << 16, 0)
            os.close(handed[0])
            if text == b"deadly":
                device.sendall(b"\2\xff")
                os.kill(os.getpid(), signal.SIGKILL)
            device.sendall(b"\2" + struct.pack("<I", len(text)) + text + b"\0" * 5)
        """#

    @Test func `the job goes on, the file is marked, and is not tried again as it is`() async throws {
        let folder = try TemporaryFolder()
        let top = folder.path + "/tree"
        for path in [top, folder.path + "/device"] {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        }
        for number in 0..<40 {
            let text = number == 7 || number == 23 ? "deadly" : "words of \(number)"
            try Data(text.utf8).write(to: URL(fileURLWithPath: "\(top)/\(number).txt"))
        }
        let program = folder.path + "/program"
        try Data(Self.script.utf8).write(to: URL(fileURLWithPath: program))
        try folder.setMode(0o700, of: "program")
        let service = LibraryService(
            directory: folder.path + "/device", name: { "here" }, keepsUp: false, extractor: program,
            logger: Logger(label: "test"))
        let index = try await service.ownKeeper(nil).index()
        let location = try index.addLocation(at: Array(top.utf8))
        _ = try await index.scan(location.id)

        func read() async throws -> ExtractJob.Report {
            let queue = try await service.jobs.start()
            let input = ContentInput(location: location.id, name: "tree")
            let job = try await queue.add(ExtractJob(service.reference), input, topic: "extract")
            for await case .changed(let record) in await queue.follow(every: .milliseconds(20))
            where record.id == job && record.state.isFinal {
                break
            }
            return try await queue.output(of: job, ExtractJob.self)
        }
        let report = try await read()
        #expect(report.files == 40 && report.unreadable == 2)
        for (name, isDeadly) in [("7.txt", true), ("23.txt", true), ("8.txt", false)] {
            let item = try await index.extractionItem(at: Array("\(top)/\(name)".utf8))
            let known = try #require(try await index.extracted(item))
            #expect((known.problem?.contains("ends the process") == true) == isDeadly, "\(name): \(known)")
            #expect(isDeadly || known.textBytes == 10)
        }
        // Nothing is left to be read; a file that is another one now is.
        #expect(try await read().files == 0)
        try Data("harmless words".utf8).write(to: URL(fileURLWithPath: "\(top)/7.txt"))
        _ = try await index.scan(location.id)
        let again = try await read()
        #expect(again.files == 1 && again.unreadable == 0)
        await service.stop()
    }
}
#endif
