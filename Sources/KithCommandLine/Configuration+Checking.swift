extension Configuration {
    /// The problems of the settings, given the commands there are: unknown commands, keys and values, and doubles.
    package func problems(for root: CommandDescription) -> [Problem] {
        var problems: [Problem] = []
        for section in sections {
            let commands: [CommandDescription]
            switch section.scope {
            case .everything:
                commands = root.all.map(\.command)
            case .command(let path):
                let found = root.find(path)
                guard found.path.count == path.count else {
                    let hint = Self.hint(path.last ?? "", found.command.subcommands.map(\.name))
                    problems.append(
                        Problem(
                            line: section.line,
                            message: "there is no command \(Self.named(path.joined(separator: " ")))\(hint)"))
                    continue
                }
                commands = found.command.all.map(\.command)
            case .device(let patterns):
                if !patterns.contains(where: { !$0.hasPrefix("!") }) {
                    problems.append(
                        Problem(line: section.line, message: "only exclamation marks: no device is meant; add *"))
                }
                commands = root.all.map(\.command).filter { $0.takesDevice }
            }
            problems += self.problems(in: section, commands: commands, root)
        }
        return problems.sorted { $0.line < $1.line }
    }

    private func problems(
        in section: Section, commands: [CommandDescription], _ root: CommandDescription
    ) -> [Problem] {
        var problems: [Problem] = []
        var seen: [String: Int] = [:]
        for setting in section.settings {
            var commands = commands
            var isDevice = false
            if case .device = section.scope {
                if let path = setting.command {
                    let found = root.find(path)
                    guard found.path.count == path.count, found.command.takesDevice else {
                        problems.append(
                            Problem(
                                line: setting.line,
                                message: "no command \(Self.named(path.joined(separator: " "))) takes a device"))
                        continue
                    }
                    commands = [found.command]
                }
                isDevice = setting.key == "device" && setting.command == nil
            }
            let arguments = commands.compactMap { $0.settable(setting.key) }
            guard isDevice || !arguments.isEmpty else {
                problems.append(Problem(line: setting.line, message: unknown(setting, in: section, commands, root)))
                continue
            }
            let identity = ((setting.command ?? []) + [setting.key]).joined(separator: ".")
            if let first = seen[identity], isDevice || !arguments.contains(where: \.isRepeating) {
                problems.append(
                    Problem(
                        line: setting.line, message: "\(Self.named(identity)) is set already, in line \(first)"))
            }
            seen[identity] = seen[identity] ?? setting.line
            if isDevice {
                if setting.value.isEmpty || setting.value.contains(where: { $0 == "/" || $0 == ":" }) {
                    problems.append(
                        Problem(line: setting.line, message: "device takes a name, or the beginning of a DeviceID"))
                }
            } else if let problem = Self.problem(with: setting, arguments) {
                problems.append(problem)
            }
        }
        return problems
    }

    private static func problem(with setting: Setting, _ arguments: [CommandDescription.Argument]) -> Problem? {
        if arguments.allSatisfy({ $0.kind == .flag }) {
            guard boolean(setting.value) == nil else { return nil }
            return Problem(
                line: setting.line, message: "\(named(setting.key)) is yes or no, not \(named(setting.value))")
        }
        guard !setting.value.utf8.contains(0) else {
            return Problem(line: setting.line, message: "the value has a NUL in it")
        }
        return nil
    }

    private func unknown(
        _ setting: Setting, in section: Section, _ commands: [CommandDescription], _ root: CommandDescription
    ) -> String {
        var keys: [String] = commands.flatMap { $0.settable.compactMap(\.key) }
        if case .device = section.scope { keys.append("device") }
        let hint = Self.hint(setting.key, keys)
        if hint.isEmpty, let owner = root.all.first(where: { $0.command.settable(setting.key) != nil }) {
            return
                "unknown setting \(Self.named(setting.key)) here; it belongs in [\(owner.path.joined(separator: " "))]"
        }
        return "unknown setting \(Self.named(setting.key)) \(section.scope.phrase)\(hint)"
    }

    /// Text of the file, safe for a terminal.
    private static func named(_ text: String) -> String {
        let plain = text.unicodeScalars.prefix(60).map { $0.value < 0x20 || $0.value == 0x7F ? "?" : Character($0) }
        return "“\(String(plain))”"
    }

    /// `; did you mean “X”?` with the candidate that is nearest to `word`, when one is near.
    private static func hint(_ word: String, _ candidates: [String]) -> String {
        guard let nearest = nearest(to: word, among: candidates) else { return "" }
        return "; did you mean “\(nearest)”?"
    }

    /// The candidate that takes the fewest changes to `word`, at most a third of its letters.
    package static func nearest(to word: String, among candidates: [String]) -> String? {
        guard word.utf8.count <= 64 else { return nil }
        func plain(_ text: String) -> [Character] { text.lowercased().map { $0 == "_" ? "-" : $0 } }
        let wanted = plain(word)
        var best: (distance: Int, name: String)?
        for candidate in candidates {
            let distance = distance(wanted, plain(candidate))
            if best.map({ distance < $0.distance || (distance == $0.distance && candidate < $0.name) }) ?? true {
                best = (distance, candidate)
            }
        }
        guard let best, best.distance <= max(1, min(wanted.count, best.name.count) / 3 + 1) else { return nil }
        return best.name
    }

    /// The number of letters to insert, remove, replace or swap.
    private static func distance(_ left: [Character], _ right: [Character]) -> Int {
        var before: [Int] = []
        var previous = Array(0...right.count)
        for i in left.indices {
            var row = [i + 1]
            for j in right.indices {
                var least = min(previous[j + 1] + 1, row[j] + 1, previous[j] + (left[i] == right[j] ? 0 : 1))
                if i > 0, j > 0, left[i] == right[j - 1], left[i - 1] == right[j] {
                    least = min(least, before[j - 1] + 1)
                }
                row.append(least)
            }
            (before, previous) = (previous, row)
        }
        return previous[right.count]
    }
}

extension Configuration.Scope {
    /// For a sentence: `in [shell]`.
    fileprivate var phrase: String {
        if case .everything = self { "before the first section" } else { "in \(text)" }
    }
}

extension CommandDescription {
    /// True when one of its values names a device, or a path on one.
    package var takesDevice: Bool { arguments.contains { $0.namesDevice || $0.namesRemotePath } }
}
