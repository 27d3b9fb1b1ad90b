import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine

/// The tests of `kith find` and how they are joined: `a b` is both, `-or` one of them, `-not` none, `( … )` goes first.
struct FindExpression {
    /// The words that stand between tests, or before them.
    static let operators: Set<String> = ["-or", "-o", "-and", "-a", "-not", "!", "(", ")"]
    /// The tests, each with one word behind it.
    static let tests: Set<String> = ["-name", "-iname", "-path", "-ipath", "-type", "-size", "-mtime", "-mmin"]

    private var words: ArraySlice<String>
    private var depth = 0

    /// The filter that words stand for.
    ///
    /// - Throws: `ValidationError` naming what is wrong.
    static func filter(_ words: [String]) throws -> Files.Filter {
        var parser = FindExpression(words: words[...])
        let filter = try parser.alternatives()
        guard parser.words.isEmpty else { throw ValidationError("A ) has no ( before it.") }
        return filter
    }

    private mutating func alternatives() throws -> Files.Filter {
        depth += 1
        defer { depth -= 1 }
        guard depth <= 8 else { throw ValidationError("Parentheses nest at most eight levels deep.") }
        var all = [try together()]
        while let word = words.first, word == "-or" || word == "-o" {
            words.removeFirst()
            all.append(try together())
        }
        return all.count == 1 ? all[0] : Files.Filter(anyOf: all)
    }

    private mutating func together() throws -> Files.Filter {
        var all = [try one()]
        while let word = words.first, word != "-or", word != "-o", word != ")" {
            if word == "-and" || word == "-a" { words.removeFirst() }
            all.append(try one())
        }
        return all.count == 1 ? all[0] : Files.Filter(allOf: all)
    }

    private mutating func one() throws -> Files.Filter {
        // As many of them as stand there; each but the last takes the one before back.
        var isNot = false
        while let word = words.first, word == "-not" || word == "!" {
            words.removeFirst()
            isNot.toggle()
        }
        guard let word = words.popFirst() else {
            throw ValidationError("A test is missing at the end: -or, -not and their kin stand before one.")
        }
        let filter: Files.Filter
        if word == "(" {
            filter = try alternatives()
            guard words.popFirst() == ")" else { throw ValidationError("A ( has no ) behind it.") }
        } else {
            guard Self.tests.contains(word), let value = words.popFirst() else {
                throw ValidationError("A test is missing before \(word).")
            }
            filter = try Self.test(word, value)
        }
        return isNot ? Files.Filter(noneOf: [filter]) : filter
    }

    /// One test.
    static func test(_ name: String, _ value: String) throws -> Files.Filter {
        switch name {
        case "-name": return Files.Filter(patterns: [Files.Filter.Pattern(value)])
        case "-iname": return Files.Filter(patterns: [Files.Filter.Pattern(value, ignoresCase: true)])
        case "-path": return Files.Filter(patterns: [Files.Filter.Pattern(value, isPath: true)])
        case "-ipath": return Files.Filter(patterns: [Files.Filter.Pattern(value, isPath: true, ignoresCase: true)])
        case "-type":
            let (kinds, specials) = try kinds(value)
            return Files.Filter(kinds: kinds, specials: specials)
        case "-size": return Files.Filter(size: try FindCommand.sizeBounds(value))
        case "-mtime":
            return Files.Filter(age: try FindCommand.ageBounds(value, unit: 86_400, isRounded: true, name))
        default: return Files.Filter(age: try FindCommand.ageBounds(value, unit: 60, isRounded: false, name))
        }
    }

    /// `f,d` as kinds, and what of the special ones.
    static func kinds(_ text: String) throws -> (kinds: [Files.Kind], specials: [Files.Special]) {
        var (kinds, specials): ([Files.Kind], [Files.Special]) = ([], [])
        for letter in text.split(separator: ",", omittingEmptySubsequences: false) {
            switch letter {
            case "f": kinds.append(.file)
            case "d": kinds.append(.folder)
            case "l": kinds.append(.link)
            case "p": specials.append(.pipe)
            case "s": specials.append(.socket)
            case "c": specials.append(.characterDevice)
            case "b": specials.append(.blockDevice)
            default: throw ValidationError("-type takes f, d, l, p, s, b or c, not “\(letter)”.")
            }
        }
        return (specials.isEmpty ? kinds : kinds + [.special], specials)
    }
}

/// Runs a command for what `kith find` finds.
struct FindAction {
    private let command: [String]
    private let isTogether: Bool
    private var waiting: [String] = []
    private var size = 0
    /// True when every run has ended with 0.
    private(set) var isGood = true

    /// So many names, and bytes of them, go to one run.
    private static let (most, mostBytes) = (1_000, 64 << 10)

    /// `nil` where nothing is to be run.
    init?(each: String?, together: String?) throws {
        isTogether = together != nil
        command = try WordForms.words(together ?? each)
        if command.isEmpty { return nil }
    }

    /// Takes in something that was found.
    mutating func take(_ name: Files.Path) async throws {
        guard let text = String(validating: name.bytes, as: UTF8.self) else {
            isGood = false
            return note("kith: \(printable(name.description)): its name is not UTF-8 and cannot be given to a command.")
        }
        guard isTogether else { return try await run(command.map { $0.replacing("{}", with: text) }) }
        if waiting.count >= Self.most || size + text.utf8.count > Self.mostBytes { try await finish() }
        waiting.append(text)
        size += text.utf8.count
    }

    /// Runs the command for what waits.
    mutating func finish() async throws {
        guard !waiting.isEmpty else { return }
        let names = waiting
        (waiting, size) = ([], 0)
        try await run(command + names)
    }

    private mutating func run(_ words: [String]) async throws {
        let status = try await ChildProcess.run(words, environment: ProcessInfo.processInfo.environment)
        // A key that ends the command ends what runs it again and again.
        guard ![128 + SIGINT, 128 + SIGQUIT].contains(status) else { throw ExitCode(status) }
        if status != 0 { isGood = false }
    }
}
