// Bytes and time of the encodings on screens of text, beside zlib and a copy of the same pixels in the same run.
import CZlib
import Foundation
import KithRFB
import KithRFBCodecs

/// Screens that look like work, from a fixed seed.
struct Screens {
    private var state: UInt64 = 20_261_121

    private mutating func next(_ limit: Int) -> Int {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return Int((state >> 33) % UInt64(limit))
    }

    /// A terminal: letters of 7 by 12 pixels, each always drawn the same way.
    mutating func terminal(_ width: Int, _ height: Int) throws -> RFBFrameBuffer {
        var frame = try RFBFrameBuffer(width: width, height: height)
        frame.fill(frame.bounds, with: 0x1E1E2E)
        let inks: [UInt32] = [0xCDD6F4, 0xA6E3A1, 0x89B4FA, 0xF38BA8]
        for y in stride(from: 4, to: height - 16, by: 16) {
            let length = 20 + next(width / 8 - 20)
            var ink = inks[0]
            for column in 0..<length {
                if next(12) == 0 { ink = inks[next(4)] }
                letter(next(6) == 0 ? 0 : 1 + next(60), ink, column * 8, y, &frame)
            }
        }
        return frame
    }

    private func letter(_ number: Int, _ ink: UInt32, _ x: Int, _ y: Int, _ frame: inout RFBFrameBuffer) {
        guard number > 0, x + 7 < frame.width else { return }
        var bits = UInt64(number) &* 0x9E37_79B9_7F4A_7C15
        for row in 0..<10 {
            for column in 0..<6 {
                if bits & 3 == 0 { frame[x + column, y + row] = ink }
                // Edges are smoothed in one tone.
                if bits & 7 == 5 { frame[x + column, y + row] = (ink >> 1) & 0x7F7F7F }
                bits = bits >> 1 | bits << 63
            }
        }
    }

    /// The same with a photo-like area in it.
    mutating func mixed(_ width: Int, _ height: Int) throws -> RFBFrameBuffer {
        var frame = try terminal(width, height)
        for y in height / 4..<height * 3 / 4 {
            for x in width / 2..<width {
                let wave = (sin(Double(x) / 90) + cos(Double(y) / 70)) * 60 + 120
                let value = UInt32(max(0, min(255, wave + Double(next(7)))))
                frame[x, y] = value << 16 | UInt32(x * 255 / width) << 8 | UInt32(y * 255 / height)
            }
        }
        return frame
    }
}

/// The median of several runs, in milliseconds.
func milliseconds(_ runs: Int, _ body: () throws -> Void) rethrows -> Double {
    var times: [Double] = []
    for _ in 0..<runs {
        let start = ContinuousClock.now
        try body()
        times.append((ContinuousClock.now - start) / .milliseconds(1))
    }
    return times.sorted()[runs / 2]
}

func line(_ name: String, _ bytes: Int, _ encode: Double, _ decode: Double?) {
    func fixed(_ value: Double) -> String { String(format: "%8.2f", value) }
    let columns = [name.padding(toLength: 26, withPad: " ", startingAt: 0), String(format: "%9d B", bytes)]
    print(columns.joined(), fixed(encode), "ms", decode.map { fixed($0) + " ms" } ?? "")
}

let runs = 9
let (width, height) = (1920, 1080)

func measure(_ title: String, _ frame: RFBFrameBuffer) throws {
    print("\(title), \(width) × \(height)                     encode      decode")
    var copy = [UInt8](repeating: 0, count: width * height * 4)
    let copying = milliseconds(runs) {
        copy.withUnsafeMutableBytes { target in frame.pixels.withUnsafeBytes { target.copyMemory(from: $0) } }
    }
    line("memcpy", copy.count, copying, nil)
    for level: Int32 in [1, 6] {
        var packed = [UInt8](repeating: 0, count: Int(compressBound(UInt(copy.count))))
        var size = UInt(packed.count)
        let packing = milliseconds(3) {
            size = UInt(packed.count)
            compress2(&packed, &size, copy, UInt(copy.count), level)
        }
        let unpacking = milliseconds(3) {
            var count = UInt(copy.count)
            uncompress(&copy, &count, packed, size)
        }
        line("zlib level \(level) of the pixels", Int(size), packing, unpacking)
    }
    for (name, encoding, quality) in [
        ("Raw", RFBEncoding.raw, nil), ("ZRLE", .zrle, nil), ("Tight", .tight, nil), ("Tight, quality 8", .tight, 8),
    ] as [(String, RFBEncoding, Int?)] {
        try measure(name, encoding, quality, frame)
    }
}

func measure(_ name: String, _ encoding: RFBEncoding, _ quality: Int?, _ frame: RFBFrameBuffer) throws {
    var options = RFBClient.Options()
    options.encodings = [encoding, .copyRect]
    options.quality = quality
    options.requestsUpdates = false
    options.wantsContinuousUpdates = false
    var client = try RFBClient(options, jpeg: TurboJPEG())
    var server = try RFBServer(
        .init(name: "bench"), width: width, height: height, challenge: [UInt8](repeating: 1, count: 16),
        jpeg: TurboJPEG())
    func settle() throws {
        for _ in 0..<8 {
            try client.receive(server.takeOutput())
            while let _ = try client.nextEvent() {}
            try server.receive(client.takeOutput())
            while let _ = try server.nextEvent(at: .now) {}
        }
    }
    try settle()
    var (encode, decode, bytes): ([Double], [Double], Int) = ([], [], 0)
    for _ in 0..<runs {
        client.requestUpdate(of: frame.bounds, isIncremental: true)
        try settle()
        server.changed(frame.bounds)
        encode.append(milliseconds(1) { server.update(from: frame) })
        let output = server.takeOutput()
        bytes = output.count
        decode.append(
            try milliseconds(1) {
                try client.receive(output)
                while let _ = try client.nextEvent() {}
            })
    }
    if quality == nil {
        for index in frame.pixels.indices where frame.pixels[index] != client.frameBuffer.pixels[index] {
            fatalError("\(name) is not exact")
        }
    }
    line(name, bytes, encode.sorted()[runs / 2], decode.sorted()[runs / 2])
}

var screens = Screens()
try measure("A terminal", screens.terminal(width, height))
try measure("A terminal and a photo", screens.mixed(width, height))
