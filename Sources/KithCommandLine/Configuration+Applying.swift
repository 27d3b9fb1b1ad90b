extension Configuration {
    /// The origin of an option's value.
    package enum Origin: Hashable, Sendable {
        /// The command line.
        case commandLine
        /// This variable of the environment.
        case environment(String)
        /// This line of the file.
        case file(line: Int)
        /// Nowhere: it is what the command does by itself.
        case standard
    }

    /// The value an option has.
    package struct Effect: Hashable, Sendable {
        /// The option's name in the file.
        package var key: String
        /// Its value; `yes` or `no` of a flag, `nil` when it has none.
        package var value: String?
        /// The origin of the value.
        package var origin: Origin
    }

    /// A command line with the settings put in.
    package struct Applied: Hashable, Sendable {
        /// The words for the command's parser, without those that name the command.
        package var words: [String]
        /// The words put in, with the lines they come from, in the order of ``words``.
        package var inserted: [(word: String, line: Int)]

        package static func == (left: Applied, right: Applied) -> Bool {
            left.words == right.words && left.inserted.elementsEqual(right.inserted, by: ==)
        }

        package func hash(into hasher: inout Hasher) { hasher.combine(words) }
    }

    /// The variables of the environment that stand for an option.
    package static let variables = [
        "data": "KITH_DATA", "key-log": "SSLKEYLOGFILE", "library": "KITH_LIBRARY", "plain": "KITH_PLAIN",
    ]

    /// Puts settings into a command line, in front of its own words.
    ///
    /// The command line counts first, then the environment, then the sections of the devices it names, in the
    /// order of the file, then the command's section, then those above it. An option that may be repeated has all its
    /// values from the first of them that sets it. Names of devices are replaced by what they mean in the file.
    /// `--FLAG=no` takes back what the file sets for a flag, `--FLAG=yes` is the flag itself.
    ///
    /// - Throws: the line whose value is wrong.
    package func apply(
        to words: [String], path: [String], command: CommandDescription, environment: [String: String]
    ) throws(Problem) -> Applied {
        let (words, decided) = Self.withPlainFlags(words, command)
        let scan = ArgumentScan(words, of: command)
        var handled = scan.given.union(decided)
        for (key, variable) in Self.variables where environment[variable]?.isEmpty == false {
            if let index = command.arguments.firstIndex(where: { $0.key == key }) { handled.insert(index) }
        }
        var applied = Applied(words: [], inserted: [])
        for section in matching(path, devices: Self.devices(in: words, scan, command)) {
            var fresh: Set<Int> = []
            for setting in section.settings where setting.command == nil || setting.command == path {
                guard let argument = command.settable(setting.key),
                    let index = command.arguments.firstIndex(of: argument), !handled.contains(index)
                else { continue }
                fresh.formUnion(command.counterparts(of: index))
                if let word = try Self.word(for: setting, argument, command) {
                    applied.inserted.append((word, setting.line))
                }
            }
            handled.formUnion(fresh)
        }
        applied.words = applied.inserted.map(\.word) + replacingNames(in: words, scan, command)
        return applied
    }

    /// The value of every option of a command when it is used on `device`, and where it comes from.
    package func effects(
        on device: String?, path: [String], command: CommandDescription, environment: [String: String]
    ) -> [Effect] {
        let sections = matching(path, devices: device.map { [$0] } ?? [])
        var effects: [Effect] = []
        if let device, command.takesDevice, let (name, line) = meaning(of: device) {
            effects.append(Effect(key: "device", value: name, origin: .file(line: line)))
        }
        for argument in command.settable where argument.shouldDisplay {
            guard let key = argument.key else { continue }
            if let variable = Self.variables[key], let value = environment[variable], !value.isEmpty {
                effects.append(Effect(key: key, value: value, origin: .environment(variable)))
                continue
            }
            let found = sections.lazy.map { section in
                section.settings.filter {
                    ($0.command == nil || $0.command == path) && command.settable($0.key) == argument
                }
            }.first { !$0.isEmpty }
            if let found {
                effects += found.map { Effect(key: key, value: $0.value, origin: .file(line: $0.line)) }
            } else {
                let value = argument.defaultValue ?? (argument.kind == .flag ? "no" : nil)
                effects.append(Effect(key: key, value: value, origin: .standard))
            }
        }
        return effects
    }

    /// The device that a name means, and the line of settings that decides it; `nil` when it means itself.
    package func meaning(of device: String) -> (name: String, line: Int)? {
        for section in sections {
            guard case .device(let patterns) = section.scope, Self.matches(device, patterns),
                let setting = section.settings.first(where: { $0.key == "device" && $0.command == nil })
            else { continue }
            return (setting.value, setting.line)
        }
        return nil
    }

    /// The devices that the words behind a command's name name, as typed, in order.
    package static func devices(in words: [String], of command: CommandDescription) -> [String] {
        devices(in: words, ArgumentScan(words, of: command), command)
    }

    // MARK: - Parts

    /// The sections that are for a command, those that count first at the front.
    private func matching(_ path: [String], devices: [String]) -> [Section] {
        var result: [Section] = []
        for device in devices {
            for section in sections {
                guard case .device(let patterns) = section.scope, Self.matches(device, patterns) else { continue }
                if !result.contains(section) { result.append(section) }
            }
        }
        for length in stride(from: path.count, to: 0, by: -1) {
            result += sections.filter { $0.scope == .command(Array(path.prefix(length))) }
        }
        return result + sections.filter { $0.scope == .everything }
    }

    /// Turns `--FLAG=yes` into the flag and leaves `--FLAG=no` out.
    ///
    /// - Returns: the words, and the flags that are decided though they do not appear.
    private static func withPlainFlags(
        _ words: [String], _ command: CommandDescription
    ) -> (words: [String], decided: Set<Int>) {
        let scan = ArgumentScan(words, of: command)
        var result: [String] = []
        var decided: Set<Int> = []
        for (word, role) in zip(words, scan.roles) {
            guard case .names(let indices, let value?) = role, indices.count == 1, let index = indices.first,
                command.arguments[index].kind == .flag, let truth = boolean(value)
            else {
                result.append(word)
                continue
            }
            decided.formUnion(command.counterparts(of: index))
            let name = ArgumentScan.split(word).name
            if truth { result.append(name) } else if let other = command.opposite(of: index) { result.append(other) }
        }
        return (result, decided)
    }

    /// One setting as a word of the command line; `nil` when there is nothing to say.
    private static func word(
        for setting: Setting, _ argument: CommandDescription.Argument, _ command: CommandDescription
    ) throws(Problem) -> String? {
        guard let name = argument.names.first(where: { $0.name == setting.key })?.typed else { return nil }
        guard argument.kind == .flag else { return "\(name)=\(setting.value)" }
        guard let truth = boolean(setting.value) else {
            throw Problem(line: setting.line, message: "“\(setting.key)” is yes or no")
        }
        guard !truth else { return name }
        return command.arguments.firstIndex(of: argument).flatMap { command.opposite(of: $0) }
    }

    /// The devices a command line names, as typed, in order.
    private static func devices(in words: [String], _ scan: ArgumentScan, _ command: CommandDescription) -> [String] {
        var result: [String] = []
        for (index, word) in words.enumerated() {
            guard let (name, _) = device(in: word, at: index, scan, command), !result.contains(name) else { continue }
            result.append(name)
        }
        return result
    }

    /// The device a word names, and where in the word.
    private static func device(
        in word: String, at position: Int, _ scan: ArgumentScan, _ command: CommandDescription
    ) -> (name: String, range: Range<String.Index>)? {
        let role = scan.roles[position]
        var value = word.startIndex..<word.endIndex
        let index: Int
        switch role {
        case .positional(let argument): index = argument
        case .value(let option): index = option
        case .names(let indices, .some):
            guard let last = indices.last, let equals = word.firstIndex(of: "=") else { return nil }
            index = last
            value = word.index(after: equals)..<word.endIndex
        default: return nil
        }
        let argument = command.arguments[index]
        if argument.namesRemotePath {
            guard let colon = word[value].firstIndex(where: { $0 == ":" || $0 == "/" }), word[colon] == ":",
                colon > value.lowerBound
            else { return nil }
            value = value.lowerBound..<colon
        } else if argument.endsInDevice {
            guard !scan.roles[(position + 1)...].contains(role) else { return nil }
            if word[value].hasSuffix(":") { value = value.lowerBound..<word.index(before: value.upperBound) }
        } else if !argument.namesDevice {
            return nil
        }
        return value.isEmpty ? nil : (String(word[value]), value)
    }

    private func replacingNames(in words: [String], _ scan: ArgumentScan, _ command: CommandDescription) -> [String] {
        words.enumerated().map { index, word in
            guard let (name, range) = Self.device(in: word, at: index, scan, command), let meaning = meaning(of: name)
            else {
                return word
            }
            return word.replacingSubrange(range, with: meaning.name)
        }
    }
}

extension String {
    fileprivate func replacingSubrange(_ range: Range<Index>, with text: String) -> String {
        String(self[..<range.lowerBound]) + text + String(self[range.upperBound...])
    }
}

extension CommandDescription {
    /// The name of the flag that takes back the one with this index: `--no-color` of `--color`.
    func opposite(of index: Int) -> String? {
        guard let key = arguments[index].key else { return nil }
        let other = key.hasPrefix("no-") ? String(key.dropFirst(3)) : "no-" + key
        guard let found = arguments.first(where: { $0.kind == .flag && $0.key == other }) else { return nil }
        return found.names.first { $0.name == other }?.typed
    }

    /// The argument with this index, and the flag that takes it back.
    func counterparts(of index: Int) -> Set<Int> {
        guard let other = opposite(of: index), let opposite = self.index(named: other) else { return [index] }
        return [index, opposite]
    }
}
