import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

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
    @Flag(name: .customLong("or", withSingleDash: true), help: "The test before it or the one behind is enough.")
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
                    showSkipped(found.skipped, in: path)
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

    /// The form in which matches are printed.
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
func joined(_ base: RemotePath, _ path: Files.Path, withDevice: Bool) -> Files.Path {
    var bytes = Array((withDevice ? base.description : base.path).utf8)
    if !path.bytes.isEmpty {
        if bytes.last != UInt8(ascii: "/") { bytes.append(UInt8(ascii: "/")) }
        bytes += path.bytes
    }
    return Files.Path(bytes: bytes)
}

/// Says what could not be looked into.
func showSkipped(_ skipped: [Files.Skipped], in path: RemotePath) {
    for entry in skipped {
        let name = joined(path, entry.path, withDevice: true).description
        note(leftOut(name, because: entry.failure.message, of: entry.path))
    }
}
