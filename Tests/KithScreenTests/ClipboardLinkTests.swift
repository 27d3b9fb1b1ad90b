import KithAPI
import KithTesting
import KithWire
import Synchronization
import Testing

@testable import KithScreen

@Suite("Clipboards", .timeLimit(.minutes(8)))
struct ClipboardLinkTests {
    /// A viewer in a session with clipboards, which notes what it is offered.
    private final class Desk: Sendable {
        private struct State {
            var formats: [ScreenClipboard.Format] = []
            var content: (@Sendable (ScreenClipboard.Format) async throws -> [UInt8])?
        }
        private let state = Mutex(State())
        let mine = Locked<[ScreenClipboard.Format: [UInt8]]>([:])
        let reads = Locked(0)

        var formats: [ScreenClipboard.Format] { state.withLock { $0.formats } }

        func paste(_ format: ScreenClipboard.Format) async throws -> [UInt8] {
            guard let content = state.withLock({ $0.content }) else { throw KithError(.notFound, "nothing is offered") }
            return try await content(format)
        }

        var local: ClipboardLink.Local {
            ClipboardLink.Local(
                read: { _, format in
                    self.reads.set(self.reads.value + 1)
                    guard let bytes = self.mine.value[format] else { throw KithError(.notFound, "not in that format") }
                    return bytes
                },
                announce: { _, formats, content in
                    self.state.withLock { state in
                        state.formats = formats
                        state.content = content
                    }
                })
        }
    }

    private func exchanging(
        _ body: @escaping @Sendable (Stage, ScreenViewer, Desk) async throws -> Void
    ) async throws {
        let (stage, desk) = (try Stage(.init(consent: .unattended)), Desk())
        var options = ScreenViewer.Options()
        options.wants.clipboard = true
        let viewer = ScreenViewer(Client(stage.carrier()), of: nil, options: options, clipboard: desk.local)
        let witness = ViewerWitness()
        try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                try await viewer.run { witness.note($0) }
                return false
            }
            group.addTask {
                try await eventually { witness.opened != nil }
                try await body(stage, viewer, desk)
                return true
            }
            defer { group.cancelAll() }
            while let isDone = try await group.next(), !isDone {}
        }
    }

    @Test(
        "What is copied on one end is pasted at the other, and read only then", arguments: [0, 11, 65_536, 5_000_000])
    func bothWays(count: Int) async throws {
        try await exchanging { stage, viewer, desk in
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31) }
            try await eventually {
                // Before the exchange has begun nobody is offered anything.
                stage.source.copy([.html: []])
                return desk.formats == [.html]
            }
            stage.source.copy([.text: bytes, .png: [1, 2, 3]])
            try await eventually { desk.formats == [.png, .text] }
            #expect(stage.source.clipboardReads == 0)
            #expect(try await desk.paste(.text) == bytes)
            desk.mine.set([.html: bytes])
            viewer.offerClipboard(.clipboard, [.html])
            try await eventually { stage.source.offered == [.html] }
            #expect(desk.reads.value == 0)
            #expect(try await stage.source.paste(.html) == bytes)
            await #expect(throws: KithError.self) { _ = try await stage.source.paste(.text) }
        }
    }

    @Test("More than 10 MB are refused, and nothing of them travels")
    func large() async throws {
        try await exchanging { stage, _, desk in
            try await eventually {
                stage.source.copy([.html: []])
                return desk.formats == [.html]
            }
            stage.source.copy([.text: [UInt8](repeating: 7, count: ScreenClipboard.contentLimit + 1)])
            try await eventually { desk.formats == [.text] }
            await #expect(throws: KithError.self) { _ = try await desk.paste(.text) }
            stage.source.copy([.text: [7]])
            try await eventually { (try? await desk.paste(.text)) == [7] }
        }
    }

    @Test("A host cannot read a viewer's clipboard that was not offered")
    func unasked() async throws {
        let desk = Desk()
        desk.mine.set([.text: Array("secret".utf8)])
        let pipe = KithAPI.Pipe()
        let link = ClipboardLink(desk.local)
        let run = Task { try await link.run(over: MethodStream(pipe.left)) }
        let host = MethodStream<ScreenClipboard, ScreenClipboard>(pipe.right)
        for change in [0, 1, 2, .max] as [UInt64] { try await host.send(.request(change: change, format: .text)) }
        for _ in 0..<4 {
            guard case .refused = try await host.receive() else {
                Issue.record("a request that nothing was offered for is answered")
                return
            }
        }
        // Content that was not asked for is of no effect.
        try await host.send(.content(change: 9, format: .text, bytes: ByteString([1]), isLast: true))
        try await host.finish()
        try await run.value
        #expect(desk.reads.value == 0)
    }
}
