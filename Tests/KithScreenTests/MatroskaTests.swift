#if Video && os(Linux)
import Foundation
import KithPixels
import KithTesting
import Testing

@testable import KithVideo

/// What other programs say of the files that a recording is written into.
@Suite(.enabled(if: FFmpeg.isInstalled)) struct MatroskaTests {
    private static let size = PixelSize(width: 320, height: 176)

    /// A file with a film of `count` pictures, one each 40 ms, as it is before its end and after.
    private static func file(
        _ count: Int, size: PixelSize = size, keys: Set<Int> = [], pause: UInt64 = 0
    ) throws -> (unended: [UInt8], whole: [UInt8], frames: [VideoFrame]) {
        let encoder = try #require(VideoCodec.encoder())
        var film = Film(width: size.width, height: size.height, random: SeededRandom.fromEnvironment())
        var (bytes, frames): ([UInt8], [VideoFrame]) = ([], [])
        var writer: MatroskaWriter?
        func apply(_ output: MatroskaWriter.Output) {
            bytes += output.appended
            for (offset, new) in output.patches {
                bytes.replaceSubrange(Int(offset)..<Int(offset) + new.count, with: new)
            }
        }
        for number in 0..<count {
            if keys.contains(number) { encoder.requestKeyFrame() }
            let frame = try encoder.encode(PlanarBuffer.planes(of: film.picture(number), size: size))
            frames.append(frame)
            if writer == nil {
                writer = try MatroskaWriter(
                    .init(size: size, title: "A film", began: 1_790_000_000, rate: 25), keyFrame: frame)
            }
            let time = UInt64(number) * 40 + (number >= count / 2 ? pause : 0)
            if let output = try writer?.add(frame, at: time) { apply(output) }
        }
        let unended = bytes
        if let output = writer?.end(at: UInt64(count) * 40 + pause) { apply(output) }
        return (unended, bytes, frames)
    }

    @Test func `another program reads the size, the times, the name and how long it is`() throws {
        let folder = try TemporaryFolder()
        let (_, whole, frames) = try Self.file(60, keys: [25], pause: 40_000)
        try folder.write(whole, to: "film.mkv")
        let found = try FFmpeg.probe("\(folder.path)/film.mkv")
        #expect(found.format.name == "matroska,webm" && found.format.tags["title"] == "A film")
        #expect(found.format.tags["creation_time"]?.hasPrefix("2026-09-21T14:13:20") == true)
        #expect(found.format.seconds == 42.4)
        let stream = try #require(found.streams.first)
        #expect(found.streams.count == 1 && stream.codec == "h264" && stream.profile == "Constrained Baseline")
        #expect(stream.width == Self.size.width && stream.height == Self.size.height)
        #expect(stream.colours == "bt709" && stream.range == "tv" && stream.rate == "25/1")
        #expect(found.packets.map(\.milliseconds) == (0..<60).map { $0 * 40 + ($0 >= 30 ? 40_000 : 0) })
        #expect(found.packets.map(\.isKey) == frames.map(\.isKey))
    }

    @Test func `another program decodes the same pictures, also from the middle on`() throws {
        let folder = try TemporaryFolder()
        let (_, whole, frames) = try Self.file(40, keys: [20])
        try folder.write(whole, to: "film.mkv")
        let decoder = try #require(VideoCodec.decoder())
        var planes = PlanarBuffer(size: Self.size)
        var ours: [[UInt8]] = []
        for frame in frames {
            try decoder.decode(frame.bytes, into: &planes)
            ours.append(planes.bytes)
        }
        #expect(try FFmpeg.pictures("\(folder.path)/film.mkv") == ours.flatMap { $0 })
        // The cue of the second key frame, at 800 ms.
        #expect(try FFmpeg.pictures("\(folder.path)/film.mkv", from: "0.8") == ours[20...].flatMap { $0 })
    }

    @Test func `a file that is broken off plays up to its last whole picture`() throws {
        let folder = try TemporaryFolder()
        let (unended, _, frames) = try Self.file(12)
        var random = SeededRandom.fromEnvironment()
        try folder.write(unended, to: "film.mkv")
        #expect(try FFmpeg.probe("\(folder.path)/film.mkv").packets.count == frames.count)
        for _ in 0..<6 {
            let cut = Int.random(in: unended.count / 2..<unended.count, using: &random)
            try folder.write(unended.prefix(cut), to: "cut.mkv")
            // What is left out is the picture that was cut; a program may show that as far as it goes.
            let whole = try FFmpeg.probe("\(folder.path)/cut.mkv").packets.count
            let expected = try Self.ends(of: frames).count { $0 <= cut }
            #expect((expected...expected + 1).contains(whole), "cut at \(cut) of \(unended.count)")
        }
    }

    /// Where each frame ends in a file that has no end.
    private static func ends(of frames: [VideoFrame]) throws -> [Int] {
        var ends: [Int] = []
        var length = 0
        var writer = try MatroskaWriter(
            .init(size: size, title: "A film", began: 1_790_000_000, rate: 25), keyFrame: try #require(frames.first))
        for (number, frame) in frames.enumerated() {
            length += try writer.add(frame, at: UInt64(number) * 40).appended.count
            ends.append(length)
        }
        return ends
    }

    @Test(arguments: [1, 126, 127, 128, 16_382, 16_383, 2_097_151])
    func `a length is read as it was written`(count: Int) throws {
        var elements = EBMLElements()
        elements.binary(.void, [UInt8](repeating: 7, count: count))
        let width = try #require(elements.bytes.dropFirst().first).leadingZeroBitCount + 1
        let field = elements.bytes[1..<1 + width]
        let value = field.reduce(0) { $0 << 8 | Int($1) } & ((1 << (7 * width)) - 1)
        #expect(value == count && elements.bytes.count == 1 + width + count)
        // All ones are a length that is not known.
        #expect(value != (1 << (7 * width)) - 1)
    }
}

/// FFmpeg's programs, as tests run them.
enum FFmpeg {
    /// What ffprobe says of a file.
    struct Description: Decodable {
        struct Format: Decodable {
            var name: String
            var duration: String?
            var tags: [String: String]
            var seconds: Double? { duration.flatMap(Double.init) }
            enum CodingKeys: String, CodingKey {
                case name = "format_name"
                case duration, tags
            }
        }
        struct Stream: Decodable {
            var codec: String
            var profile: String
            var width: Int
            var height: Int
            var colours: String?
            var range: String?
            var rate: String
            enum CodingKeys: String, CodingKey {
                case codec = "codec_name"
                case profile, width, height
                case colours = "color_space"
                case range = "color_range"
                case rate = "r_frame_rate"
            }
        }
        struct Packet: Decodable {
            var time: String
            var flags: String
            var milliseconds: Int { Int(((Double(time) ?? -1) * 1_000).rounded()) }
            var isKey: Bool { flags.hasPrefix("K") }
            enum CodingKeys: String, CodingKey {
                case time = "pts_time"
                case flags
            }
        }
        var format: Format
        var streams: [Stream]
        var packets: [Packet]
    }

    /// Whether they are there; says so once when not.
    static let isInstalled: Bool = {
        let isInstalled = ["ffmpeg", "ffprobe"].allSatisfy {
            FileManager.default.isExecutableFile(atPath: "/usr/bin/\($0)")
        }
        if !isInstalled { print("Skipped without ffmpeg: scripts/bootstrap --test installs it") }
        return isInstalled
    }()

    static func probe(_ path: String) throws -> Description {
        let program = try ChildProcess(
            "/usr/bin/ffprobe",
            ["-v", "quiet", "-of", "json", "-show_format", "-show_streams", "-show_packets", path], output: .connected)
        let output = try program.output?.readToEnd() ?? Data()
        #expect(program.waitUntilExit() == 0, "ffprobe \(path)")
        return try JSONDecoder().decode(Description.self, from: output)
    }

    /// The planes of all pictures, one after the other.
    static func pictures(_ path: String, from start: String? = nil) throws -> [UInt8] {
        let program = try ChildProcess(
            "/usr/bin/ffmpeg",
            ["-v", "error"] + (start.map { ["-ss", $0] } ?? []) + [
                "-i", path, "-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "yuv420p", "-",
            ], output: .connected, errors: .inherited)
        let output = try program.output?.readToEnd() ?? Data()
        #expect(program.waitUntilExit() == 0, "ffmpeg \(path)")
        return Array(output)
    }
}
#endif
