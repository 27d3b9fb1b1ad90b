#if Video && os(Linux)
import KithAPI
import KithPixels
import KithTesting
import KithWire
import Synchronization
import Testing

@testable import KithScreen
@testable import KithVideo

@Suite("Video, from the host to the viewer", .timeLimit(.minutes(8)))
struct VideoSessionTests {
    private static let film = PixelRectangle(x: 70, y: 10, width: 180, height: 100)
    private static let text = PixelRectangle(x: 0, y: 128, width: 320, height: 60)

    /// Shows a film on a screen, and types below it, until `isEnough`; returns how often the text was exact.
    private func play(
        on source: ScriptedSource, seenBy viewer: ScreenViewer, until isEnough: @escaping @Sendable () -> Bool
    ) async throws -> Int {
        var film = Film(
            width: Self.film.width, height: Self.film.height, random: SeededRandom.fromEnvironment())
        var (number, exact) = (0, 0)
        while !isEnough() {
            number += 1
            let pixels = film.picture(number % 60)
            source.fill(x: Self.film.x, y: Self.film.y, width: Self.film.width, height: Self.film.height) { x, y in
                pixels[(y - Self.film.y) * Self.film.width + x - Self.film.x]
            }
            if number % 4 == 0 {
                source.fill(x: number * 5 % 300, y: 140 + number % 3 * 12, width: 9, height: 11) { x, y in
                    (x * 3 ^ y * 5) % 4 == 0 ? 0xEEEEEE : 0x102030
                }
                // The next letter is not typed before this one is seen.
                try await eventually { part(Self.text, of: viewer.colours) == part(Self.text, of: source.pixels) }
                exact += 1
            }
            // Real time: a film has pictures at intervals, and motion is what changes within half a second.
            try await Task.sleep(for: .milliseconds(15))
        }
        return exact
    }

    private func part(_ rectangle: PixelRectangle, of pixels: [UInt32]) -> [UInt32] {
        guard pixels.count == 320 * 200 else { return [] }
        return rectangle.rows.flatMap { y in rectangle.columns.map { pixels[y * 320 + $0] } }
    }

    /// How far two pictures' greens are apart on average, 0…255.
    private func distance(_ one: [UInt32], _ other: [UInt32]) -> Int {
        zip(one, other).reduce(0) { $0 + abs(Int($1.0 >> 8 & 255) - Int($1.1 >> 8 & 255)) } / max(1, one.count)
    }

    @Test("What moves comes as video, text beside it exactly, and all of it exactly once it rests")
    func motion() async throws {
        let stage = try Stage()
        let viewer = ScreenViewer(Client(stage.owner()), of: nil, options: .init())
        let witness = ViewerWitness()
        let run = Task { try await viewer.run { witness.note($0) } }
        let exact = try await play(on: stage.source, seenBy: viewer) { viewer.traffic.frames >= 25 }
        #expect(exact > 0)
        let near = distance(part(Self.film, of: viewer.colours), part(Self.film, of: stage.source.pixels))
        #expect(near < 40, "\(near)")
        try await eventually { viewer.colours == stage.source.pixels && witness.isExact }
        run.cancel()
        _ = await run.result
    }

    @Test("A viewer that does not take video gets none, whatever moves")
    func unaware() async throws {
        let stage = try Stage()
        var options = ScreenViewer.Options()
        options.takesVideo = false
        let viewer = ScreenViewer(Client(stage.owner()), of: nil, options: options)
        let run = Task { try await viewer.run { _ in } }
        _ = try await play(on: stage.source, seenBy: viewer) { viewer.traffic.pictures >= 30 }
        try await eventually { viewer.colours == stage.source.pixels }
        #expect(viewer.traffic.frames == 0)
        run.cancel()
        _ = await run.result
    }

    /// What the host sends to a viewer that is written here, while a film is shown.
    private func watch(
        _ handle: @escaping @Sendable (ScreenUpdate, MethodStream<ScreenUpdate, ScreenReply>) async throws -> Bool
    ) async throws {
        let stage = try Stage()
        let opened = try await Client(stage.owner()).open(Screen.View.self, .init(takesVideo: true))
        let isDone = Mutex(false)
        let playing = Task {
            var film = Film(width: 320, height: 200, random: SeededRandom.fromEnvironment())
            var number = 0
            while !isDone.withLock({ $0 }) {
                number += 1
                let pixels = film.picture(number % 60)
                stage.source.fill(x: 0, y: 0, width: 320, height: 200) { x, y in pixels[y * 320 + x] }
                // Real time: a film has pictures at intervals.
                try await Task.sleep(for: .milliseconds(15))
            }
        }
        defer { playing.cancel() }
        while let update = try await opened.stream.receive() {
            if case .picture(let picture) = update, !picture.continues {
                try await opened.stream.send(.received(number: picture.number, first: 0, last: 0))
            }
            if case .video(let part) = update, part.layout != nil {
                try await opened.stream.send(.received(number: part.number, first: 0, last: 0))
            }
            if try await handle(update, opened.stream) { break }
        }
        isDone.withLock { $0 = true }
        opened.stream.abort(.cancelled)
    }

    @Test("A key frame is sent to a viewer that asks for one, and no video to one that wants no more")
    func requests() async throws {
        let keys = Mutex<[Bool]>([])
        let stopped = Mutex(false)
        let after = Mutex(0)
        try await watch { update, stream in
            switch update {
            case .video(let part):
                guard let layout = part.layout else { return false }
                #expect(!stopped.withLock { $0 } || after.withLock { $0 } == 0, "no video comes after an exact picture")
                keys.withLock { $0.append((try? VideoLayout(layout.bytes))?.isKey ?? false) }
                let seen = keys.withLock { $0 }
                if seen.count == 5 { try await stream.send(.keyFrame) }
                if seen.count > 5, seen[5...].contains(true), !stopped.withLock({ $0 }) {
                    stopped.withLock { $0 = true }
                    try await stream.send(.exactOnly)
                }
            case .picture(let picture):
                // A stream that begins anew.
                if stopped.withLock({ $0 }), picture.isExact, !picture.continues { after.withLock { $0 += 1 } }
            default: break
            }
            return after.withLock { $0 } >= 10
        }
        let seen = keys.withLock { $0 }
        #expect(seen.first == true)
        #expect(seen.filter { $0 }.count >= 2 && seen.contains(false))
    }

    @Test("On a screen that has become smaller no picture reaches beyond it")
    func smaller() {
        var sender = VideoSender(VideoWorker {}, quality: 80)
        let (wide, tall) = (
            PixelRectangle(x: 0, y: 0, width: 320, height: 200), PixelRectangle(x: 0, y: 0, width: 200, height: 300)
        )
        let now = ContinuousClock.now
        #expect(sender.place(around: [wide], at: now) == wide)
        sender.startAnew()
        #expect(sender.place(around: [tall], at: now) == tall)
    }

    @Test("The bytes of a frame follow the quality, twice as many each twenty steps")
    func quality() {
        let screen = 1_920 * 1_080
        for (quality, bytes) in [(80, 40_000.0), (100, 80_000), (60, 20_000), (20, 5_000)] as [(UInt8, Double)] {
            #expect(abs(VideoSender.frameBytes(area: screen, quality: quality) - bytes) < 1)
        }
        #expect(VideoSender.frameBytes(area: screen / 4, quality: 80) == 10_000)
        // A sixteenth of the rate that is wanted: a quarter of the bytes, and of the frames.
        func bytes(_ rate: Double) -> Double {
            VideoSender.frameBytes(area: screen, quality: 80, rate: rate, every: .milliseconds(20))
        }
        #expect(bytes(2_000_000) == 40_000 && bytes(9_000_000) == 40_000 && bytes(125_000) == 10_000)
    }

    @Test("The coded picture grows with what moves, and is cut down when it was too large for two seconds")
    func picture() {
        var picture = VideoPicture()
        let start = ContinuousClock.now
        let left = PixelRectangle(x: 64, y: 64, width: 64, height: 64)
        let right = PixelRectangle(x: 256, y: 64, width: 65, height: 64)
        let both = PixelRectangle(x: 64, y: 64, width: 258, height: 64)
        #expect(picture.place(around: [left], at: start) == left)
        #expect(picture.place(around: [right], at: start + .milliseconds(100)) == both)
        #expect(picture.place(around: [left, right], at: start + .seconds(1)) == both)
        #expect(picture.place(around: [left], at: start + .milliseconds(2_900)) == both)
        #expect(picture.place(around: [left], at: start + .milliseconds(3_100)) == left)
        // What has moved elsewhere long ago does not matter.
        let even = PixelRectangle(x: 256, y: 64, width: 66, height: 64)
        #expect(picture.place(around: [right], at: start + .seconds(9)) == even)
        #expect(
            picture.place(around: [PixelRectangle(x: 320, y: 0, width: 1, height: 1)], at: start + .seconds(12))
                == PixelRectangle(x: 320, y: 0, width: 16, height: 16))
        #expect(
            picture.place(around: [PixelRectangle(x: 0, y: 0, width: 5_000, height: 64)], at: start + .seconds(15))
                == nil)
    }

    // MARK: - A hostile host

    private static let screen = PixelSize(width: 320, height: 200)

    private func refusal(of part: ScreenUpdate.Video, decoder: (any VideoDecoder)? = VideoCodec.decoder()) -> KithError?
    {
        var receiver = VideoReceiver(decoder)
        do throws(KithError) {
            _ = try receiver.received(part, on: Self.screen, at: 0)
            return nil
        } catch {
            return error
        }
    }

    private func part(_ layout: VideoLayout, _ bytes: [UInt8] = [], number: UInt64 = 1) -> ScreenUpdate.Video {
        ScreenUpdate.Video(number: number, captured: 0, bytes: ByteString(bytes), layout: ByteString(layout.bytes))
    }

    @Test("Video outside the screen, too large or not asked for ends the session")
    func outside() {
        let whole = VideoLayout(isKey: true, picture: Self.screen.bounds, regions: [Self.screen.bounds])
        #expect(refusal(of: part(whole)) == nil)
        #expect(refusal(of: part(whole), decoder: nil)?.code == .invalid)
        let huge = PixelRectangle(x: 0, y: 0, width: 65_534, height: 65_534)
        let outside = PixelRectangle(x: 300, y: 0, width: 64, height: 64)
        for picture in [huge, outside] {
            let layout = VideoLayout(isKey: true, picture: picture, regions: [])
            #expect(refusal(of: part(layout))?.code == .invalid)
        }
        let beyond = VideoLayout(
            isKey: true, picture: PixelRectangle(x: 256, y: 0, width: 66, height: 64),
            regions: [PixelRectangle(x: 0, y: 0, width: 66, height: 64)])
        #expect(refusal(of: part(beyond))?.code == .invalid)
        let nonsense = ScreenUpdate.Video(
            number: 1, captured: 0, bytes: ByteString([]), layout: ByteString([9, 9, 9]))
        #expect(refusal(of: nonsense)?.code == .invalid)
    }

    @Test("Parts without an end are bounded, and those of a frame that was given up are forgotten")
    func parts() throws {
        var receiver = VideoReceiver(VideoCodec.decoder())
        let megabyte = ScreenUpdate.Video(
            number: 1, captured: 0, bytes: ByteString([UInt8](repeating: 0, count: 1 << 20)))
        for _ in 0..<4 { #expect(try receiver.received(megabyte, on: Self.screen, at: 0) == nil) }
        #expect(throws: KithError(.invalid, "")) { try receiver.received(megabyte, on: Self.screen, at: 0) }
        var next = megabyte
        next.number = 2
        #expect(try receiver.received(next, on: Self.screen, at: 0) == nil)
    }

    @Test("A frame that cannot be decoded is asked for again, once; after three key frames, no more video is wanted")
    func undecodable() throws {
        var receiver = VideoReceiver(VideoCodec.decoder())
        let place = PixelRectangle(x: 64, y: 64, width: 128, height: 128)
        let encoder = try #require(VideoCodec.encoder())
        var film = Film(width: place.width, height: place.height, random: SeededRandom.fromEnvironment())
        var number: UInt64 = 0
        func send(_ bytes: [UInt8], isKey: Bool) throws -> VideoReceiver.Frame {
            number += 1
            let layout = VideoLayout(isKey: isKey, picture: place, regions: [place.size.bounds])
            return try #require(
                try receiver.received(part(layout, bytes, number: number), on: Self.screen, at: number))
        }
        func frame() throws -> [UInt8] {
            try encoder.encode(PlanarBuffer.planes(of: film.picture(Int(number % 60)), size: place.size)).bytes
        }
        let first = try frame()
        #expect(try send(first, isKey: true).layout != nil)
        // One is lost, as it would be by a fault of ours: the next refers to it, and is damaged.
        _ = try frame()
        let damaged = try send(Array(try frame().prefix(20)), isKey: false)
        #expect(damaged.layout == nil && damaged.request == .keyFrame)
        #expect(try send(try frame(), isKey: false).request == .keyFrame, "until it is said")
        receiver.requested()
        #expect(try send(try frame(), isKey: false).request == nil)
        encoder.requestKeyFrame()
        let key = try send(try frame(), isKey: true)
        #expect(key.layout != nil && key.request == nil)
        #expect(try send(try frame(), isKey: false).layout != nil)
        for attempt in 1...3 {
            let answer = try send([0, 0, 1, 0x67, 0x42, 0xC0, 0x15, UInt8(attempt)], isKey: true)
            #expect(answer.layout == nil && answer.request == (attempt < 3 ? .keyFrame : .exactOnly))
            receiver.requested()
        }
        encoder.requestKeyFrame()
        #expect(try send(try frame(), isKey: true).layout == nil)
    }

    @Test("A picture larger than the codec takes is not even allocated")
    func huge() throws {
        var receiver = VideoReceiver(VideoCodec.decoder())
        let screen = PixelSize(width: 8_192, height: 4_096)
        let layout = VideoLayout(isKey: true, picture: screen.bounds, regions: [])
        let frame = try #require(try receiver.received(part(layout, [0, 0, 1, 0x67, 1, 1]), on: screen, at: 0))
        #expect(frame.layout == nil && frame.request == .keyFrame && receiver.planes.size.area == 0)
    }
}
#endif
