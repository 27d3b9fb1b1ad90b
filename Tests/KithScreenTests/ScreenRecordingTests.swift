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

    /// Shows a session nowhere and records it, until `body` is done.
    private func recording(
        _ client: Client, _ path: String, _ body: @escaping @Sendable (ScreenViewer) async throws -> Void
    ) async throws -> ScreenRecorder.Summary {
        let recorder = try ScreenRecorder(.init(path: path, title: "A test"))
        var options = ScreenViewer.Options()
        options.wants.record = true
        let viewer = ScreenViewer(client, of: nil, options: options)
        let display = RecordedDisplay(Body(viewer: viewer, body: body), by: recorder) { _ in }
        try await viewer.show(on: display)
        return try recorder.summary()
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
        let red = CursorImage(
            width: 8, height: 8, hotX: 0, hotY: 0, pixels: (0..<64).flatMap { _ in [0, 0, 255, 255] as [UInt8] })
        let client = Client(stage.carrier(Stage.foreign, Self.grants))
        let summary = try await recording(client, path) { viewer in
            try await eventually { viewer.colours == stage.source.pixels }
            stage.source.fill(x: 100, y: 40, width: 60, height: 50) { _, _ in 0xFFFF_FFFF }
            stage.source.change(.cursor(red))
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

    @Test func `without the grant there is no recording, and no file of it`() async throws {
        let stage = try Stage(.init(consent: .unattended))
        let folder = try TemporaryFolder()
        await #expect {
            _ = try await recording(Client(stage.carrier(Stage.foreign, Stage.all)), "\(folder.path)/lesson.mkv") { _ in
                try await untilCancelled()
            }
        } throws: { ($0 as? KithError)?.code == .denied }
        #expect(try folder.files() == [])
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

    @Test func `a grant that is taken away ends a recording at once`() async throws {
        let stage = try Stage(.init(consent: .unattended))
        let folder = try TemporaryFolder()
        let client = Client(stage.carrier(Stage.foreign, Self.grants))
        _ = try await recording(client, "\(folder.path)/lesson.mkv") { viewer in
            try await eventually { viewer.session?.permissions.record == true }
            stage.service.grantsChanged(for: Stage.foreign, to: Stage.all)
            try await eventually { viewer.session?.permissions.record != true }
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
            // Real time: the same again.
            try await Task.sleep(for: .milliseconds(400))
        }
        #expect(summary.files == [path, "\(folder.path)/lesson-3.mkv"])
        #expect(try folder.bytes("lesson-2.mkv") == [1])
        let sizes = try summary.files.map { file in
            try #require(FFmpeg.probe(file).streams.first.map { [$0.width, $0.height] })
        }
        #expect(sizes == [[320, 200], [202, 152]])
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
