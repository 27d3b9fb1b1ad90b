import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// `kith info`.
struct InfoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "info",
        abstract: "Say all that the library knows of files, with what their content says.",
        discussion: helpText(
            """
              kith info photo.jpg
              kith info --json ~/Movies/*.mp4
              kith info --device laptop /srv/photos/photo.jpg

            Of images: size, camera, time and place; of films and sound: duration, codecs and tags; of documents: title, author
            and pages. The file is in a location of the library. What was not read yet is read now, in a process that can reach
            nothing else.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Option(help: "Ask this device; the paths are whole ones there.") var device: String?
    @Argument(help: "The files.", completion: .file()) var files: [String]

    func run() async throws {
        guard !files.isEmpty else { throw ValidationError("Which file?") }
        let paths = try device == nil ? wholePaths(files) : files.map { Files.Path(bytes: Array($0.utf8)) }
        try await withClient(globals) { client in
            var (failed, all): (KithError?, [Media.Describe.Output]) = (nil, [])
            for (number, path) in paths.enumerated() {
                do {
                    let info = try await client.call(
                        Media.Describe.self, .init(library: library.name(on: device), path: path), on: device)
                    if globals.json {
                        all.append(info)
                        continue
                    }
                    if number > 0 { printLine() }
                    for line in Self.lines(info) { printLine(line) }
                    if let problem = info.problem { note("\(printable(path.description)): \(printable(problem))") }
                } catch let error as KithError {
                    // The others are as good as they were.
                    report(error, json: globals.json)
                    failed = error
                }
            }
            if globals.json { printLine(try jsonText(all)) }
            if let failed { throw ExitCode(failed.code.exitStatus) }
        }
    }

    /// What is known, a line for each.
    static func lines(_ info: Media.Describe.Output) -> [String] {
        let (entry, content) = (info.entry, info.properties ?? Media.Properties())
        var rows: [(String, String?)] = [
            ("path", entry.path.description),
            ("kind", [entry.category, content.format].compactMap(\.self).joined(separator: ", ")),
            ("size", "\(DuCommand.humanSize(entry.size)) (\(grouped(entry.size)) bytes)"),
            ("changed", time(entry.modified)), ("tags", entry.tags.joined(separator: ", ")), ("sha256", info.sha256),
            ("title", content.title), ("author", content.author), ("album", content.album),
            ("pages", content.pages.map { grouped($0) }),
        ]
        if let width = content.width, let height = content.height { rows.append(("pixels", "\(width) × \(height)")) }
        rows += [
            ("duration", content.duration.map(duration)),
            ("codecs", [content.videoCodec, content.audioCodec].compactMap(\.self).joined(separator: ", ")),
        ]
        let sound = [content.sampleRate.map { "\(grouped($0)) Hz" }, content.channels.map { "\($0) channels" }]
        rows.append(("sound", sound.compactMap(\.self).joined(separator: ", ")))
        rows.append(("taken", content.taken.map { taken($0, content.takenOffset) }))
        rows += [("camera", content.camera), ("lens", content.lens), ("exposure", exposure(content))]
        if let latitude = content.latitude, let longitude = content.longitude {
            let height = content.altitude.map { ", \(decimal($0, places: 0)) m" } ?? ""
            rows.append(("place", "\(decimal(latitude, places: 5)), \(decimal(longitude, places: 5))\(height)"))
        }
        if info.textBytes > 0 {
            let size = DuCommand.humanSize(UInt64(clamping: info.textBytes))
            rows.append(("text", "\(size), searched by content:"))
        }
        return rows.compactMap { name, value in
            guard let value, !value.isEmpty else { return nil }
            let blanks = String(repeating: " ", count: max(1, 10 - name.count))
            return styled(name, .dim) + blanks + printable(value)
        }
    }

    private static func time(_ seconds: Int64) -> String {
        let zone = TimeZone.current.secondsFromGMT(for: Date(timeIntervalSince1970: Double(seconds)))
        return clock(CalendarTime(bounded(seconds), offset: zone))
    }

    /// A time that a calendar has, whatever another device says.
    private static func bounded(_ seconds: Int64) -> Int64 { min(max(seconds, -(1 << 40)), 1 << 40) }

    /// The time at the place, and how far it was from Greenwich.
    static func taken(_ seconds: Int64, _ offset: Int?) -> String {
        let text = clock(CalendarTime(bounded(seconds), offset: 0))
        guard let offset, abs(Double(offset)) <= 1_440 else { return text }
        let (hours, minutes) = abs(offset).quotientAndRemainder(dividingBy: 60)
        let two = { (number: Int) in number < 10 ? "0\(number)" : "\(number)" }
        return "\(text) \(offset < 0 ? "-" : "+")\(two(hours)):\(two(minutes))"
    }

    private static func clock(_ time: CalendarTime) -> String {
        let two = { (number: Int) in number < 10 ? "0\(number)" : "\(number)" }
        let day = "\(time.year)-\(two(time.month))-\(two(time.day))"
        return "\(day) \(two(time.hour)):\(two(time.minute)):\(two(time.second))"
    }

    static func duration(_ milliseconds: Int64) -> String {
        let seconds = milliseconds / 1_000
        let two = { (number: Int64) in number < 10 ? "0\(number)" : "\(number)" }
        let (minutes, rest) = (seconds / 60, two(seconds % 60))
        if minutes == 0 { return "\(decimal(Double(milliseconds) / 1_000, places: 1)) s" }
        return minutes < 60 ? "\(minutes):\(rest)" : "\(minutes / 60):\(two(minutes % 60)):\(rest)"
    }

    private static func exposure(_ content: Media.Properties) -> String {
        let time = content.exposure.map { seconds in
            seconds < 0.4 ? "1/\(decimal(1 / seconds, places: 0)) s" : "\(decimal(seconds, places: 1)) s"
        }
        return [
            time, content.aperture.map { "f/\(decimal($0, places: 1))" }, content.sensitivity.map { "ISO \($0)" },
            content.focalLength.map { "\(decimal($0, places: 0)) mm" },
        ].compactMap(\.self).joined(separator: "  ")
    }

    private static func decimal(_ number: Double, places: Int) -> String {
        String(format: "%.\(places)f", number)
    }
}
