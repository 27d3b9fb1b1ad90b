/// How well a session goes, over the last second.
package struct WindowStatistics: Codable, Hashable, Sendable {
    /// Pictures that came, frames of video among them.
    package var pictures: Double
    /// Frames of video.
    package var frames: Double
    /// Bytes of them, a second.
    package var bytes: Double
    /// The time to the other device and back, in milliseconds; `nil` when it is not known.
    package var roundTrip: Double?
    /// The way to the other device: an address, or a relay.
    package var path: String?

    /// Makes one.
    package init(pictures: Double, frames: Double = 0, bytes: Double, roundTrip: Double? = nil, path: String? = nil) {
        self.pictures = pictures
        self.frames = frames
        self.bytes = bytes
        self.roundTrip = roundTrip
        self.path = path
    }

    /// One line: `30 pictures/s, 24 of video   512 kB/s   1.2 ms   192.168.1.7:4433`.
    package var text: String {
        let video = frames.rounded() > 0 ? ", \(Int(frames.rounded())) of video" : ""
        var parts = ["\(Int(pictures.rounded())) pictures/s\(video)", Self.rate(bytes)]
        if let roundTrip { parts.append("\(Self.rounded(roundTrip)) ms") }
        if let path { parts.append(path) }
        return parts.joined(separator: "   ")
    }

    private static func rate(_ bytes: Double) -> String {
        switch bytes {
        case ..<1_000: "\(Int(bytes.rounded())) B/s"
        case ..<1_000_000: "\(rounded(bytes / 1_000)) kB/s"
        default: "\(rounded(bytes / 1_000_000)) MB/s"
        }
    }

    /// One digit behind the point below 10, none from there on.
    private static func rounded(_ value: Double) -> String {
        guard value.isFinite, abs(value) < 1e12 else { return "–" }
        guard value < 9.95 else { return "\(Int(value.rounded()))" }
        let tenths = Int((value * 10).rounded())
        return "\(tenths / 10).\(tenths % 10)"
    }
}
