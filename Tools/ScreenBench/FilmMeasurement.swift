import Foundation
import KithTesting

/// All of a screen in motion: a textured photo that is panned over and zoomed into, with grain.
struct FilmMeasurement {
    private static let (width, height) = (1_280, 800)
    /// The pictures a second that are shown: more than are wanted.
    private static let rate = 50
    /// The rows below which it is compared: above, Kith's host shows who is looking.
    private static let top = 96
    private let pictures: [[UInt32]]

    init() {
        var film = Film(width: Self.width, height: Self.height, random: SeededRandom.fromEnvironment())
        pictures = (0..<30).map { film.picture($0) }
    }

    /// Adds what is measured at one seat to `result`, by the names of the rows.
    func measure(_ seat: any Seat, into result: inout [String: Double]) async throws {
        guard
            let window = FilmWindow(
                display: seat.desktop.display, width: Self.width, height: Self.height, pictures: pictures,
                rate: Self.rate)
        else { return }
        defer { window.end() }
        let arrivals = Arrivals()
        try await seat.connect { arrivals.add($0) }
        // What is motion has to be noticed first.
        try await Task.sleep(for: .seconds(3))
        let (start, before) = (ContinuousClock.now, arrivals.last?.bytes ?? 0)
        var nearness: [Double] = []
        while ContinuousClock.now - start < .seconds(8) {
            try await Task.sleep(for: .milliseconds(400))
            nearness.append(self.nearness(of: seat.pixels))
        }
        let end = ContinuousClock.now
        let bytes = Double((arrivals.last?.bytes ?? 0) - before)
        // Of a picture that comes in parts each is counted for its share.
        let drawn = Double(arrivals.area(from: start, to: end)) / Double(Self.width * (Self.height - Self.top))
        result["film"] = drawn / ((end - start) / .seconds(1))
        result["filmBytes"] = drawn > 0 ? bytes / drawn / 1_000 : .nan
        result["filmNearness"] = percentile(0.5, of: nearness)
        result["filmPause"] = arrivals.longestPause(from: start, to: end) / .milliseconds(1)
        await seat.disconnect()
    }

    /// Adds how long a key takes to its letter while a film is shown in the lower half, in milliseconds.
    func measureTyping(_ seat: any Seat, into result: inout [String: Double]) async throws {
        let half = Self.height / 2
        try seat.desktop.show(.echo)
        let lower = pictures.map { Array($0[(half * Self.width)...]) }
        guard
            let window = FilmWindow(
                display: seat.desktop.display, top: half, width: Self.width, height: Self.height - half,
                pictures: lower, rate: Self.rate)
        else { return }
        defer { window.end() }
        let arrivals = Arrivals()
        try await seat.connect { arrivals.add($0) }
        try await Task.sleep(for: .seconds(3))
        var delays: [Double] = []
        for number in 0..<60 {
            let start = ContinuousClock.now
            try await seat.type(UInt32(0x61 + number % 26))
            // What is drawn of the film alone begins below.
            if let drawn = await arrivals.first(since: start, where: { $0.top < half - 64 }) {
                delays.append((drawn.time - start) / .milliseconds(1))
            }
            try await Task.sleep(for: .milliseconds(Int.random(in: 60...150)))
        }
        result["typed"] = percentile(0.5, of: delays)
        result["typed95"] = percentile(0.95, of: delays)
        await seat.disconnect()
    }

    /// How near a picture's luma is to the nearest of the film's, in decibels, in the limited range in which video has it;
    /// one pixel in eight is looked at.
    private func nearness(of pixels: [UInt32]) -> Double {
        guard pixels.count == Self.width * Self.height else { return .nan }
        let least =
            pictures.map { picture in
                stride(from: Self.top * Self.width, to: pixels.count, by: 8).reduce(0.0) { sum, index in
                    let difference = Self.luma(pixels[index]) - Self.luma(picture[index])
                    return sum + difference * difference
                }
            }.min() ?? 0
        let count = (pixels.count - Self.top * Self.width) / 8
        return 10 * log10(255 * 255 * Double(count) / max(1, least))
    }

    /// The luma of a pixel above black (ITU-R BT.709-6 §3), 0…219.
    private static func luma(_ pixel: UInt32) -> Double {
        (0.2126 * Double(pixel >> 16 & 255) + 0.7152 * Double(pixel >> 8 & 255) + 0.0722 * Double(pixel & 255)) * 219
            / 255
    }
}
