// Short names as people write them together, in the form that the parser takes; and the words for what no form makes right.
extension ArgumentScan {
    /// The fault of a command line.
    package struct Problem: Error, Hashable, Sendable {
        /// The fault, in a sentence without its end.
        package let message: String
        /// The option that was meant, as far as can be told.
        package let meant: String?
    }

    /// The words with every short name by itself and its value behind an equals sign: `-rn5` as `-r -n=5`.
    ///
    /// So is a negative number that stands where a value has to: `--count -1` as `--count=-1`.
    ///
    /// - Throws: the problem of a cluster that holds a letter which names nothing.
    package static func separated(
        _ words: [String], of command: CommandDescription
    ) throws(Problem) -> [String] {
        let scan = ArgumentScan(words, of: command)
        var result: [String] = []
        for (word, role) in zip(words, scan.roles) {
            switch role {
            case .names(let indices, let value) where scan.isCluster(word):
                let letters = word.dropFirst().prefix(indices.count).map { "-\($0)" }
                result += letters.dropLast()
                result.append((letters.last ?? word) + (value.map { "=" + $0 } ?? ""))
            case .unknown where scan.isCluster(word):
                throw scan.unknown(word)
            case .value where isNegative(word):
                result[result.count - 1] += "=" + word
            default: result.append(word)
            }
        }
        return result
    }

    /// The problem with `words`, as far as names and positions go; `nil` when they are all right, and only a value can
    /// be wrong.
    package static func problem(
        with words: [String], of command: CommandDescription, named name: String
    ) -> Problem? {
        let scan = ArgumentScan(words, of: command)
        var isTerminated = false
        for (word, role) in zip(words, scan.roles) {
            if role == .terminator { isTerminated = true }
            guard role == .unknown else { continue }
            guard !word.hasPrefix("-") || isTerminated else { return scan.unknown(word) }
            let count = command.positionals.count { $0.parsingStrategy != "postTerminator" }
            return Problem(
                message: "“\(word)” is one argument too many: \(name) takes \(count == 0 ? "none" : "\(count)")",
                meant: nil)
        }
        if let awaited = scan.awaited, let word = words.last {
            return missingValue(behind: word, command.arguments[awaited])
        }
        let given = Set(scan.roles.compactMap { if case .positional(let index) = $0 { index } else { nil } })
        for index in command.arguments.indices where command.arguments[index].kind == .positional {
            guard !command.arguments[index].isOptional, !given.contains(index) else { continue }
            return Problem(message: "An argument is missing: \(command.arguments[index].valueName)", meant: nil)
        }
        return nil
    }

    /// The problem of an option whose value is not there.
    package static func missingValue(behind name: String, _ option: CommandDescription.Argument?) -> Problem {
        let wanted = option.map(\.valueName).flatMap { name.hasSuffix($0) ? nil : $0 }
        return Problem(message: "A value is missing behind \(name)" + (wanted.map { ": \($0)" } ?? ""), meant: nil)
    }

    /// Tells whether a word begins as a number below zero does, which no name of an option does.
    package static func isNegative(_ word: String) -> Bool {
        word.first == "-" && word.dropFirst().drop { $0 == "." }.first.map { $0.isASCII && $0.isNumber } ?? false
    }

    /// Tells whether a word is several short names, or one and its value, and no name by itself.
    private func isCluster(_ word: String) -> Bool {
        word.count > 2 && word.hasPrefix("-") && !word.hasPrefix("--")
            && command.index(named: Self.split(word).name) == nil
    }

    /// There is no such option, and which one was meant.
    private func unknown(_ word: String) -> Problem {
        let typed = Self.split(word).name
        let names = command.arguments.filter(\.shouldDisplay).flatMap(\.names).map(\.typed)
        let meant = Wording.nearest(to: typed, in: names.filter { $0.count > 2 })
        let letters = isCluster(word) ? word.dropFirst() : ""
        let letter = letters.first { letter in
            command.index(named: "-\(letter)").map { isAlone($0, in: word) } ?? true
        }
        guard let letter, letter != letters.first else {
            return Problem(message: "There is no option \(typed)", meant: meant)
        }
        return Problem(message: "There is no option -\(letter), as in \(word)", meant: meant)
    }
}
