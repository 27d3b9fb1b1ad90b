import Foundation
import KithAPI
import KithCommandLine

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
            widths.user = max(widths.user, Self.width(Self.user(entry)))
            widths.group = max(widths.group, Self.width(Self.group(entry)))
            widths.size = max(widths.size, size(entry).utf8.count)
        }
    }

    /// Appends the line of one, with the name as it is to be shown.
    func append(_ entry: Files.Entry, name: [UInt8], to output: inout [UInt8]) {
        let (links, size) = (Self.links(entry), size(entry))
        let (user, group) = (Self.user(entry), Self.group(entry))
        func pad(_ count: Int) { if count > 0 { output.append(contentsOf: repeatElement(Self.blank, count: count)) } }
        output.append(contentsOf: entry.modeText)
        pad(1 + max(0, widths.links - links.utf8.count))
        output.append(contentsOf: links.utf8)
        pad(1)
        output.append(contentsOf: user.utf8)
        pad(1 + max(0, widths.user - Self.width(user)))
        output.append(contentsOf: group.utf8)
        pad(1 + max(0, widths.group - Self.width(group)) + max(0, widths.size - size.utf8.count))
        output.append(contentsOf: size.utf8)
        pad(1)
        output.append(contentsOf: Self.time(entry.modified).utf8)
        pad(1)
        output.append(contentsOf: name)
        guard let target = entry.target else { return }
        output.append(contentsOf: " -> ".utf8)
        output.append(contentsOf: printable(target.bytes))
    }

    /// The listing of what comes without having been measured, in columns that most things fit in.
    static let unmeasured = {
        var listing = LongListing([])
        listing.widths = (3, 8, 8, 10)
        return listing
    }()

    private static let blank = UInt8(ascii: " ")

    /// The number of columns of a name.
    private static func width(_ text: String) -> Int {
        text.utf8.allSatisfy { $0 < 0x80 } ? text.utf8.count : text.count
    }

    private func size(_ entry: Files.Entry) -> String {
        if let numbers = entry.deviceNumbers { return "\(numbers.major), \(numbers.minor)" }
        return isHuman ? DuCommand.humanSize(entry.size) : String(entry.size)
    }

    /// The number of its names; an older kith does not report it.
    private static func links(_ entry: Files.Entry) -> String { entry.links.map { String($0) } ?? "?" }
    private static func user(_ entry: Files.Entry) -> String { entry.userName.map(printable) ?? String(entry.user) }
    private static func group(_ entry: Files.Entry) -> String { entry.groupName.map(printable) ?? String(entry.group) }

    /// `2026-11-21 12:00`; a time no calendar has, as its number.
    static func time(_ seconds: Int64) -> String { LocalTime(seconds)?.minutes ?? String(seconds) }
}

/// A point in time as a clock on this wall shows it.
struct LocalTime {
    private let time: CalendarTime
    /// `+0100`.
    let zone: String

    /// Takes seconds since 1970; `nil` for a year that no calendar has.
    init?(_ seconds: Int64) {
        var number = time_t(seconds)
        var parts = unsafe tm()
        guard unsafe localtime_r(&number, &parts) != nil else { return nil }
        let offset = unsafe Int(parts.tm_gmtoff)
        time = CalendarTime(seconds, offset: offset)
        let minutes = abs(offset) / 60
        zone = (offset < 0 ? "-" : "+") + CalendarTime.padded(minutes / 60, 2) + CalendarTime.padded(minutes % 60, 2)
    }

    /// `2026-11-21 12:00`.
    var minutes: String { time.minutes }

    /// `2026-11-21 12:00:30`.
    var seconds: String { "\(time.minutes):\(CalendarTime.padded(time.second, 2))" }
}
