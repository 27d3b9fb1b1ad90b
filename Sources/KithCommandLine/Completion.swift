/// The completion at the cursor of a half-typed command line.
///
/// Holds what is known from the commands alone, and what is to be asked of others: devices, their folders, the files of
/// this one.
package struct Completion: Hashable, Sendable {
    /// One way to go on.
    package struct Candidate: Hashable, Sendable {
        /// The whole word, without quotes.
        package var word: String
        /// The explanation, in a few words; may be empty.
        package var help: String
        /// True when the word goes on: no blank follows.
        package var isPartial: Bool

        /// Makes a candidate.
        package init(_ word: String, help: String = "", isPartial: Bool = false) {
            self.word = word
            self.help = help
            self.isPartial = isPartial
        }
    }

    /// A source of more candidates; their words follow the stem.
    package enum Source: Hashable, Sendable {
        /// The names of devices.
        case devices
        /// The names of devices, each with a colon behind it for a path.
        case devicesForPaths
        /// The entries of a folder of a device that begin with `prefix`.
        case remote(device: String, folder: String, prefix: String)
        /// Files of this device.
        case files
        /// Folders of this device.
        case folders
        /// The names of the members of a method's input; of one that only `device` knows, as it says.
        case members(method: String, device: String?)
    }

    /// The known candidates, with the stem, filtered by what is typed.
    package private(set) var candidates: [Candidate] = []
    /// The sources to ask.
    package private(set) var sources: [Source] = []
    /// The part of the word before the one that is completed, as in `--on=`.
    package private(set) var stem = ""
    /// The part that is completed.
    package private(set) var typed: String
    /// The members of a JSON object that stand before the cursor.
    private var given: Set<String> = []

    /// Looks at the words after the program's name that stand before the cursor, and at the one it is in.
    package init(words: [String], current: String, root: CommandDescription) {
        typed = current
        if words.first == "help" {
            // The parser's own command: the words after it name a command.
            offerSubcommands(of: root.find(words.dropFirst()).command)
            return
        }
        let (path, command) = root.find(words)
        let rest = Array(words.dropFirst(path.count))
        if !command.subcommands.isEmpty, rest.allSatisfy({ $0.hasPrefix("-") }) {
            if current.hasPrefix("-") {
                offerNames(of: command, ArgumentScan(rest, of: command))
            } else {
                offerSubcommands(of: command)
            }
            return
        }
        let scan = ArgumentScan(rest, of: command)
        if let option = scan.awaited {
            offerValues(of: command.arguments[option])
        } else if current.hasPrefix("-"), !scan.isTerminated {
            let (name, value) = ArgumentScan.split(current)
            if let value {
                guard let index = command.index(named: name), command.arguments[index].kind == .option else { return }
                stem = name + "="
                typed = value
                offerValues(of: command.arguments[index])
            } else {
                offerNames(of: command, scan)
            }
        } else if let argument = scan.nextPositional {
            if command.arguments[argument].namesMethodInput {
                offerMembers(scan, rest)
            } else {
                offerValues(of: command.arguments[argument])
            }
        }
    }

    /// The input of the method that was typed before, where a member's name can stand.
    private mutating func offerMembers(_ scan: ArgumentScan, _ words: [String]) {
        let place = JSONPlace(typed)
        guard let start = place.nameStart,
            let method = zip(scan.roles, words).first(where: { if case .positional = $0.0 { true } else { false } })?.1
        else { return }
        var device: String?
        for (role, word) in zip(scan.roles, words) {
            switch role {
            case .names(let indices, let value?) where scan.command.arguments[indices.last ?? 0].namesDevice:
                device = value
            case .value(let index) where scan.command.arguments[index].namesDevice: device = word
            default: break
            }
        }
        given = place.given
        stem += start
        typed = String(typed.dropFirst(start.count))
        sources = [.members(method: method, device: device)]
    }

    /// Takes in the names of the members of an input.
    package mutating func add(members: [(name: String, help: String)]) {
        // Before the first character of an object there is its brace.
        let brace = stem.isEmpty && typed.isEmpty ? "{" : ""
        for member in members
        where !given.contains(member.name) && !member.name.contains(where: { "\"\\".contains($0) }) {
            offer(Candidate("\(brace)\"\(member.name)\":", help: member.help, isPartial: true))
        }
    }

    private mutating func offer(_ candidate: Candidate) {
        guard candidate.word.hasPrefix(typed), Self.isSafe(candidate.word) else { return }
        var candidate = candidate
        candidate.word = stem + candidate.word
        candidates.append(candidate)
    }

    private mutating func offerSubcommands(of command: CommandDescription) {
        for below in command.subcommands where below.shouldDisplay {
            offer(Candidate(below.name, help: below.abstract))
        }
    }

    private mutating func offerNames(of command: CommandDescription, _ scan: ArgumentScan) {
        for (index, argument) in command.arguments.enumerated() where argument.shouldDisplay {
            if scan.given.contains(index), !argument.isRepeating { continue }
            let long = argument.names.filter { $0.kind == "long" }
            for name in long.isEmpty ? argument.names : long {
                offer(Candidate(name.typed, help: Self.firstSentence(argument.abstract)))
            }
        }
    }

    private mutating func offerValues(of argument: CommandDescription.Argument) {
        if argument.namesRemotePath {
            offerPaths(argument)
            return
        }
        if argument.namesDevice {
            sources = [.devices]
            return
        }
        switch argument.values {
        case .words(let words):
            for word in words { offer(Candidate(word, isPartial: word.hasSuffix("="))) }
        case .file: sources = [.files]
        case .folder: sources = [.folders]
        case .any, .source: break
        }
    }

    private mutating func offerPaths(_ argument: CommandDescription.Argument) {
        let head = typed.prefix { $0 != ":" && $0 != "/" }
        guard !head.isEmpty, typed.dropFirst(head.count).first == ":" else {
            // By convention, help says DEVICE:PATH where a path of this device will not do.
            let isRemoteOnly = argument.abstract.contains("DEVICE:PATH")
            sources = head.count == typed.count ? [.devicesForPaths] : []
            if !isRemoteOnly { sources.append(.files) }
            return
        }
        let path = typed.dropFirst(head.count + 1)
        let name = path.lastIndex(of: "/").map { path[path.index(after: $0)...] } ?? path
        let folder = String(path.dropLast(name.count))
        stem += head + ":" + folder
        typed = String(name)
        sources = [.remote(device: String(head), folder: folder, prefix: typed)]
    }

    /// Takes in the names of devices.
    package mutating func add(devices: [(name: String, help: String)], withColon: Bool) {
        for device in devices {
            offer(Candidate(device.name + (withColon ? ":" : ""), help: device.help, isPartial: withColon))
        }
    }

    /// Takes in names from a folder.
    ///
    /// Those that begin with a dot are offered only when a dot is typed.
    package mutating func add(names: [(name: String, isFolder: Bool)], foldersOnly: Bool = false) {
        for (name, isFolder) in names where isFolder || !foldersOnly {
            if name.hasPrefix("."), !typed.hasPrefix(".") { continue }
            offer(Candidate(isFolder ? name + "/" : name, isPartial: isFolder))
        }
    }

    /// Goes on below a folder: from now on `name` is what is typed, and `folder` stands before it.
    package mutating func enter(_ folder: String) {
        guard typed.hasPrefix(folder) else { return }
        stem += folder
        typed = String(typed.dropFirst(folder.count))
    }

    /// Tells whether a word can be a line of its own between a program and a shell: no control characters.
    private static func isSafe(_ word: String) -> Bool {
        !word.isEmpty && word.unicodeScalars.allSatisfy { $0.value >= 0x20 && !(0x7F...0x9F).contains($0.value) }
    }

    /// Help short enough for a list.
    package static func firstSentence(_ text: String) -> String {
        guard let end = text.range(of: ". ") else { return text.hasSuffix(".") ? String(text.dropLast()) : text }
        return String(text[..<end.lowerBound])
    }
}

extension String {
    /// The first place of `text`, by simple search.
    fileprivate func range(of text: String) -> Range<Index>? {
        var start = startIndex
        while start < endIndex {
            if self[start...].hasPrefix(text) { return start..<index(start, offsetBy: text.count) }
            start = index(after: start)
        }
        return nil
    }
}
