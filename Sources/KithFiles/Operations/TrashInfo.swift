import Foundation

/// What is noted beside a thing in the trash: where it was, and when it was put there.
///
///     [Trash Info]
///     Path=reports/2024%20draft.txt
///     DeletionDate=2024-08-31T22:32:08
struct TrashInfo: Hashable, Sendable {
    /// The most bytes of such a file.
    static let maximumSize = 64 << 10

    /// From the top of the file system, or from that of the trash's own.
    var path: [UInt8]
    /// Seconds since 1970; `nil` when that cannot be read.
    var deleted: Int64?
    /// The inode of the thing, where others may take it away and leave the note; `nil`: the name says enough.
    var inode: UInt64?

    init(path: [UInt8], deleted: Int64?, inode: UInt64? = nil) {
        self.path = path
        self.deleted = deleted
        self.inode = inode
    }

    /// Reads such a file; `nil` when it is none, or its path is no path.
    init?(parsing text: [UInt8]) {
        var path: [UInt8]?
        var deleted: Int64?
        var inode: UInt64?
        var isInGroup = false
        for line in text.split(separator: UInt8(ascii: "\n")) {
            if line.first == UInt8(ascii: "[") {
                // Other programs may add groups of their own behind it.
                isInGroup = line.starts(with: "[Trash Info]".utf8)
            } else if isInGroup, path == nil, line.starts(with: "Path=".utf8) {
                path = Self.decoded(line.dropFirst(5))
            } else if isInGroup, deleted == nil, line.starts(with: "DeletionDate=".utf8) {
                deleted = Self.seconds(String(decoding: line.dropFirst(13).prefix(32), as: UTF8.self))
            } else if isInGroup, inode == nil, line.starts(with: "X-Kith-Inode=".utf8) {
                inode = UInt64(String(decoding: line.dropFirst(13).prefix(32), as: UTF8.self))
            }
        }
        guard let path, !path.isEmpty, path.count <= 4_096, !path.contains(0),
            !path.split(separator: UInt8(ascii: "/")).contains(where: { $0.elementsEqual("..".utf8) })
        else { return nil }
        self.init(path: path, deleted: deleted, inode: inode)
    }

    /// The text of the file.
    var text: [UInt8] {
        Array("[Trash Info]\nPath=".utf8) + Self.encoded(path)
            + Array("\nDeletionDate=\(Self.date(deleted ?? 0))\n".utf8)
            + Array((inode.map { "X-Kith-Inode=\($0)\n" } ?? "").utf8)
    }

    /// Percent-encoding (RFC 3986 §2.1) of all but unreserved characters and slashes.
    static func encoded(_ bytes: [UInt8]) -> [UInt8] {
        let digits = Array("0123456789ABCDEF".utf8)
        return bytes.flatMap { byte -> [UInt8] in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "~"), UInt8(ascii: "/"):
                [byte]
            default: [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
    }

    /// Takes percent-encoding away; what is none stays as it is.
    static func decoded(_ text: some Sequence<UInt8>) -> [UInt8] {
        let text = Array(text)
        var bytes: [UInt8] = []
        var index = 0
        while index < text.count {
            if text[index] == UInt8(ascii: "%"), index + 2 < text.count, let high = hex(text[index + 1]),
                let low = hex(text[index + 2])
            {
                bytes.append(high << 4 | low)
                index += 3
            } else {
                bytes.append(text[index])
                index += 1
            }
        }
        return bytes
    }

    private static func hex(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
        default: nil
        }
    }

    /// The time as clocks show it here.
    static func date(_ seconds: Int64) -> String {
        var time = time_t(seconds)
        var parts = unsafe tm()
        _ = unsafe localtime_r(&time, &parts)
        func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
        return unsafe "\(Int(parts.tm_year) + 1_900)-\(two(parts.tm_mon + 1))-\(two(parts.tm_mday))T"
            + "\(two(parts.tm_hour)):\(two(parts.tm_min)):\(two(parts.tm_sec))"
    }

    /// The seconds of a time as clocks show it here.
    static func seconds(_ date: String) -> Int64? {
        let numbers = date.split { $0 == "-" || $0 == "T" || $0 == ":" }.map { Int32($0.prefix(9)) }
        guard numbers.count == 6, let year = numbers[0], let month = numbers[1], let day = numbers[2],
            let hour = numbers[3], let minute = numbers[4], let second = numbers[5],
            (1_900...9_999).contains(year), (1...12).contains(month), (1...31).contains(day), (0...23).contains(hour),
            (0...59).contains(minute), (0...60).contains(second)
        else { return nil }
        var parts = unsafe tm()
        unsafe (parts.tm_year, parts.tm_mon, parts.tm_mday) = (year - 1_900, month - 1, day)
        unsafe (parts.tm_hour, parts.tm_min, parts.tm_sec, parts.tm_isdst) = (hour, minute, second, -1)
        let seconds = unsafe mktime(&parts)
        return seconds == -1 ? nil : Int64(seconds)
    }
}
