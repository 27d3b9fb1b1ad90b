import Foundation
import KithAPI

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// The lines of `ls -l`: mode, names, owner, group, size or the numbers of a device, time and name, in columns.
struct LongListing {
    private let isHuman: Bool
    /// The widths of names, owner, group and size.
    private var widths: (links: Int, user: Int, group: Int, size: Int) = (1, 1, 1, 1)

    /// Measures what is to be listed.
    init(_ entries: [Files.Entry], isHuman: Bool = false) {
        self.isHuman = isHuman
        for entry in entries {
            widths.links = max(widths.links, Self.links(entry).utf8.count)
            widths.user = max(widths.user, Self.user(entry).count)
            widths.group = max(widths.group, Self.group(entry).count)
            widths.size = max(widths.size, size(entry).utf8.count)
        }
    }

    /// The line of one, with the name as it is to be shown.
    func line(_ entry: Files.Entry, name: String) -> String {
        let (links, size) = (Self.links(entry), size(entry))
        let (user, group) = (Self.user(entry), Self.group(entry))
        func blanks(_ count: Int) -> String { String(repeating: " ", count: max(0, count)) }
        var line = Self.mode(entry) + " " + blanks(widths.links - links.utf8.count) + links + " "
        line += user + blanks(widths.user - user.count) + " " + group + blanks(widths.group - group.count) + " "
        line += blanks(widths.size - size.utf8.count) + size + " " + Self.time(entry.modified) + " " + name
        if let target = entry.target { line += " -> " + printable(target.description) }
        return line
    }

    /// The line of one that is listed as it comes, in columns that most things fit in.
    static func line(_ entry: Files.Entry) -> String {
        var listing = LongListing([])
        listing.widths = (3, 8, 8, 10)
        return listing.line(entry, name: printable(entry.name.description))
    }

    private func size(_ entry: Files.Entry) -> String {
        if let numbers = entry.deviceNumbers { return "\(numbers.major), \(numbers.minor)" }
        return isHuman ? UsageCommand.humanSize(entry.size) : String(entry.size)
    }

    /// How many names it has; one with an older kith does not say.
    private static func links(_ entry: Files.Entry) -> String { entry.links.map { String($0) } ?? "?" }
    private static func user(_ entry: Files.Entry) -> String { entry.userName.map(printable) ?? String(entry.user) }
    private static func group(_ entry: Files.Entry) -> String { entry.groupName.map(printable) ?? String(entry.group) }

    /// `drwxr-sr-t`: the kind, then who may do what, as the coreutils write it.
    static func mode(_ entry: Files.Entry) -> String {
        let kind: Unicode.Scalar =
            switch (entry.kind, entry.special) {
            case (.file, _): "-"
            case (.folder, _): "d"
            case (.link, _): "l"
            case (.special, .pipe): "p"
            case (.special, .socket): "s"
            case (.special, .characterDevice): "c"
            case (.special, .blockDevice): "b"
            case (.special, nil): "?"
            }
        var letters = [kind]
        for (shift, bit, mark) in [(6, 0o4000, "s"), (3, 0o2000, "s"), (0, 0o1000, "t")]
            as [(Int, UInt32, Unicode.Scalar)]
        {
            let rights = entry.mode >> UInt32(shift) & 7
            letters.append(rights & 4 == 0 ? "-" : "r")
            letters.append(rights & 2 == 0 ? "-" : "w")
            let runs = rights & 1 != 0
            if entry.mode & bit == 0 {
                letters.append(runs ? "x" : "-")
            } else {
                letters.append(runs ? mark : mark == "s" ? "S" : "T")
            }
        }
        return String(String.UnicodeScalarView(letters))
    }

    /// `2026-11-21 12:00`; a time no calendar has, as its number.
    static func time(_ seconds: Int64) -> String { LocalTime(seconds)?.minutes ?? String(seconds) }
}

/// A point in time as a clock on this wall shows it.
struct LocalTime {
    /// `2026-11-21 12:00`.
    let minutes: String
    let second: Int
    /// `+0100`.
    let zone: String

    /// Takes seconds since 1970; `nil` for a year that no calendar has.
    init?(_ seconds: Int64) {
        var time = time_t(seconds)
        var parts = unsafe tm()
        guard unsafe localtime_r(&time, &parts) != nil else { return nil }
        let (year, month) = unsafe (Int(parts.tm_year) + 1_900, Int(parts.tm_mon) + 1)
        let (day, hour, minute) = unsafe (Int(parts.tm_mday), Int(parts.tm_hour), Int(parts.tm_min))
        let offset = unsafe Int(parts.tm_gmtoff) / 60
        second = unsafe Int(parts.tm_sec)
        minutes =
            "\(Self.padded(year, 4))-\(Self.padded(month, 2))-\(Self.padded(day, 2)) "
            + "\(Self.padded(hour, 2)):\(Self.padded(minute, 2))"
        zone = (offset < 0 ? "-" : "+") + Self.padded(abs(offset) / 60, 2) + Self.padded(abs(offset) % 60, 2)
    }

    static func padded(_ number: Int, _ width: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(0, width - text.utf8.count)) + text
    }
}
