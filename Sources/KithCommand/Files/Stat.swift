import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine

/// `kith stat`.
struct StatCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stat",
        abstract: "Describe files or folders on a device.",
        discussion: helpText(
            """
              kith stat laptop:/srv/photos
              kith stat --json laptop:a laptop:b
              kith stat -c '%s %n' laptop:/var/log/syslog

            With -c: %n name, %N name with where a link leads, %s size, %b blocks of 512 bytes, %f kind and mode as a
            number in hex, %F kind, %a mode in octal, %A mode in letters, %u and %g numbers of owner and group, %U and
            %G what they are called there, %t and %T numbers of a device in hex, %h names, %i inode, %y time of change, %Y the same in seconds since 1970, %% a percent sign.
            """))

    @OptionGroup var globals: GlobalOptions
    @Flag(name: [.customShort("L"), .long], help: "Describe what a link leads to.") var dereference = false
    @Option(name: [.customShort("c"), .long], help: "Print this for each, with values for %s and the like.")
    var format: String?
    @Argument(help: "The files: DEVICE:PATH.") var paths: [RemotePath]

    func run() async throws {
        try await withClient(globals) { client in
            var list = try await PathList(paths, globals, client)
            try await list.forEach { path in
                let (device, file) = try path.remote()
                let entry = try await client.describe(file, followsLinks: dereference, on: device)
                if let format {
                    printLine(Self.filled(format, entry))
                } else {
                    printLine(globals.json ? try jsonText(entry) : Self.text(entry))
                }
            }
        }
    }

    /// The value for a letter of a format; `nil` for one that is not known.
    static func value(of letter: Character, _ entry: Files.Entry) -> String? {
        switch letter {
        case "n": return printable(entry.name.description)
        case "N":
            return printable(entry.name.description)
                + (entry.target.map { " -> " + printable($0.description) } ?? "")
        case "s": return String(entry.size)
        case "b": return entry.allocated.map { String($0 / 512) } ?? "?"
        case "f":
            let bits: UInt32? =
                switch (entry.kind, entry.special) {
                case (.file, _): 0o100000
                case (.folder, _): 0o040000
                case (.link, _): 0o120000
                case (.special, .pipe): 0o010000
                case (.special, .socket): 0o140000
                case (.special, .characterDevice): 0o020000
                case (.special, .blockDevice): 0o060000
                case (.special, nil): nil
                }
            return bits.map { String($0 | entry.mode, radix: 16) } ?? "?"
        case "F": return kindText(entry)
        case "a": return String(entry.mode, radix: 8)
        case "A": return String(decoding: entry.modeText, as: UTF8.self)
        case "U": return printable(entry.userName ?? "UNKNOWN")
        case "G": return printable(entry.groupName ?? "UNKNOWN")
        case "t": return String(entry.deviceNumbers?.major ?? 0, radix: 16)
        case "T": return String(entry.deviceNumbers?.minor ?? 0, radix: 16)
        case "u": return String(entry.user)
        case "g": return String(entry.group)
        case "h": return entry.links.map { String($0) } ?? "?"
        case "i": return entry.inode.map { String($0) } ?? "?"
        case "y": return timeText(entry)
        case "Y": return String(entry.modified)
        case "%": return "%"
        default: return nil
        }
    }

    /// A format with what its letters stand for.
    static func filled(_ format: String, _ entry: Files.Entry) -> String {
        var result = ""
        var rest = format[...]
        while let character = rest.popFirst() {
            guard character == "%", let letter = rest.first, let value = value(of: letter, entry) else {
                result.append(character)
                continue
            }
            rest.removeFirst()
            result += value
        }
        return result
    }

    static func text(_ entry: Files.Entry) -> String {
        func value(_ letter: Character) -> String { Self.value(of: letter, entry) ?? "" }
        let octal = String(entry.mode, radix: 8)
        let mode = String(repeating: "0", count: max(0, 4 - octal.count)) + octal
        return """
              File: \(value("N"))
              Size: \(value("s"))\tBlocks: \(value("b"))\t\(value("F"))
             Inode: \(value("i"))\tLinks: \(value("h"))
            Access: (\(mode)/\(value("A")))\tUid: (\(value("u"))/\(value("U")))\tGid: (\(value("g"))/\(value("G")))
            Modify: \(value("y"))
            """
    }

    private static func kindText(_ entry: Files.Entry) -> String {
        switch entry.kind {
        case .file: entry.size == 0 ? "regular empty file" : "regular file"
        case .folder: "directory"
        case .link: "symbolic link"
        case .special:
            switch entry.special {
            case .pipe: "fifo"
            case .socket: "socket"
            case .characterDevice: "character special file"
            case .blockDevice: "block special file"
            case nil: "special file"
            }
        }
    }

    /// `2026-11-21 12:00:00.123456789 +0100`.
    static func timeText(_ entry: Files.Entry) -> String {
        guard let time = LocalTime(entry.modified) else { return String(entry.modified) }
        return "\(time.seconds).\(CalendarTime.padded(entry.modifiedNanoseconds, 9)) \(time.zone)"
    }
}
