import Foundation
import KithAPI
import KithIdentity
import KithWire
import Testing

@testable import KithFiles

@Suite struct FollowTests {
    /// Follows a file of the laptop, and gathers what comes.
    private struct Following {
        let stream: MethodStream<Files.Followed, Nothing>

        init(_ client: Client, _ input: Files.Follow.Input) async throws {
            stream = try await client.open(Files.Follow.self, input, on: "laptop").stream
        }

        /// All bytes until `count` of them have come or something has happened.
        func next(_ count: Int = .max) async throws -> (text: String, event: Files.Followed.Event?) {
            var bytes: [UInt8] = []
            while bytes.count < count, let message = try await stream.receive() {
                if let failure = message.failure { throw failure.error }
                bytes += message.bytes.bytes
                if let event = message.event { return (String(decoding: bytes, as: UTF8.self), event) }
            }
            return (String(decoding: bytes, as: UTF8.self), nil)
        }
    }

    private func append(_ text: String, to path: String) throws {
        let handle = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
        try handle.seekToEnd()
        try handle.write(contentsOf: Data(text.utf8))
        try handle.close()
    }

    @Test func `the end of a file is where it is for tail`() async throws {
        let folders = try Folders()
        let client = folders.client(.read)
        let long = String(repeating: "x", count: 200_000)
        for (text, start, expected) in [
            ("a\nb\nc\n", Files.Follow.Start(count: 2), "b\nc\n"),
            ("a\nb\nc", Files.Follow.Start(count: 2), "b\nc"),
            ("a\nb\nc\n", Files.Follow.Start(count: 0), ""),
            ("a\nb\nc\n", Files.Follow.Start(count: 9), "a\nb\nc\n"),
            ("\n\n\n", Files.Follow.Start(count: 2), "\n\n"),
            ("", Files.Follow.Start(count: 2), ""),
            ("a\n\(long)\nc\n", Files.Follow.Start(count: 2), "\(long)\nc\n"),
            ("a\n\(long)\nc\n", Files.Follow.Start(count: 3, isFromBeginning: true), "c\n"),
            ("a\nb\nc\n", Files.Follow.Start(count: 2, isFromBeginning: true), "b\nc\n"),
            ("a\nb\nc\n", Files.Follow.Start(count: 0, isFromBeginning: true), "a\nb\nc\n"),
            ("a\nb\nc\n", Files.Follow.Start(count: 7, isFromBeginning: true), ""),
            ("abcdef", Files.Follow.Start(count: 2, isBytes: true), "ef"),
            ("abcdef", Files.Follow.Start(count: 20, isBytes: true), "abcdef"),
            ("abcdef", Files.Follow.Start(count: 5, isBytes: true, isFromBeginning: true), "ef"),
            ("abcdef", Files.Follow.Start(count: .max, isBytes: true, isFromBeginning: true), ""),
        ] {
            try folders.write("srv/file", text)
            let tail = try await Following(client, .init(path: "file", start: start))
            #expect(try await tail.next().text == expected, "\(start)")
        }
    }

    @Test func `what is added comes, and the caller's end is the end`() async throws {
        let folders = try Folders()
        try folders.write("srv/log", "one\n")
        let tail = try await Following(folders.client(.read), .init(path: "log", follows: true))
        #expect(try await tail.next() == ("one\n", .reachedEnd))
        for index in 0..<20 {
            try append("line \(index)\n", to: folders.srv + "/log")
            #expect(try await tail.next("line \(index)\n".utf8.count).text == "line \(index)\n")
        }
        try await tail.stream.finish()
        #expect(try await tail.stream.receive() == nil)
    }

    @Test func `a file cut short is read from its beginning`() async throws {
        let folders = try Folders()
        try folders.write("srv/log", "a long first line\n")
        let tail = try await Following(folders.client(.read), .init(path: "log", follows: true))
        _ = try await tail.next()
        #expect(truncate(folders.srv + "/log", 0) == 0)
        #expect(try await tail.next().event == .truncated)
        try append("new\n", to: folders.srv + "/log")
        #expect(try await tail.next(4).text == "new\n")
    }

    @Test func `a log that is rotated is read to its end, then its successor`() async throws {
        let folders = try Folders()
        let log = folders.srv + "/log"
        try folders.write("srv/log", "")
        let tail = try await Following(folders.client(.read), .init(path: "log", follows: true))
        _ = try await tail.next()
        var expected = ""
        var got = ""
        for round in 0..<5 {
            // Written between the renaming and the successor's coming: must not be lost.
            #expect(rename(log, log + ".\(round)") == 0)
            try append("late \(round)\n", to: log + ".\(round)")
            try Data("early \(round)\n".utf8).write(to: URL(fileURLWithPath: log + ".new"))
            #expect(rename(log + ".new", log) == 0)
            expected += "late \(round)\nearly \(round)\n"
            while true {
                let (text, event) = try await tail.next(event(got, expected))
                got += text
                if event == nil, got.utf8.count >= expected.utf8.count { break }
            }
            #expect(got == expected)
        }
    }

    private func event(_ got: String, _ expected: String) -> Int { expected.utf8.count - got.utf8.count }

    @Test func `a file that is not there is waited for, and one that goes away`() async throws {
        let folders = try Folders()
        let client = folders.client(.read)
        await #expect(throws: KithError(.notFound, "")) {
            _ = try await Following(client, .init(path: "log", follows: true))
        }
        let tail = try await Following(client, .init(path: "log", follows: true, waits: true))
        #expect(try await tail.next().event == .reachedEnd)
        #expect(try await tail.next().event == .missing)
        try folders.write("srv/log", "here\n")
        #expect(try await tail.next().event == .replaced)
        #expect(try await tail.next(5).text == "here\n")
        try FileManager.default.removeItem(atPath: folders.srv + "/log")
        #expect(try await tail.next().event == .missing)
        try folders.write("srv/log", "again\n")
        #expect(try await tail.next().event == .replaced)
        #expect(try await tail.next(6).text == "again\n")
    }

    @Test func `a name that becomes a link out of the folder, or a pipe, tells nothing`() async throws {
        let folders = try Folders()
        try folders.write("outside/secret", "secret\n")
        try folders.write("srv/log", "log\n")
        let tail = try await Following(folders.client(.read), .init(path: "log", follows: true))
        _ = try await tail.next()
        try FileManager.default.createSymbolicLink(
            atPath: folders.srv + "/link", withDestinationPath: folders.top + "/outside/secret")
        #expect(rename(folders.srv + "/link", folders.srv + "/log") == 0)
        #expect(try await tail.next() == ("", .missing))
        #expect(mkfifo(folders.srv + "/pipe", 0o600) == 0)
        #expect(rename(folders.srv + "/pipe", folders.srv + "/log") == 0)
        await #expect(throws: KithError(.unsupported, "")) { _ = try await tail.next() }
    }

    @Test func `a file is replaced only while it holds what the writer has seen`() async throws {
        let folders = try Folders()
        let client = folders.client()
        try folders.write("srv/file", "old")
        func write(_ text: String, replacing: String) async throws -> KithError.Code? {
            let hash = ByteString(try sha256(replacing))
            let stream = try await client.open(
                Files.Write.self, .init(path: "file", replacing: hash), on: "laptop"
            ).stream
            try await stream.write(Array(text.utf8))
            try await stream.finish()
            return try await stream.receive()?.failure?.code
        }
        #expect(try await write("new", replacing: "old") == nil)
        #expect(try folders.text("srv/file") == "new")
        #expect(try await write("newer", replacing: "old") == .conflict)
        #expect(try folders.text("srv/file") == "new")
        try FileManager.default.removeItem(atPath: folders.srv + "/file")
        #expect(try await write("newer", replacing: "new") == .conflict)
        #expect(try folders.names("srv").isEmpty)
    }

    /// By the coreutils.
    private func sha256(_ text: String) throws -> [UInt8] {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/sha256sum")
        let (input, output) = (Foundation.Pipe(), Foundation.Pipe())
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        try input.fileHandleForWriting.write(contentsOf: Data(text.utf8))
        try input.fileHandleForWriting.close()
        let hex = Array(output.fileHandleForReading.readDataToEndOfFile().prefix(64))
        process.waitUntilExit()
        return stride(from: 0, to: hex.count, by: 2).compactMap {
            UInt8(String(decoding: hex[$0..<$0 + 2], as: UTF8.self), radix: 16)
        }
    }
}
