/// What the content of a file says about itself.
///
/// Whoever wrote the file chose it: texts are of one line and bounded, numbers are within what can be meant.
package struct ContentProperties: Codable, Hashable, Sendable {
    /// The most bytes of one text.
    package static let textLimit = 256

    /// The format by its usual name: `JPEG`, `MP4`, `PDF`.
    package var format: String?
    /// Pixels across, as it is to be shown.
    package var width: Int?
    /// Pixels down, as it is to be shown.
    package var height: Int?
    /// How the stored picture is turned to be shown, as Exif counts it: 1…8.
    package var orientation: Int?
    /// When it was taken, as the clock at the place showed it, in seconds from the same clock's 1970.
    package var taken: Int64?
    /// The minutes by which that clock was ahead of Greenwich; `nil` when nobody noted it.
    package var takenOffset: Int?
    /// The maker and the model of the camera.
    package var camera: String?
    package var lens: String?
    /// Seconds.
    package var exposure: Double?
    /// The f-number.
    package var aperture: Double?
    /// ISO 12232.
    package var sensitivity: Int?
    /// Millimetres.
    package var focalLength: Double?
    /// Degrees north, -90…90.
    package var latitude: Double?
    /// Degrees east, -180…180.
    package var longitude: Double?
    /// Metres above the sea.
    package var altitude: Double?
    /// Milliseconds.
    package var duration: Int64?
    package var videoCodec: String?
    package var audioCodec: String?
    /// Samples a second.
    package var sampleRate: Int?
    package var channels: Int?
    package var title: String?
    /// The artist or the author.
    package var author: String?
    package var album: String?
    /// The number of pages.
    package var pages: Int?

    package init() {}

    /// True when nothing is known.
    package var isEmpty: Bool { self == ContentProperties() }

    /// The properties with what cannot be meant left out, and texts made plain: for those that a process read which a
    /// file may have taken over.
    package var plausible: ContentProperties {
        var plain = self
        plain.format = format.flatMap { Self.plain($0) }
        plain.width = width.flatMap { (1...1_000_000).contains($0) ? $0 : nil }
        plain.height = height.flatMap { (1...1_000_000).contains($0) ? $0 : nil }
        plain.orientation = orientation.flatMap { (1...8).contains($0) ? $0 : nil }
        // The years 1800 to 9999.
        plain.taken = taken.flatMap { (-5_364_662_400...253_402_300_799).contains($0) ? $0 : nil }
        plain.takenOffset = plain.taken == nil ? nil : takenOffset.flatMap { (-1_440...1_440).contains($0) ? $0 : nil }
        plain.camera = camera.flatMap { Self.plain($0) }
        plain.lens = lens.flatMap { Self.plain($0) }
        plain.exposure = exposure.flatMap { $0 > 0 && $0 < 1e6 ? $0 : nil }
        plain.aperture = aperture.flatMap { $0 > 0 && $0 < 1e4 ? $0 : nil }
        plain.sensitivity = sensitivity.flatMap { (1...100_000_000).contains($0) ? $0 : nil }
        plain.focalLength = focalLength.flatMap { $0 > 0 && $0 < 1e6 ? $0 : nil }
        let isPlace = latitude.map { abs($0) <= 90 } ?? false && longitude.map { abs($0) <= 180 } ?? false
        plain.latitude = isPlace ? latitude : nil
        plain.longitude = isPlace ? longitude : nil
        plain.altitude = isPlace ? altitude.flatMap { abs($0) < 1e6 ? $0 : nil } : nil
        // A thousand years.
        plain.duration = duration.flatMap { (0...31_536_000_000_000).contains($0) ? $0 : nil }
        plain.videoCodec = videoCodec.flatMap { Self.plain($0) }
        plain.audioCodec = audioCodec.flatMap { Self.plain($0) }
        plain.sampleRate = sampleRate.flatMap { (1...100_000_000).contains($0) ? $0 : nil }
        plain.channels = channels.flatMap { (1...1_024).contains($0) ? $0 : nil }
        plain.title = title.flatMap { Self.plain($0) }
        plain.author = author.flatMap { Self.plain($0) }
        plain.album = album.flatMap { Self.plain($0) }
        plain.pages = pages.flatMap { (1...10_000_000).contains($0) ? $0 : nil }
        return plain
    }

    /// A text in one line without control characters; `nil` when nothing is left.
    static func plain(_ text: String) -> String? {
        var plain = String.UnicodeScalarView()
        var (bytes, isBlank) = (0, true)
        for scalar in text.unicodeScalars {
            let isSpace = TextCollector.isSpace(scalar)
            guard isSpace || !TextCollector.isControl(scalar) else { continue }
            if isSpace, isBlank { continue }
            let width = isSpace ? 1 : UTF8.width(scalar)
            guard bytes + width <= textLimit else { break }
            plain.append(isSpace ? " " : scalar)
            bytes += width
            isBlank = isSpace
        }
        if plain.last == " " { plain.removeLast() }
        return plain.isEmpty ? nil : String(plain)
    }

    /// A text of bytes: UTF-8, else Latin-1, up to the first NUL.
    static func text(_ bytes: some Sequence<UInt8>) -> String? {
        let bytes = Array(bytes.prefix { $0 != 0 })
        return plain(String(validating: bytes, as: UTF8.self) ?? TextDecoding.latin1(bytes))
    }
}
