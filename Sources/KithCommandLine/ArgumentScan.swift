/// The words after a command's name, read as its parser is going to read them.
package struct ArgumentScan: Hashable, Sendable {
    /// The role of a word.
    package enum Role: Hashable, Sendable {
        /// Names of the arguments with these indices; `value` is what stands after an equals sign, or behind the letter of
        /// an option (`-n5`).
        ///
        /// Several only of short names written together (`-rq`).
        case names([Int], value: String?)
        /// The value of the argument with this index.
        case value(of: Int)
        /// The argument with this index, by its position.
        case positional(Int)
        /// `--`, and what follows it when no argument takes that.
        case terminator
        /// A word the command does not know.
        case unknown
    }

    /// The role of each word.
    package private(set) var roles: [Role] = []
    /// The index of the option whose value has to come next.
    package private(set) var awaited: Int?
    /// True once `--` was seen.
    package private(set) var isTerminated = false
    /// The number of arguments given by their position.
    private var positionCount = 0
    let command: CommandDescription
    private let positionals: [Int]

    /// Reads `words`.
    package init(_ words: some Sequence<String>, of command: CommandDescription) {
        self.command = command
        positionals = command.arguments.indices.filter { command.arguments[$0].kind == .positional }
        for word in words { roles.append(role(of: word)) }
    }

    /// The arguments that were given.
    package var given: Set<Int> {
        var result: Set<Int> = []
        for case .names(let indices, _) in roles { result.formUnion(indices) }
        return result
    }

    /// The argument that a further word without a hyphen would be, by its position.
    package var nextPositional: Int? {
        let open = positionals.filter { isTerminated || command.arguments[$0].parsingStrategy != "postTerminator" }
        if positionCount < open.count { return open[positionCount] }
        return open.last.flatMap { command.arguments[$0].isRepeating ? $0 : nil }
    }

    private mutating func role(of word: String) -> Role {
        if let option = awaited {
            awaited = nil
            return .value(of: option)
        }
        if isTerminated || word == "-" || !word.hasPrefix("-") { return nextPosition() }
        if word == "--" {
            isTerminated = true
            // What comes after it has an argument of its own, or goes on where the others were.
            if let after = positionals.firstIndex(where: { command.arguments[$0].parsingStrategy == "postTerminator" })
            {
                positionCount = after
            }
            return .terminator
        }
        let (name, value) = Self.split(word)
        if let index = command.index(named: name) {
            if command.arguments[index].kind == .option, value == nil { awaited = index }
            return .names([index], value: value)
        }
        guard !word.hasPrefix("--") else { return .unknown }
        var indices: [Int] = []
        var rest = word.dropFirst()
        while let letter = rest.popFirst() {
            guard let index = command.index(named: "-\(letter)"), !isAlone(index, in: word) else { return .unknown }
            indices.append(index)
            guard command.arguments[index].kind == .option else { continue }
            guard !rest.isEmpty else {
                awaited = index
                break
            }
            return .names(indices, value: String(rest.first == "=" ? rest.dropFirst() : rest))
        }
        return .names(indices, value: nil)
    }

    /// Tells whether an argument's name stands by itself or not at all: nobody asks for help among other letters.
    func isAlone(_ index: Int, in word: String) -> Bool {
        word.count > 2 && ["help", "version"].contains(command.arguments[index].key)
    }

    private mutating func nextPosition() -> Role {
        guard let index = nextPositional else { return .unknown }
        positionCount += 1
        if ["allRemainingInput", "allUnrecognized"].contains(command.arguments[index].parsingStrategy) {
            // Whatever follows is not an option of ours.
            isTerminated = true
        }
        return .positional(index)
    }

    /// `--name=value` in its parts.
    package static func split(_ word: String) -> (name: String, value: String?) {
        guard let equals = word.firstIndex(of: "=") else { return (word, nil) }
        return (String(word[..<equals]), String(word[word.index(after: equals)...]))
    }
}
