import KithPixels
import KithTesting

/// A screen that changes at random: what a person, a program or a video does to one.
struct Scene: ~Copyable {
    private(set) var picture: PixelBuffer
    private(set) var damage = PixelRegion()
    var random: SeededRandom

    init(size: PixelSize, random: SeededRandom, padding: Int = 12) {
        picture = PixelBuffer(size: size, stride: size.width * 4 + padding)
        self.random = random
    }

    /// Takes what was damaged since the last time.
    mutating func takeDamage() -> PixelRegion {
        defer { damage = PixelRegion() }
        return damage
    }

    mutating func rectangle() -> PixelRectangle {
        let size = picture.size
        let (x, y) = (Int.random(in: 0..<size.width, using: &random), Int.random(in: 0..<size.height, using: &random))
        return PixelRectangle(
            x: x, y: y, width: Int.random(in: 1...size.width - x, using: &random),
            height: Int.random(in: 1...size.height - y, using: &random))
    }

    mutating func edit() {
        let place = rectangle()
        switch Int.random(in: 0..<8, using: &random) {
        case 0: picture.fill(place, with: UInt32(truncatingIfNeeded: random.next()))
        case 1, 2: draw(place, colours: Int.random(in: 2...6, using: &random))
        case 3: draw(place, colours: Int.random(in: 60...300, using: &random))
        case 4: noise(place)
        case 5: scroll(place, isVertical: true)
        case 6: scroll(place, isVertical: false)
        default:
            // A single pixel, and the byte that means nothing.
            picture[x: place.x, y: place.y] ^= UInt32(truncatingIfNeeded: random.next()) | 0xFF00_0000
        }
        damage.insert(place)
    }

    /// Something like letters: runs of few colours.
    mutating func draw(_ place: PixelRectangle, colours: Int) {
        let palette = (0..<colours).map { _ in UInt32(truncatingIfNeeded: random.next()) }
        for y in place.rows {
            var (left, colour) = (0, palette[0])
            for x in place.columns {
                if left == 0 {
                    left = Int.random(in: 1...5, using: &random)
                    colour = palette[Int.random(in: 0..<colours, using: &random)]
                }
                picture[x: x, y: y] = colour
                left -= 1
            }
        }
        damage.insert(place)
    }

    mutating func noise(_ place: PixelRectangle) {
        for y in place.rows {
            for x in place.columns { picture[x: x, y: y] = UInt32(truncatingIfNeeded: random.next()) }
        }
        damage.insert(place)
    }

    mutating func scroll(_ place: PixelRectangle, isVertical: Bool) {
        let length = isVertical ? place.height : place.width
        guard length > 1 else { return }
        let distance = Int.random(in: 1...max(1, length / 3), using: &random)
        let (dx, dy) = isVertical ? (0, distance) : (distance, 0)
        let rest = PixelRectangle(x: place.x, y: place.y, width: place.width - dx, height: place.height - dy)
        if random.chance(0.5) {
            picture.copy(rest, to: (place.x + dx, place.y + dy))
        } else {
            picture.copy(rest.moved(x: dx, y: dy), to: (place.x, place.y))
        }
        damage.insert(place)
    }

    /// Moves a part's rows up and draws new ones below.
    mutating func shift(_ part: PixelRectangle, by rows: Int) {
        picture.copy(PixelRectangle(columns: part.columns, rows: part.y + rows..<part.maxY), to: (part.x, part.y))
        draw(PixelRectangle(columns: part.columns, rows: part.maxY - rows..<part.maxY), colours: 2)
        damage.insert(part)
    }
}

extension PixelBuffer {
    /// True when all 32 bits of each pixel are those of `other` made opaque.
    func isExactly(_ other: borrowing PixelBuffer) -> Bool {
        guard size == other.size else { return false }
        for y in 0..<size.height {
            for x in 0..<size.width where self[x: x, y: y] != other[x: x, y: y] | Self.opaque { return false }
        }
        return true
    }
}

/// A host's encoder and a viewer's decoder.
struct TilePair: ~Copyable {
    var encoder: TileEncoder
    var decoder = TileDecoder()

    init(options: TileEncoder.Options = .init()) { encoder = TileEncoder(options: options) }

    /// Sends what changed in a scene; `nil` when there was nothing.
    mutating func send(
        _ scene: inout Scene, at now: ContinuousClock.Instant, room: TileEncoder.Room? = nil
    ) throws(TileError) -> TileEncoder.Message? {
        encoder.damaged(scene.takeDamage())
        guard let message = encoder.encode(scene.picture.view, at: now, room: room) else { return nil }
        if !message.bytes.isEmpty { _ = try decoder.decode(message.bytes) }
        return message
    }

    /// Draws regions from a video of the whole screen.
    mutating func draw(_ regions: [PixelRectangle], from planes: borrowing PlanarBuffer) throws(TileError) {
        _ = try decoder.draw(
            VideoLayout(isKey: true, picture: planes.size.bounds, regions: regions), from: planes)
    }

    /// True when the viewer has the scene, bit for bit.
    func isExact(_ scene: borrowing Scene) -> Bool { decoder.picture.isExactly(scene.picture) }
}
