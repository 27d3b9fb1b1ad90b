import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// `kith stat`.
struct StatFile: AsyncParsableCommand {
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
    @Option(name: [.customShort("c"), .long], help: "Print this for each, with what stands for %s and its kin.")
    var format: String?
    @Argument(help: "The files: DEVICE:PATH.") var paths: [RemotePath]

    func run() async throws {
        try await withClient(globals) { client in
            var list = try await PathList(paths, globals, client)
            try await list.forEach { path in
                let (device, file) = try path.remote()
                let entry = try await client.describe(file, followsLinks: dereference, on: device)
                if let format {
                    say(Self.filled(format, entry))
                } else {
                    say(globals.json ? try jsonText(entry) : Self.text(entry))
                }
            }
        }
    }

    /// What stands for a letter of a format; `nil` for one that is not known.
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
        case "A": return LongListing.mode(entry)
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
        let fraction = String(entry.modifiedNanoseconds)
        return time.minutes + ":" + LocalTime.padded(time.second, 2) + "."
            + String(repeating: "0", count: max(0, 9 - fraction.count)) + fraction + " " + time.zone
    }
}

/// `kith find`.
struct FindCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "find",
        abstract: "Search folders on a device; the search is done there.",
        discussion: helpText(
            """
              kith find laptop:/srv -name '*.jpg' -size +1M
              kith find laptop:~/src -type f -mtime -7 -maxdepth 3
              kith find laptop:~ \\( -name '*.jpg' -or -name '*.png' \\) -not -path '*/tmp/*'
              kith find laptop:/srv -iname '*.tmp' -exec kith rm {} +
              kith find laptop:/srv -iname '*.tmp' -print0 --with-device | xargs -0 kith rm

            All tests must be met; -or (-o) between two of them wants one of what stands before and behind it, -not (!)
            takes the next one the other way round, and \\( … \\) goes first. Links are not followed. Each line is one
            path with what a terminal might obey made visible; -print0 prints the exact bytes with a NUL behind each.

            -exec runs a command here, for all that is found: {} is DEVICE:PATH, as other commands of kith take it. With
            ';' at the end it runs once for each; with {} + for many at once. Then nothing is printed, unless with -print;
            the status is 1 when one of them failed.
            """))

    @OptionGroup var globals: GlobalOptions
    @Option(
        name: .customLong("name", withSingleDash: true), parsing: .unconditionalSingleValue,
        help: ArgumentHelp("The name matches this pattern: *, ?, [a-z].", valueName: "pattern"))
    var names: [String] = []
    @Option(
        name: .customLong("iname", withSingleDash: true), parsing: .unconditionalSingleValue,
        help: ArgumentHelp("The same, whatever the case.", valueName: "pattern"))
    var inames: [String] = []
    @Option(
        name: .customLong("path", withSingleDash: true), parsing: .unconditionalSingleValue,
        help: ArgumentHelp("The whole path matches; * matches slashes, too.", valueName: "pattern"))
    var pathPatterns: [String] = []
    @Option(
        name: .customLong("ipath", withSingleDash: true), parsing: .unconditionalSingleValue,
        help: ArgumentHelp("The same, whatever the case.", valueName: "pattern"))
    var ipathPatterns: [String] = []
    @Option(
        name: .customLong("type", withSingleDash: true),
        help: ArgumentHelp(
            "f file, d folder, l link, p pipe, s socket, b or c device; several with commas.", valueName: "types"))
    var types: String?
    @Option(
        name: .customLong("size", withSingleDash: true), parsing: .unconditionalSingleValue,
        help: ArgumentHelp(
            "Its size, rounded up, in blocks of 512 bytes, or with c bytes, k, M, G; + more, - less.",
            valueName: "n"))
    var sizes: [String] = []
    @Option(
        name: .customLong("mtime", withSingleDash: true), parsing: .unconditionalSingleValue,
        help: ArgumentHelp("Whole days since it was changed; + more, - less.", valueName: "n"))
    var days: [String] = []
    @Option(
        name: .customLong("mmin", withSingleDash: true), parsing: .unconditionalSingleValue,
        help: ArgumentHelp("Minutes since it was changed; + more, - less.", valueName: "n"))
    var minutes: [String] = []
    @Option(
        name: .customLong("maxdepth", withSingleDash: true),
        help: ArgumentHelp("At most so many levels below, 0 or more.", valueName: "levels"))
    var maxdepth: UInt32?
    @Option(
        name: .customLong("mindepth", withSingleDash: true),
        help: ArgumentHelp("At least so many levels below, 0 or more.", valueName: "levels"))
    var mindepth: UInt32 = 0
    @Flag(name: .customLong("xdev", withSingleDash: true), help: "Stay on one file system.") var oneFileSystem = false
    @Flag(name: .customLong("print0", withSingleDash: true), help: "Print a NUL behind each path, and the exact bytes.")
    var print0 = false
    @Flag(name: .customLong("ls", withSingleDash: true), help: "Print mode, owner, size and time, too.") var long =
        false
    @Flag(help: "Print DEVICE: before each path, as other commands take it.") var withDevice = false
    // These three stand for what WordForms has taken out of the line before: here they say that it can be there.
    @Flag(name: .customLong("or", withSingleDash: true), help: "One of what is before and behind it is enough.")
    var isAlternative = false
    @Flag(name: .customLong("not", withSingleDash: true), help: "The next test must not be met.") var isNot = false
    @Option(
        name: .customLong("exec", withSingleDash: true),
        help: ArgumentHelp("Run this for each, ending with ';'; for many at once with {} +.", valueName: "command"))
    var command: String?
    @Flag(name: .long, help: .hidden) var print = false
    @Option(name: .long, help: .hidden) var expression: String?
    @Option(name: .long, help: .hidden) var each: String?
    @Option(name: .long, help: .hidden) var together: String?
    @Argument(help: "Where to search: DEVICE:PATH.") var paths: [RemotePath]

    func validate() throws {
        guard !isAlternative, !isNot, command == nil else {
            throw ValidationError("-or, -not and -exec stand among the tests on the command line.")
        }
        _ = try filter()
    }

    func run() async throws {
        let filter = try filter()
        var action = try FindAction(each: each, together: together)
        var isComplete = true
        let form = Form(isJSON: globals.json, isExact: print0, isLong: long, withDevice: withDevice)
        try await withClient(globals) { client in
            try await forEach(paths, globals) { path in
                let (device, folder) = try path.remote()
                let input = Files.Find.Input(
                    path: folder, filter: filter, minimumDepth: mindepth, maximumDepth: maxdepth,
                    oneFileSystem: oneFileSystem, details: long || globals.json, namesOnly: !long && !globals.json)
                let check = try FoundCheck(input, from: device)
                let stream = try await client.open(Files.Find.self, input, on: device).stream
                for try await packed in stream.messages {
                    let found: Files.Found
                    do {
                        found = try packed.unpacked()
                        try check.check(found)
                        try Self.checkSpecials(found, filter, device)
                    } catch {
                        stream.abort(.cancelled)
                        throw error
                    }
                    if action == nil || print {
                        let output = try form.lines(of: found.entries, in: path)
                        if !output.isEmpty { try writeOutput(Data(output)) }
                    }
                    if action != nil {
                        for entry in found.entries {
                            try await action?.take(joined(path, entry.name, withDevice: true))
                        }
                    }
                    tell(found.skipped, in: path)
                    if found.skippedCount > 0 { isComplete = false }
                    if let failure = found.failure { throw failure.error }
                    if found.isLast { return }
                }
                throw KithError(.closed, "The search in \(path) was interrupted. Try again.")
            }
        }
        try await action?.finish()
        if !isComplete || action?.isGood == false { throw ExitCode(KithError.Code.internal.exitStatus) }
    }

    /// Refuses what a device with an older kith lists for a question it does not understand.
    private static func checkSpecials(
        _ found: Files.Found, _ filter: Files.Filter, _ device: String
    ) throws(KithError) {
        guard found.entries.contains(where: { $0.kind == .special && $0.special == nil }), asksForSpecials(filter)
        else { return }
        throw KithError(
            .unsupported,
            "The kith on \(device) is older and does not tell pipes, sockets and devices apart. Update it.")
    }

    private static func asksForSpecials(_ filter: Files.Filter) -> Bool {
        !filter.specials.isEmpty || (filter.allOf + filter.anyOf + filter.noneOf).contains(where: asksForSpecials)
    }

    /// How what was found is printed.
    private struct Form {
        var isJSON: Bool
        var isExact: Bool
        var isLong: Bool
        var withDevice: Bool

        func lines(of entries: [Files.Entry], in path: RemotePath) throws -> [UInt8] {
            var output: [UInt8] = []
            for entry in entries {
                let name = joined(path, entry.name, withDevice: withDevice)
                if isExact {
                    output += name.bytes
                    output.append(0)
                    continue
                }
                if isJSON {
                    var entry = entry
                    entry.name = name
                    let encoder = JSONEncoder()
                    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
                    output += try encoder.encode(entry)
                } else if isLong {
                    LongListing.unmeasured.append(entry, name: printable(name.bytes), to: &output)
                } else {
                    output += printable(name.bytes)
                }
                output.append(UInt8(ascii: "\n"))
            }
            return output
        }
    }

    private func filter() throws -> Files.Filter {
        var filter = Files.Filter()
        filter.patterns =
            names.map { Files.Filter.Pattern($0) } + inames.map { Files.Filter.Pattern($0, ignoresCase: true) }
            + pathPatterns.map { Files.Filter.Pattern($0, isPath: true) }
            + ipathPatterns.map { Files.Filter.Pattern($0, isPath: true, ignoresCase: true) }
        if let types { (filter.kinds, filter.specials) = try FindExpression.kinds(types) }
        for size in sizes { try Self.narrow(&filter.size, Self.sizeBounds(size)) }
        for age in days { try Self.narrow(&filter.age, Self.ageBounds(age, unit: 86_400, isRounded: true, "-mtime")) }
        for age in minutes { try Self.narrow(&filter.age, Self.ageBounds(age, unit: 60, isRounded: false, "-mmin")) }
        let words = try WordForms.words(expression)
        if !words.isEmpty { filter.allOf = [try FindExpression.filter(words)] }
        return filter
    }

    private static func narrow(_ bounds: inout Files.Filter.Bounds, _ other: Files.Filter.Bounds) {
        bounds.minimum = [bounds.minimum, other.minimum].compactMap(\.self).max()
        bounds.maximum = [bounds.maximum, other.maximum].compactMap(\.self).min()
    }

    /// `+1M` and its kin: the size is rounded up to the unit before it is compared.
    static func sizeBounds(_ text: String) throws -> Files.Filter.Bounds {
        let sign = text.first.flatMap { "+-".contains($0) ? $0 : nil }
        let body = sign == nil ? text[...] : text.dropFirst()
        let digits = body.prefix { $0.isASCII && $0.isNumber }
        let units: [Substring: UInt64] = [
            "": 512, "b": 512, "c": 1, "w": 2, "k": 1 << 10, "M": 1 << 20, "G": 1 << 30,
        ]
        guard let count = UInt64(digits), let unit = units[body.dropFirst(digits.count)], count <= .max / unit / 2
        else { throw ValidationError("-size takes a number with c, k, M or G behind, and + or - before: +1M.") }
        switch sign {
        case "+": return Files.Filter.Bounds(minimum: count * unit + 1)
        case "-":
            // Nothing is smaller than nothing: what no size meets.
            if count == 0 { return Files.Filter.Bounds(minimum: 1, maximum: 0) }
            return Files.Filter.Bounds(maximum: (count - 1) * unit)
        default: return Files.Filter.Bounds(minimum: count == 0 ? 0 : (count - 1) * unit + 1, maximum: count * unit)
        }
    }

    /// `-7` and its kin, in seconds; of days only whole ones count.
    static func ageBounds(_ text: String, unit: UInt64, isRounded: Bool, _ name: String) throws -> Files.Filter.Bounds {
        let sign = text.first.flatMap { "+-".contains($0) ? $0 : nil }
        guard let count = UInt64(sign == nil ? text[...] : text.dropFirst()), count <= 1 << 32 else {
            throw ValidationError("\(name) takes a number, with + or - before: -7.")
        }
        switch sign {
        case "+": return Files.Filter.Bounds(minimum: isRounded ? (count + 1) * unit : count * unit + 1)
        case "-":
            if count == 0 { return Files.Filter.Bounds(minimum: 1, maximum: 0) }
            return Files.Filter.Bounds(maximum: count * unit - 1)
        default: return Files.Filter.Bounds(minimum: count * unit, maximum: (count + 1) * unit - 1)
        }
    }
}

/// A path beneath one that was typed.
private func joined(_ base: RemotePath, _ path: Files.Path, withDevice: Bool) -> Files.Path {
    var bytes = Array((withDevice ? base.description : base.path).utf8)
    if !path.bytes.isEmpty {
        if bytes.last != UInt8(ascii: "/") { bytes.append(UInt8(ascii: "/")) }
        bytes += path.bytes
    }
    return Files.Path(bytes: bytes)
}

/// Says what could not be looked into.
private func tell(_ skipped: [Files.Skipped], in path: RemotePath) {
    for entry in skipped {
        let name = joined(path, entry.path, withDevice: true).description
        note(leftOut(name, because: entry.failure.message, of: entry.path))
    }
}

/// `kith du`.
struct UsageCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "du",
        abstract: "Add up what folders take on a device's disk; the counting is done there.",
        discussion: helpText(
            """
              kith du -sh laptop:/srv laptop:~
              kith du -h -d 1 laptop:~
              kith du -s --apparent-size laptop:disk.img

            In blocks of 1024 bytes, rounded up, unless told otherwise. A file with several names counts once, holes of
            files do not count, links are not followed.
            """), helpNames: .long)

    @OptionGroup var globals: GlobalOptions
    @Flag(name: [.short, .long], help: "Print one sum for each path.") var summarize = false
    @Flag(name: [.short, .long], help: "Print sizes as 1.5K, 20M, 3.0G.") var humanReadable = false
    @Flag(name: [.short, .long], help: "Print files, too.") var all = false
    @Option(name: [.customShort("d"), .long], help: "Print folders down to so many levels below, 0 or more.")
    var maxDepth: UInt32?
    @Flag(help: "Add up the sizes of the files, not what they take on the disk.") var apparentSize = false
    @Flag(name: [.short, .long], help: "Print bytes: the sizes of the files.") var bytes = false
    @Flag(name: [.customShort("c"), .long], help: "Print the sum of all paths, too.") var total = false
    @Flag(name: [.customShort("x"), .long], help: "Stay on one file system.") var oneFileSystem = false
    @Argument(help: "The folders or files: DEVICE:PATH.") var paths: [RemotePath]

    func validate() throws {
        guard !summarize || (!all && (maxDepth ?? 0) == 0) else {
            throw ValidationError("-s prints one sum: neither -a nor -d goes with it.")
        }
    }

    /// What `--json` prints, a line each.
    private struct Line: Encodable {
        var path: String
        var allocated: UInt64
        var apparent: UInt64
    }

    func run() async throws {
        var sum = Files.Used.Item(path: "", allocated: 0, apparent: 0)
        var isComplete = true
        try await withClient(globals) { client in
            var list = try await PathList(paths, globals, client)
            try await list.forEach { path in
                let (device, folder) = try path.remote()
                let input = Files.Usage.Input(
                    path: folder, maximumDepth: summarize ? 0 : maxDepth, files: all, oneFileSystem: oneFileSystem)
                let check = UsedCheck(input, from: device)
                let stream = try await client.open(Files.Usage.self, input, on: device).stream
                for try await used in stream.messages {
                    do {
                        try check.check(used)
                    } catch {
                        stream.abort(.cancelled)
                        throw error
                    }
                    var output = ""
                    for item in used.items {
                        if item.path.bytes.isEmpty {
                            sum.allocated.saturatingAdd(item.allocated)
                            sum.apparent.saturatingAdd(item.apparent)
                        }
                        output += try line(item, joined(path, item.path, withDevice: false).description) + "\n"
                    }
                    if !output.isEmpty { try writeOutput(Data(output.utf8)) }
                    tell(used.skipped, in: path)
                    if used.skippedCount > 0 { isComplete = false }
                    if let failure = used.failure { throw failure.error }
                    if used.isLast { return }
                }
                throw KithError(.closed, "Counting \(path) was interrupted. Try again.")
            }
        }
        if total { say(try line(sum, "total")) }
        if !isComplete { throw ExitCode(KithError.Code.internal.exitStatus) }
    }

    private func line(_ item: Files.Used.Item, _ name: String) throws -> String {
        if globals.json {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            let line = Line(path: name, allocated: item.allocated, apparent: item.apparent)
            return String(decoding: try encoder.encode(line), as: UTF8.self)
        }
        let size = apparentSize || bytes ? item.apparent : item.allocated
        let text =
            humanReadable
            ? Self.humanSize(size) : bytes ? String(size) : String(size / 1_024 + (size % 1_024 > 0 ? 1 : 0))
        return "\(text)\t\(printable(name))"
    }

    /// `1.5K`, `20M`: in powers of 1024, rounded up, as du -h prints them.
    static func humanSize(_ bytes: UInt64) -> String {
        guard bytes >= 1_024 else { return String(bytes) }
        var unit: UInt64 = 1_024
        for letter in "KMGTPE" {
            let whole = bytes / unit
            if whole < 1_024 || letter == "E" {
                let rest = bytes % unit
                if whole < 10 {
                    // Rounded up to a tenth, which may make it ten.
                    let value = whole * 10 + (rest * 10 + unit - 1) / unit
                    if value < 100 { return "\(value / 10).\(value % 10)\(letter)" }
                    return "10\(letter)"
                }
                let rounded = whole + (rest > 0 ? 1 : 0)
                if rounded < 1_024 || letter == "E" { return "\(rounded)\(letter)" }
            }
            let (next, isTooLarge) = unit.multipliedReportingOverflow(by: 1_024)
            if isTooLarge { break }
            unit = next
        }
        return String(bytes)
    }
}
