import Foundation
import KithTesting
import KithWire
import Testing

@testable import KithAPI

struct StreamWrapperTests {
    @Test func `a stream with bytes read ahead loses nothing of the one beneath`() async throws {
        #expect(try await WrappedStream.lost { PrefixedStream([], before: $0) } == [])
    }

    @Test func `a stream whose service has answered loses nothing of the one beneath`() async throws {
        #expect(
            try await WrappedStream.lost { stream in
                OpeningStream(OpenedStream<Talk>(output: Nothing(), stream: stream))
            } == [])
    }

    @Test func `a wrapper that says nothing of its own loses nothing`() async throws {
        #expect(try await WrappedStream.lost { Plain($0) } == [])
    }

    @Test func `who keeps a stream and is one is a wrapper`() throws {
        let sources = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Sources")
        let files = try #require(FileManager.default.enumerator(at: sources, includingPropertiesForKeys: nil))
        var streams: [String] = []
        var offenders: [String] = []
        for case let file as URL in files where file.pathExtension == "swift" {
            // A class ends at the first brace in its first column.
            for text in try String(contentsOf: file, encoding: .utf8).components(separatedBy: "\n}") {
                guard let name = text.firstMatch(of: /class (\w+)[^\n]*: ByteStream \{/)?.output.1 else { continue }
                streams.append(String(name))
                let keepsStream = text.contains(/\n    (?:private |package |public )*let \w+: any ByteStream\n/)
                if keepsStream, !text.contains("var executor:") { offenders.append(String(name)) }
            }
        }
        #expect(streams.contains("PipeEnd"))
        #expect(offenders == [], "these wrap a stream: they are a StreamWrapper, or say which executor is theirs")
    }
}

private final class Plain: StreamWrapper {
    let base: any ByteStream
    init(_ base: any ByteStream) { self.base = base }
}

private enum Talk: StreamMethod {
    typealias Input = Nothing
    typealias Output = Nothing
    typealias Upstream = RawBytes
    typealias Downstream = RawBytes
    static let header = MethodHeader.stream("test.talk", by: .anyone, "Talks.")
}
