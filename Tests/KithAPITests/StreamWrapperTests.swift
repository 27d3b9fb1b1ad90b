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
        let types = try SourceText.types(conformingTo: "ByteStream")
        let offenders = types.filter { _, text in
            let keepsStream = text.contains(/\n    (?:private |package |public )*let \w+: any ByteStream\n/)
            return keepsStream && !text.contains("var executor:")
        }.map(\.name)
        let streams = types.map(\.name)
        #expect(streams.contains("PipeEnd"))
        #expect(offenders == [], "these wrap a stream: they are a StreamWrapper, or say which executor is theirs")
    }

    @Test func `every requirement of a stream is passed on by wrappers, and looked for`() throws {
        let requirements = try SourceText.requirements(of: "ByteStream", in: "KithAPI/ByteStream.swift")
        #expect(requirements.count == WrappedStream.Requirement.allCases.count)
        for (file, head) in [
            ("KithAPI/StreamWrapper.swift", "extension StreamWrapper {"),
            ("KithAPI/OpeningStream.swift", "class OpeningStream<Output: Sendable>: ByteStream {"),
            ("KithTesting/WrappedStream.swift", "class WrappedStream: ByteStream {"),
        ] {
            let missing = try SourceText.missing(requirements, from: head, in: file)
            #expect(missing == [], "\(head) leaves these to the default, which loses what is beneath")
        }
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
