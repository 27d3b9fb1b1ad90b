import KithAPI
import KithIO
import KithNet
import KithWire
import Testing

/// The ends of a stream that carries one question and one answer.
@Suite struct CallStreamTests {
    @Test func `the asking end is finished when the answer is`() async throws {
        try await withPair { pair in
            let near = try await pair.outgoing.openStream()
            near.finishWithInput()
            try await near.write([1])
            let far = try await next(pair.incoming.incomingStreams)
            #expect(try await far.read(upTo: 8) == [1])
            try await far.finish(writing: [2])
            #expect(try await near.readAll() == [2])
            #expect(try await far.read(upTo: 8) == nil)
            try await near.finish()
            try await near.flushed()
            await #expect(throws: KithError(.invalid, "")) { try await near.write([3]) }
        }
    }

    @Test func `an answering end that is let go stops nobody who finishes`() async throws {
        try await withPair { pair in
            var (near, far): (QUICStream, QUICStream?) = try await pair.stream()
            far?.expectInputEnd()
            try await far?.finish(writing: [1])
            far = nil
            #expect(try await near.readAll() == [1])
            try await near.finish()
            try await near.flushed()
            await pair.incoming.drain(deadline: .seconds(60))
        }
    }

    @Test func `an answering end that is let go stops whoever goes on`() async throws {
        try await withPair { pair in
            var (near, far): (QUICStream, QUICStream?) = try await pair.stream()
            far?.expectInputEnd()
            try await far?.finish(writing: [1])
            far = nil
            #expect(try await near.readAll() == [1])
            await #expect(throws: KithError(.cancelled, "")) {
                while true { try await near.write([UInt8](repeating: 0, count: 64 << 10)) }
            }
        }
    }

    @Test func `an answering end that leaves bytes behind stops at once`() async throws {
        try await withPair { pair in
            var (near, far): (QUICStream, QUICStream?) = try await pair.stream()
            try await near.write([2])
            let held = try #require(far)
            #expect(try await held.read(upTo: 1) == [2])
            held.expectInputEnd()
            far = nil
            _ = consume held
            // Without an answer it is broken off, whatever was expected.
            await #expect(throws: KithError(.cancelled, "")) { try await near.readAll() }
            try await near.stopped()
        }
    }

    @Test func `whoever watches hears once that the other end broke it off`() async throws {
        try await withPair { pair in
            let (near, far) = try await pair.stream()
            let heard = Promise<KithError>()
            far.whenInputFails { #expect(heard.fulfil($0)) }
            near.abort(.denied)
            #expect(await heard.value().code == .denied)
            // It is known already now.
            let again = Promise<KithError>()
            far.whenInputFails { again.fulfil($0) }
            #expect(await again.value().code == .denied)
        }
    }

    @Test func `whoever has stopped watching hears nothing`() async throws {
        try await withPair { pair in
            let (near, far) = try await pair.stream()
            far.whenInputFails { _ in Issue.record("it was taken back") }
            far.whenInputFails(nil)
            near.abort(.denied)
            await #expect(throws: KithError(.denied, "")) { try await far.read(upTo: 1) }
        }
    }
}
