#if os(Linux)
import Foundation
import KithContent
import KithTesting
import Testing

@testable import KithExtractor

/// Processes that end, or hang, in the middle of a file.
///
/// The program is a script that speaks the protocol as `kith-extract` does: what is in the file says what becomes of it.
@Suite(.timeLimit(.minutes(4))) struct KilledTests {
    private static let script = #"""
        #!/usr/bin/python3
        import array, os, signal, socket, struct, sys, time
        device = socket.socket(fileno=0)
        device.sendall(b"\0" * 5)

        def frame(kind, content=b""):
            return bytes([kind]) + struct.pack("<I", len(content)) + content

        while True:
            request, handed, _, _ = socket.recv_fds(device, 12, 1)
            if not request:
                break
            text = os.pread(handed[0], 1 << 16, 0).decode()
            os.close(handed[0])
            with open(sys.argv[0] + ".log", "a") as log:
                log.write(f"{os.getpid()} {text}\n")
            if text.startswith("half"):
                device.sendall(frame(2, b"the beginning")[:9])
            if text.endswith("kill"):
                os.kill(os.getpid(), signal.SIGKILL)
            if text.endswith("hang"):
                time.sleep(3600)
            if text.endswith("memory"):
                # As the kernel ends who takes too much.
                os.abort()
            device.sendall(frame(2, text.encode()) + frame(0))
        """#

    private struct Reading {
        let folder: TemporaryFolder
        let extractor: ContentExtractor

        init() throws {
            folder = try TemporaryFolder()
            let program = folder.path + "/program"
            try Data(KilledTests.script.utf8).write(to: URL(fileURLWithPath: program))
            try folder.setMode(0o700, of: "program")
            var limits = ContentExtractor.Limits()
            limits.milliseconds = 2_000
            limits.processes = 1
            extractor = ContentExtractor(path: program, limits: limits)
        }

        func read(_ text: String) async throws -> String? {
            let path = folder.path + "/file-\(UInt64.random(in: 0...UInt64.max))"
            try Data(text.utf8).write(to: URL(fileURLWithPath: path))
            let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
            defer { try? file.close() }
            return try await extractor.read(file.fileDescriptor, [.text]).content.text
        }

        /// The processes that were given a file that begins with a text.
        func processes(_ text: String) throws -> [Substring] {
            try String(contentsOfFile: folder.path + "/program.log", encoding: .utf8).split(separator: "\n")
                .filter { $0.contains(" \(text)") }.compactMap { $0.split(separator: " ").first }
        }
    }

    @Test(arguments: ["kill", "half kill", "hang", "half hang", "memory"])
    func `a file that ends its process, or keeps it, is tried in two of them, and others are read after it`(
        text: String
    ) async throws {
        let reading = try Reading()
        defer { reading.extractor.close() }
        #expect(try await reading.read("before") == "before")
        await #expect(throws: ContentExtractor.Fault.deadly) { try await reading.read(text) }
        #expect(try await reading.read("after") == "after")
        let tried = try reading.processes(text)
        #expect(Set(tried).count == 2 && tried.count == 2)
        // The last one is a third, and none of the others is left.
        let last = try #require(try reading.processes("after").first)
        #expect(!tried.contains(last))
        for process in tried { #expect(kill(pid_t(process) ?? 0, 0) != 0, "\(process) is there still") }
    }

    @Test func `a process that somebody kills between two files is replaced, and nothing is marked`() async throws {
        let reading = try Reading()
        defer { reading.extractor.close() }
        #expect(try await reading.read("one") == "one")
        let first = try #require(try reading.processes("one").first.flatMap { pid_t($0) })
        #expect(kill(first, SIGKILL) == 0)
        #expect(try await reading.read("two") == "two")
        #expect(try reading.processes("two").first.flatMap { pid_t($0) } != first)
    }
}
#endif
