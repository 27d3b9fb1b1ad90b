#if Video && os(Linux)
import Foundation
import KithPixels
import KithTesting
import Testing

@testable import KithVideo

@Suite struct VideoCodecTests {
    private static let size = PixelSize(width: 640, height: 352)

    /// Frames of a film, and the planes that they were made of.
    private static func filmed(
        _ count: Int, size: PixelSize = size, _ prepare: (any VideoEncoder, Int) -> Void = { _, _ in }
    ) throws -> (frames: [VideoFrame], planes: [[UInt8]]) {
        let encoder = try #require(VideoCodec.encoder())
        var film = Film(width: size.width, height: size.height, random: SeededRandom.fromEnvironment())
        var (frames, planes): ([VideoFrame], [[UInt8]]) = ([], [])
        for number in 0..<count {
            let picture = PlanarBuffer.planes(of: film.picture(number), size: size)
            prepare(encoder, number)
            frames.append(try encoder.encode(picture))
            planes.append(picture.bytes)
        }
        return (frames, planes)
    }

    private static func decoded(_ frames: [VideoFrame], size: PixelSize = size) throws -> [[UInt8]] {
        let decoder = try #require(VideoCodec.decoder())
        var planes = PlanarBuffer(size: size)
        var pictures: [[UInt8]] = []
        for frame in frames {
            try decoder.decode(frame.bytes, into: &planes)
            pictures.append(planes.bytes)
        }
        return pictures
    }

    /// How near the luma of two pictures is, in decibels.
    private static func nearness(_ one: [UInt8], _ other: [UInt8], size: PixelSize = size) -> Double {
        var squares = 0
        for index in 0..<size.area {
            let difference = Int(one[index]) - Int(other[index])
            squares += difference * difference
        }
        return 10 * log10(255 * 255 * Double(size.area) / Double(max(1, squares)))
    }

    @Test func `a film is within 35 dB of its pictures at the bytes that 40 kB of a large screen's are here`() throws {
        let share = Self.size.area * 40_000 / (1_920 * 1_080)
        let (frames, planes) = try Self.filmed(24) { encoder, _ in encoder.frameBytes = share }
        let pictures = try Self.decoded(frames)
        #expect(frames.first?.isKey == true && frames.dropFirst().allSatisfy { !$0.isKey })
        let bytes = frames.dropFirst().reduce(0) { $0 + $1.bytes.count }
        #expect(bytes <= 23 * share * 11 / 10, "\(bytes / 23) bytes a frame")
        for (picture, original) in zip(pictures, planes) {
            let nearness = Self.nearness(picture, original)
            #expect(nearness >= 35, "\(nearness) dB")
        }
    }

    @Test(.enabled(if: ffmpeg != nil, "ffmpeg is not installed: scripts/bootstrap --test does that"))
    func `another decoder makes the same pictures, bit for bit`() throws {
        let program = try #require(Self.ffmpeg)
        let folder = try TemporaryFolder()
        let frames = try Self.filmed(20) { encoder, number in
            if number == 9 { encoder.requestKeyFrame() }
        }.frames
        try folder.write(frames.flatMap(\.bytes), to: "film.h264")
        let decoding = try ChildProcess(
            program,
            [
                "-v", "error", "-f", "h264", "-i", "\(folder.path)/film.h264", "-fps_mode", "passthrough", "-f",
                "rawvideo",
                "-pix_fmt", "yuv420p", "\(folder.path)/film.yuv",
            ], errors: .inherited)
        #expect(decoding.waitUntilExit() == 0)
        let others = try folder.bytes("film.yuv")
        let ours = try Self.decoded(frames)
        #expect(others.count == ours.count * PlanarBuffer.byteCount(of: Self.size))
        #expect(others == ours.flatMap { $0 })
    }

    @Test(
        .enabled(if: ffmpeg != nil, "ffmpeg is not installed: scripts/bootstrap --test does that"),
        arguments: [(64, 64), (1_282, 18), (16, 16), (130, 98)])
    func `pictures of every even size are coded, and another decoder cuts them as we do`(
        width: Int, height: Int
    ) throws {
        let size = PixelSize(width: width, height: height)
        let frames = try Self.filmed(3, size: size).frames
        let folder = try TemporaryFolder()
        try folder.write(frames.flatMap(\.bytes), to: "film.h264")
        let decoding = try ChildProcess(
            try #require(Self.ffmpeg),
            [
                "-v", "error", "-f", "h264", "-i", "\(folder.path)/film.h264", "-fps_mode", "passthrough", "-f",
                "rawvideo",
                "-pix_fmt", "yuv420p", "\(folder.path)/film.yuv",
            ], errors: .inherited)
        #expect(decoding.waitUntilExit() == 0)
        #expect(try folder.bytes("film.yuv") == Self.decoded(frames, size: size).flatMap { $0 })
    }

    private static let ffmpeg: String? = {
        let path = "/usr/bin/ffmpeg"
        return FileManager.default.isExecutableFile(atPath: path) ? path : nil
    }()

    @Test func `a key frame comes when it is asked for, and when the size changes, and is enough to begin with`() throws
    {
        let (frames, _) = try Self.filmed(8) { encoder, number in
            if number == 5 { encoder.requestKeyFrame() }
        }
        #expect(frames.map(\.isKey) == [true, false, false, false, false, true, false, false])
        #expect(try Self.decoded(Array(frames[5...])) == Array(try Self.decoded(frames)[5...]))

        let encoder = try #require(VideoCodec.encoder())
        for (side, isKey) in [(64, true), (64, false), (96, true), (96, false), (64, true)] {
            let size = PixelSize(width: side, height: 64)
            var film = Film(width: size.width, height: size.height, random: SeededRandom.fromEnvironment())
            #expect(try encoder.encode(PlanarBuffer.planes(of: film.picture(side % 60), size: size)).isKey == isKey)
        }
    }

    @Test func `frames are as large as they are asked to be`() throws {
        var sizes: [Int] = []
        for bytes in [1_500, 6_000] {
            let (frames, _) = try Self.filmed(24) { encoder, _ in encoder.frameBytes = bytes }
            sizes.append(frames.dropFirst(4).reduce(0) { $0 + $1.bytes.count } / 20)
        }
        #expect(sizes[0] < 2_500 && sizes[1] > 2 * sizes[0], "\(sizes)")
    }

    // MARK: - What a hostile host sends

    private static func refusal(_ frame: [UInt8], size: PixelSize = size) -> VideoError? {
        let decoder = VideoCodec.decoder()
        var planes = PlanarBuffer(size: size)
        do throws(VideoError) {
            try decoder?.decode(frame, into: &planes)
            return nil
        } catch {
            return error
        }
    }

    @Test func `a picture of another size than was agreed is refused before it is decoded`() throws {
        let frame = try #require(try Self.filmed(1).frames.first).bytes
        #expect(Self.refusal(frame) == nil)
        for (width, height) in [(640, 350), (642, 352), (1_280, 352), (640, 16)] {
            #expect(Self.refusal(frame, size: PixelSize(width: width, height: height)) == .wrongSize)
        }
        #expect(Self.refusal(frame, size: PixelSize(width: 8_192, height: 8_192)) == .unsupportedSize)
    }

    @Test func `a frame without those it refers to is refused, and so is all that follows a damaged one`() throws {
        let frames = try Self.filmed(6).frames.map(\.bytes)
        #expect(Self.refusal(frames[1]) == .needsKeyFrame)
        let decoder = try #require(VideoCodec.decoder())
        var planes = PlanarBuffer(size: Self.size)
        try decoder.decode(frames[0], into: &planes)
        #expect(throws: VideoError.self) { try decoder.decode(Array(frames[1].prefix(40)), into: &planes) }
        #expect(throws: VideoError.needsKeyFrame) { try decoder.decode(frames[2], into: &planes) }
        try decoder.decode(frames[0], into: &planes)
        try decoder.decode(frames[1], into: &planes)
    }

    @Test func `units that are not a frame's are refused`() throws {
        let frames = try Self.filmed(2).frames.map(\.bytes)
        let start: [UInt8] = [0, 0, 0, 1]
        // Its parameter sets end where its third unit begins.
        let key = frames[0]
        let starts = key.indices.dropLast(4).filter { Array(key[$0..<$0 + 4]) == start }
        let (sequence, picture, slice) = (
            Array(key[starts[0]..<starts[1]]), Array(key[starts[1]..<starts[2]]), Array(key[starts[2]...])
        )
        #expect(Self.refusal(sequence + picture + slice) == nil)
        for wrong in [
            [], [7], start, start + [0x67], sequence + picture, slice, sequence + slice, picture + sequence + slice,
            sequence + sequence + picture + slice, sequence + picture + frames[1], frames[1] + key,
            sequence + picture + start + [0x6E, 1, 2, 3] + slice, [9] + key,
            start + [0x67, 0x64, 0, 0x1F] + sequence[8...] + picture + slice,
        ] {
            let refusal = Self.refusal(wrong)
            guard case .malformed? = refusal else {
                Issue.record("\(wrong.prefix(20)) is answered with \(String(describing: refusal))")
                continue
            }
        }
    }

    @Test func `whatever bits are turned over in a film, the decoder answers, and its memory stays bounded`() throws {
        var random = SeededRandom.fromEnvironment()
        let size = PixelSize(width: 128, height: 96)
        let frames = try Self.filmed(4, size: size).frames.map(\.bytes)
        let decoder = try #require(VideoCodec.decoder())
        var planes = PlanarBuffer(size: size)
        var refusals = 0
        let before = try memory()
        for _ in 0..<3_000 {
            var frame = try #require(frames.randomElement(using: &random))
            for _ in 0..<Int.random(in: 0...6, using: &random) {
                frame[Int.random(in: 0..<frame.count, using: &random)] ^= 1 << UInt8.random(in: 0...7, using: &random)
            }
            do throws(VideoError) {
                try decoder.decode(frame, into: &planes)
            } catch {
                refusals += 1
            }
        }
        #expect(refusals > 500 && refusals < 3_000, "\(random)")
        // In pages of 4 KiB; a decoder of this size takes less than two megabytes.
        #expect(try memory() - before < 16_384)
    }

    /// The pages of this process's own memory.
    private func memory() throws -> Int {
        let text = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8)
        return try #require(Int(text.split(separator: " ")[5]))
    }
}
#endif
