import KithTesting
import Testing

@testable import KithRFB

@Suite struct EncodingTests {
    static let formats: [RFBPixelFormat] = [
        .xrgb, .rgb565, .bgr233,
        RFBPixelFormat(
            bitsPerPixel: 32, depth: 24, isBigEndian: true, redMax: 255, greenMax: 255, blueMax: 255, redShift: 0,
            greenShift: 8, blueShift: 16),
        // The colours are in the upper three bytes.
        RFBPixelFormat(
            bitsPerPixel: 32, depth: 24, redMax: 255, greenMax: 255, blueMax: 255, redShift: 24, greenShift: 16,
            blueShift: 8),
        RFBPixelFormat(
            bitsPerPixel: 32, depth: 30, redMax: 1023, greenMax: 1023, blueMax: 1023, redShift: 20, greenShift: 10,
            blueShift: 0),
        RFBPixelFormat(
            bitsPerPixel: 16, depth: 15, isBigEndian: true, redMax: 31, greenMax: 31, blueMax: 31, redShift: 10,
            greenShift: 5, blueShift: 0),
        RFBPixelFormat(
            bitsPerPixel: 32, depth: 16, redMax: 31, greenMax: 63, blueMax: 31, redShift: 11, greenShift: 5,
            blueShift: 0),
    ]

    @Test func `colours have the values that their formats give them`() {
        #expect(RFBPixelFormat.rgb565.value(of: 0xFF_0000) == 0xF800)
        #expect(RFBPixelFormat.rgb565.value(of: 0x00_FF00) == 0x07E0)
        #expect(RFBPixelFormat.rgb565.value(of: 0x00_0080) == 16)
        #expect(RFBPixelFormat.rgb565.color(of: 0xFFFF) == 0xFF_FFFF)
        #expect(RFBPixelFormat.rgb565.color(of: 0x8000) == 0x84_0000)
        #expect(RFBPixelFormat.bgr233.value(of: 0xFF_00FF) == 0b1100_0111)
        #expect(RFBPixelFormat.bgr233.color(of: 0b0101_0000) == 0x00_4955)
        #expect(Self.formats[3].value(of: 0x12_3456) == 0x56_3412)
        #expect(Self.formats[5].color(of: 0x3FF << 10) == 0x00_FF00)
        for format in Self.formats {
            for bits in 0...255 as ClosedRange<UInt32> {
                let value = format.value(of: bits << 16 | (255 - bits) << 8 | bits)
                #expect(format.value(of: format.color(of: value)) == value)
            }
        }
    }

    @Test(arguments: [RFBEncoding.raw, .zrle, .tight], formats)
    func `a viewer sees what changed in every encoding and format`(
        encoding: RFBEncoding, format: RFBPixelFormat
    ) throws {
        var random = SeededRandom.fromEnvironment()
        print("\(random), encoding \(encoding.rawValue), \(format.bitsPerPixel) bits")
        var frame = try Pictures.desktop(301, 157, &random)
        var options = RFBClient.Options()
        options.encodings = [encoding, .copyRect]
        options.pixelFormat = format
        options.compression = 6
        var talk = try Conversation(frame, client: options)
        // What a format cannot hold is lost; what it holds comes back.
        let map: (UInt32) -> UInt32 = { format.color(of: format.value(of: $0)) }
        for step in 0..<6 {
            talk.piece = step == 0 ? Int.max : Int.random(in: 1...4000, using: &random)
            try talk.settle(frame)
            let difference = talk.client.frameBuffer.differences(from: frame) { map($0 & 0xFF_FFFF) }
            #expect(difference == "", "\(random), step \(step)")
            let part = Pictures.rectangle(in: frame.bounds, &random)
            Pictures.strokes(in: part, &frame, &random)
            talk.server.changed(part)
        }
    }

    @Test(arguments: [RFBEncoding.raw, .zrle, .tight])
    func `moved parts and changes come out in any order`(encoding: RFBEncoding) throws {
        var random = SeededRandom.fromEnvironment()
        print(random)
        var frame = try Pictures.desktop(200, 150, &random)
        var options = RFBClient.Options()
        options.encodings = [encoding, .copyRect]
        var talk = try Conversation(frame, client: options)
        for step in 0..<60 {
            try talk.settle(frame)
            #expect(talk.client.frameBuffer.differences(from: frame) == "", "\(random), step \(step)")
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                if random.chance(0.6) {
                    let target = Pictures.rectangle(in: frame.bounds, &random)
                    let x = Int.random(in: 0...frame.width - target.width, using: &random)
                    let y = Int.random(in: 0...frame.height - target.height, using: &random)
                    frame.copy(fromX: x, y: y, to: target)
                    talk.server.moved(to: target, fromX: x, y: y)
                } else {
                    let part = Pictures.rectangle(in: frame.bounds, &random)
                    Pictures.strokes(in: part, &frame, &random)
                    talk.server.changed(part)
                }
            }
        }
    }

    @Test func `scrolling costs a copy and the new lines`() throws {
        var random = SeededRandom.fromEnvironment()
        var frame = try RFBFrameBuffer(width: 800, height: 600)
        Pictures.strokes(in: frame.bounds, &frame, &random)
        var talk = try Conversation(frame)
        try talk.settle(frame)
        talk.fromServer = []
        let target = RFBRectangle(x: 0, y: 0, width: 800, height: 584)
        frame.copy(fromX: 0, y: 16, to: target)
        let line = RFBRectangle(x: 0, y: 584, width: 800, height: 16)
        frame.fill(line, with: 0)
        frame.fill(RFBRectangle(x: 8, y: 588, width: 60, height: 8), with: 0xFFFFFF)
        talk.server.moved(to: target, fromX: 0, y: 16)
        talk.server.changed(line)
        try talk.settle(frame)
        #expect(talk.client.frameBuffer.differences(from: frame) == "", "\(random)")
        #expect(talk.fromServer.count < 400)
    }

    @Test func `rises and runs are drawn`() throws {
        try check { ReferenceEncoders.rectangle($0.bounds, 2, ReferenceEncoders.rre($0)) }
    }

    @Test func `tiles of Hextile are drawn in all their kinds`() throws {
        try check { ReferenceEncoders.rectangle($0.bounds, 5, ReferenceEncoders.hextile($0)) }
    }

    @Test func `the gradient filter of Tight is undone`() throws {
        try check { ReferenceEncoders.rectangle($0.bounds, 7, ReferenceEncoders.tightGradient($0)) }
    }

    private func check(_ encode: (RFBFrameBuffer) -> [UInt8]) throws {
        var random = SeededRandom.fromEnvironment()
        print(random)
        for size in [(1, 1), (16, 16), (17, 33), (160, 90)] {
            let frame = try Pictures.desktop(size.0, max(size.1, 3), &random)
            let bytes =
                ReferenceEncoders.handshake(width: frame.width, height: frame.height)
                + ReferenceEncoders.update([encode(frame)])
            for piece in [bytes.count, 1, 777] {
                var client = try RFBClient(.init())
                var events: [RFBClient.Event] = []
                for start in stride(from: 0, to: bytes.count, by: piece) {
                    try client.receive(Array(bytes[start..<min(start + piece, bytes.count)]))
                    while let event = try client.nextEvent() { events.append(event) }
                }
                #expect(events.last == .updated(RFBRegion(frame.bounds)), "\(random)")
                #expect(client.frameBuffer.differences(from: frame) == "", "\(random), \(size), pieces of \(piece)")
            }
        }
    }

    @Test func `an update ends with the last rectangle where its number is not known`() throws {
        var client = try RFBClient(.init())
        let pixel: [UInt8] = [1, 2, 3, 0]
        let bounds = RFBRectangle(x: 0, y: 0, width: 1, height: 1)
        let none = RFBRectangle(x: 0, y: 0, width: 0, height: 0)
        try client.receive(
            ReferenceEncoders.handshake(width: 1, height: 1) + [0, 0, 0xFF, 0xFF]
                + ReferenceEncoders.rectangle(bounds, 0, pixel) + ReferenceEncoders.rectangle(none, -224, []) + [2])
        #expect(try client.nextEvent() == .connected(name: "Other"))
        #expect(try client.nextEvent() == .updated(RFBRegion(bounds)))
        #expect(try client.nextEvent() == .bell)
        #expect(client.frameBuffer[0, 0] == 0x030201)
    }

    @Test func `a region holds each pixel once, and is bounded`() {
        var random = SeededRandom.fromEnvironment()
        let bounds = RFBRectangle(x: 0, y: 0, width: 40, height: 30)
        for _ in 0..<200 {
            var region = RFBRegion()
            var expected = Set<Int>()
            for _ in 0..<12 {
                let part = Pictures.rectangle(in: bounds, &random)
                let pixels = (part.y..<part.endY).flatMap { y in (part.x..<part.endX).map { y * 40 + $0 } }
                if random.chance(0.7) {
                    region.insert(part)
                    expected.formUnion(pixels)
                } else {
                    region.remove(part)
                    expected.subtract(pixels)
                }
            }
            #expect(region.rectangles.reduce(0) { $0 + $1.area } == expected.count, "\(random)")
        }
        var region = RFBRegion()
        for index in 0..<1000 { region.insert(RFBRectangle(x: index * 2, y: index % 7 * 2, width: 1, height: 1)) }
        #expect(region.rectangles.count <= RFBRegion.limit)
        #expect(region.bounds == RFBRectangle(x: 0, y: 0, width: 1999, height: 13))
    }
}
