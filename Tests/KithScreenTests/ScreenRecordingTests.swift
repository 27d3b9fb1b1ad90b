#if Video && os(Linux)
import KithAPI
import KithIO
import KithIdentity
import KithNode
import KithPixels
import KithTesting
import KithWire
import Testing

@testable import KithScreen

/// A session that is recorded, read by another program.
@Suite(.enabled(if: FFmpeg.isInstalled), .timeLimit(.minutes(8))) struct ScreenRecordingTests {
    private static let grants: [Grant] = Stage.all + [.screen(.record)]

    /// A red pointer.
    private static let square = CursorImage(
        width: 8, height: 8, hotX: 0, hotY: 0, pixels: (0..<64).flatMap { _ in [0, 0, 255, 255] as [UInt8] })

    /// Shows a session nowhere and records it, until `body` is done.
    private func recording(
        _ client: Client, _ path: String, _ body: @escaping @Sendable (ScreenViewer) async throws -> Void
    ) async throws -> ScreenRecorder.Summary {
        let recorder = try ScreenRecorder(.init(path: path, title: "A test"))
        var options = ScreenViewer.Options()
        options.wants.record = true
        let viewer = ScreenViewer(client, of: nil, options: options)
        try await viewer.show(on: RecordingDisplay(Body(viewer: viewer, body: body), by: recorder) { _ in })
        if let failure = recorder.failure { throw failure }
        return recorder.summary
    }

    /// A person who leaves when `body` is done.
    private struct Body: ScreenDisplay {
        let viewer: ScreenViewer
        let body: @Sendable (ScreenViewer) async throws -> Void

        func handle(_ event: ScreenViewer.Event, of viewer: ScreenViewer) async throws {}
        func phaseChanged(_ phase: SessionState.Phase) async {}
        func run(_ viewer: ScreenViewer) async throws { try await body(viewer) }
    }

    /// The luma of the last picture of a file, row by row.
    private func lastLuma(_ path: String, _ size: PixelSize) throws -> [UInt8] {
        let bytes = try FFmpeg.pictures(path)
        let count = PlanarBuffer.byteCount(of: size)
        try #require(!bytes.isEmpty && bytes.count % count == 0)
        return Array(bytes.suffix(count).prefix(size.area))
    }

    @Test func `what is seen is recorded, the pointer too, and the last picture is near what was seen`() async throws {
        let stage = try Stage(.init(consent: .unattended))
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/lesson.mkv"
        let client = Client(stage.carrier(Stage.foreign, Self.grants))
        let summary = try await recording(client, path) { viewer in
            try await eventually { viewer.colours == stage.source.pixels }
            stage.source.fill(x: 100, y: 40, width: 60, height: 50) { _, _ in 0xFFFF_FFFF }
            stage.source.change(.cursor(Self.square))
            stage.source.change(.pointer(x: 200, y: 100))
            try await eventually { viewer.colours == stage.source.pixels && viewer.pointer.position?.x == 200 }
            // Real time: what rests is written four times more, at thirty a second.
            try await Task.sleep(for: .milliseconds(400))
        }
        #expect(summary.files == [path] && summary.pictures >= 2)
        #expect(summary.bytes == UInt64(try folder.bytes("lesson.mkv").count))
        #expect(try folder.mode(of: "lesson.mkv") == 0o600)
        let luma = try lastLuma(path, PixelSize(width: 320, height: 200))
        // White, the ground, and red, in the limited range.
        for (x, y, value) in [(130, 60, 235), (20, 20, 56), (203, 103, 63)] {
            #expect(abs(Int(luma[y * 320 + x]) - value) <= 4, "at \(x), \(y): \(luma[y * 320 + x])")
        }
        #expect(try FFmpeg.probe(path).packets.count == summary.pictures)
    }

    @Test func `without the grant nobody is asked, and there is no file`() async throws {
        let stage = try Stage()
        let folder = try TemporaryFolder()
        await #expect {
            _ = try await recording(Client(stage.carrier(Stage.foreign, Stage.all)), "\(folder.path)/lesson.mkv") { _ in
                try await untilCancelled()
            }
        } throws: {
            ($0 as? KithError)?.code == .denied
        }
        #expect(try folder.files() == [] && stage.source.notices.isEmpty)
    }

    @Test func `a person is asked about it, may refuse that alone, and may end it later`() async throws {
        let stage = try Stage()
        let owner = Client(stage.owner())
        let folder = try TemporaryFolder()
        let client = Client(stage.carrier(Stage.foreign, Self.grants))
        let asking = Task {
            try await recording(client, "\(folder.path)/one.mkv") { _ in try await untilCancelled() }
        }
        try await eventually { stage.source.notices.count == 1 }
        guard case .waiting(let id, _, let wanted)? = stage.source.notices.first else {
            Issue.record("nobody is asked")
            return
        }
        #expect(wanted.record == true)
        _ = try await owner.call(ScreenSessions.Decide.self, .init(session: id, permissions: .init()))
        await #expect { _ = try await asking.value } throws: { ($0 as? KithError)?.code == .denied }

        _ = try await owner.call(ScreenSessions.SetRules.self, .init(consent: .unattended))
        let path = "\(folder.path)/two.mkv"
        let summary = try await recording(client, path) { viewer in
            try await eventually { viewer.colours == stage.source.pixels }
            let session = try #require(viewer.session)
            #expect(session.permissions.record == true)
            // Real time: the first picture, as sharp as it becomes.
            try await Task.sleep(for: .milliseconds(400))
            _ = try await owner.call(
                ScreenSessions.Change.self, .init(session: session.session, permissions: .init(record: false)))
            try await eventually { viewer.session?.permissions.record != true }
            stage.source.fill(x: 0, y: 0, width: 320, height: 200) { _, _ in 0xFFFF_FFFF }
            try await eventually { viewer.colours == stage.source.pixels }
            // Real time: the same again.
            try await Task.sleep(for: .milliseconds(400))
        }
        #expect(summary.files == [path])
        let luma = try lastLuma(path, PixelSize(width: 320, height: 200))
        #expect(luma.allSatisfy { $0 < 80 })
    }

    @Test func `a grant that is taken away pauses a recording, and its owner cannot give that back by mistake`()
        async throws
    {
        let stage = try Stage(.init(consent: .unattended))
        let owner = Client(stage.owner())
        let folder = try TemporaryFolder()
        let client = Client(stage.carrier(Stage.foreign, Self.grants))
        _ = try await recording(client, "\(folder.path)/lesson.mkv") { viewer in
            try await eventually { viewer.session?.permissions.record == true }
            let session = try #require(viewer.session).session
            stage.service.grantsChanged(for: Stage.foreign, to: Stage.all)
            try await eventually { viewer.session?.permissions.record != true }
            let answer = try await owner.call(
                ScreenSessions.Change.self, .init(session: session, permissions: .init(control: true, record: true)))
            #expect(answer.permissions.record != true)
            // With the grant it is theirs to give again.
            stage.service.grantsChanged(for: Stage.foreign, to: Self.grants)
            #expect(
                try await owner.call(ScreenSessions.List.self, Nothing()).sessions.first?.permissions.record != true)
            _ = try await owner.call(
                ScreenSessions.Change.self, .init(session: session, permissions: .init(record: true)))
            try await eventually { viewer.session?.permissions.record == true }
        }
    }

    @Test func `who waits for an answer with a grant that is taken away meanwhile is refused`() async throws {
        let stage = try Stage()
        let folder = try TemporaryFolder()
        let client = Client(stage.carrier(Stage.foreign, Self.grants))
        let asking = Task {
            try await recording(client, "\(folder.path)/lesson.mkv") { _ in try await untilCancelled() }
        }
        try await eventually { stage.source.notices.count == 1 }
        stage.service.grantsChanged(for: Stage.foreign, to: Stage.all)
        await #expect { _ = try await asking.value } throws: {
            // At once, and not when the time to answer is up.
            ($0 as? KithError)?.message == "The person at the other screen refused."
        }
        try await eventually { stage.source.notices.isEmpty }
    }

    @Test func `a session that is shown nowhere ends with its recording`() async throws {
        let stage = try Stage(.init(consent: .unattended))
        let folder = try TemporaryFolder()
        stage.source.resize(width: 12, height: 12)
        var options = ScreenViewer.Options()
        options.wants.record = true
        let viewer = ScreenViewer(
            Client(stage.carrier(Stage.foreign, Self.grants)), of: nil, options: options)
        let recorder = try ScreenRecorder(.init(path: "\(folder.path)/lesson.mkv", title: "A test"))
        await #expect {
            try await viewer.show(on: RecordingDisplay(NoDisplay(), isShown: false, by: recorder) { _ in })
        } throws: {
            ($0 as? KithError)?.code == .unsupported
        }
        #expect(try folder.files() == [] && recorder.summary.files == [])
    }

    @Test func `a viewer that comes later sees the pointer that nobody has moved since`() async throws {
        let stage = try Stage(.init(consent: .unattended))
        let first = ScreenViewer(Client(stage.carrier(Stage.own)), of: nil, options: .init())
        let second = ScreenViewer(Client(stage.carrier()), of: nil, options: .init())
        let looking = Task { try await first.run { _ in } }
        try await eventually { first.colours == stage.source.pixels }
        stage.source.change(.cursor(Self.square))
        stage.source.change(.pointer(x: 30, y: 20))
        try await eventually { first.pointer.shape != nil && first.pointer.position?.x == 30 }
        let other = Task { try await second.run { _ in } }
        try await eventually { second.pointer.shape != nil && second.pointer.position?.x == 30 }
        for task in [looking, other] {
            task.cancel()
            _ = await task.result
        }
    }

    @Test func `a screen of another size goes on in another file, and an odd size is cut as it was`() async throws {
        let stage = try Stage(.init(consent: .unattended))
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/lesson.mkv"
        try folder.write([1], to: "lesson-2.mkv")
        let client = Client(stage.carrier(Stage.foreign, Self.grants))
        let summary = try await recording(client, path) { viewer in
            try await eventually { viewer.colours == stage.source.pixels }
            // Real time: until it has been written.
            try await Task.sleep(for: .milliseconds(400))
            stage.source.resize(width: 201, height: 151)
            try await eventually { viewer.colours == stage.source.pixels }
            try await eventually { try folder.files().contains("lesson-3.mkv") }
        }
        #expect(summary.files == [path, "\(folder.path)/lesson-3.mkv"])
        #expect(try folder.bytes("lesson-2.mkv") == [1])
        let sizes = try summary.files.map { file in
            try #require(FFmpeg.probe(file).streams.first.map { [$0.width, $0.height] })
        }
        #expect(sizes == [[320, 200], [202, 152]])
    }

    @Test func `a size is taken once it has lasted a second, the first one at once`() {
        let (large, small) = (PixelSize(width: 640, height: 480), PixelSize(width: 320, height: 240))
        let start = ContinuousClock.now
        var size = SettledSize()
        var answers = [size.isSettled(large, at: start)]
        size.take(large)
        // Another one in between begins it anew, and the one it was needs no time.
        for (asked, milliseconds) in [
            (small, 100), (small, 1_000), (large, 1_050), (small, 1_100), (small, 2_099), (small, 2_100),
        ] {
            answers.append(size.isSettled(asked, at: start + .milliseconds(milliseconds)))
        }
        #expect(answers == [true, false, false, true, false, false, true])
    }

    @Test func `a file that is there is not replaced`() throws {
        let folder = try TemporaryFolder()
        try folder.write([1], to: "lesson.mkv")
        #expect {
            _ = try ScreenRecorder(.init(path: "\(folder.path)/lesson.mkv", title: "A test"))
        } throws: { ($0 as? KithError)?.code == .invalid }
        #expect(try folder.bytes("lesson.mkv") == [1])
    }
}
#endif
