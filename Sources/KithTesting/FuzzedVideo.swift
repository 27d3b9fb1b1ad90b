internal import KithPixels
internal import KithVideo
internal import KithWire

/// What the host of a screen may send as video.
enum FuzzedVideo {
    private static let screen = PixelSize(width: 96, height: 64)

    /// Frames, each with its layout and its coded picture behind their lengths in 16 bits.
    static func frames(_ bytes: [UInt8]) {
        let decoder = VideoCodec.decoder()
        var tiles = TileDecoder(areaLimit: 1 << 14)
        guard (try? tiles.decode(blank)) != nil else { preconditionFailure("a message of ours is taken") }
        var reader = ByteReader(bytes)
        while let head = next(&reader), let frame = next(&reader) {
            guard let layout = try? VideoLayout(head) else { continue }
            precondition((try? VideoLayout(layout.bytes)) == layout, "A layout means the same when written again")
            guard (try? layout.check(on: screen)) != nil else { continue }
            precondition(
                layout.picture.maxX <= screen.width + VideoLayout.overhang
                    && layout.picture.maxY <= screen.height + VideoLayout.overhang,
                "A coded picture lies where it is drawn")
            var planes = PlanarBuffer(size: layout.picture.size)
            // What is not decoded is not drawn.
            guard (try? decoder?.decode(frame, into: &planes)) != nil else { continue }
            guard let changed = try? tiles.draw(layout, from: planes) else {
                preconditionFailure("What was checked is drawn")
            }
            precondition(
                changed.rectangles.allSatisfy { screen.bounds.contains($0) }, "Nothing is drawn outside the picture")
        }
    }

    /// The message with which the screen begins.
    private static let blank: [UInt8] = {
        var encoder = TileEncoder()
        let picture = PixelBuffer(size: screen)
        guard let message = encoder.encode(picture.view, at: .now) else {
            preconditionFailure("a first message has the whole screen")
        }
        return message.bytes
    }()

    private static func next(_ reader: inout ByteReader) -> [UInt8]? {
        guard let length = try? reader.integer(as: UInt16.self) else { return nil }
        return try? reader.bytes(min(Int(length), reader.remaining))
    }

    private static func joined(_ frames: [(layout: [UInt8], frame: [UInt8])]) -> [UInt8] {
        var writer = ByteWriter()
        for part in frames.flatMap({ [$0.layout, $0.frame] }) {
            writer.integer(UInt16(clamping: part.count))
            writer.bytes(part)
        }
        return writer.bytes
    }

    /// Videos of small moving pictures at several places; layouts with numbers that are too large.
    static let seeds: [[UInt8]] = {
        var seeds: [[UInt8]] = []
        for (place, size) in [((0, 0), (64, 64)), ((64, 0), (32, 64)), ((80, 48), (16, 16)), ((0, 0), (98, 66))] {
            guard let encoder = VideoCodec.encoder() else { break }
            var planes = PlanarBuffer(size: PixelSize(width: size.0, height: size.1))
            var frames: [(layout: [UInt8], frame: [UInt8])] = []
            for step in 0..<4 {
                var picture = PixelBuffer(size: planes.size)
                for y in 0..<size.1 {
                    for x in 0..<size.0 { picture[x: x, y: y] = UInt32((x + step * 3) * 0x10305 ^ y * 0x50201) }
                }
                ColourConversion.convert(picture.view, into: &planes)
                guard let frame = try? encoder.encode(planes) else {
                    preconditionFailure("a picture of \(size) is encoded")
                }
                let bounds = PixelRectangle(x: place.0, y: place.1, width: size.0, height: size.1)
                let seen = bounds.intersection(screen.bounds).moved(x: -place.0, y: -place.1)
                frames.append((VideoLayout(isKey: frame.isKey, picture: bounds, regions: [seen]).bytes, frame.bytes))
            }
            seeds.append(joined(frames))
        }
        let large: [UInt8] = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]
        return seeds + [
            joined([([1] + large + large + large + large, [])]), joined([([0, 0, 0, 0x40, 64, 0x40, 64] + large, [])]),
            joined([([1, 0, 0, 16, 16, 1, 0, 0] + large + large, [0, 0, 1, 0x67, 0x42, 0xC0, 0x15])]),
        ]
    }()
}
