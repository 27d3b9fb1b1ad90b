/// The parts of a regular expression, as they are written.
indirect enum RegularExpressionTree {
    /// Nothing.
    case empty
    /// One scalar of a set.
    case scalar(ScalarSet)
    /// A place between two scalars.
    case assertion(Assertion)
    /// Parts one after the other.
    case sequence([RegularExpressionTree])
    /// One of several parts.
    case choice([RegularExpressionTree])
    /// A part several times; without a maximum as often as it fits.
    case repetition(RegularExpressionTree, minimum: Int, maximum: Int?)

    /// True when a part of it may stand there several times.
    var hasRepetition: Bool {
        switch self {
        case .empty, .scalar, .assertion: false
        case .sequence(let parts), .choice(let parts): parts.contains(where: \.hasRepetition)
        case .repetition: true
        }
    }

    /// A place between two scalars.
    enum Assertion {
        case start
        case end
        case wordEdge
        case noWordEdge

        func holds(between previous: Unicode.Scalar?, and next: Unicode.Scalar?) -> Bool {
            switch self {
            case .start: previous == nil
            case .end: next == nil
            case .wordEdge: isWordEdge(previous, next)
            case .noWordEdge: !isWordEdge(previous, next)
            }
        }

        private func isWordEdge(_ previous: Unicode.Scalar?, _ next: Unicode.Scalar?) -> Bool {
            let isWord = ScalarSet.Named.word.contains
            return previous.map(isWord) ?? false != next.map(isWord) ?? false
        }
    }
}

/// A set of Unicode scalars, as a class of a regular expression says it.
struct ScalarSet: Sendable {
    var ranges: [ClosedRange<Unicode.Scalar>] = []
    var named: [(set: Named, isNegated: Bool)] = []
    var isNegated = false
    var ignoresCase: Bool
    /// The members in ASCII, once ``sealed()``.
    private var ascii: (low: UInt64, high: UInt64)?

    init(
        ranges: [ClosedRange<Unicode.Scalar>] = [], named: [(set: Named, isNegated: Bool)] = [], ignoresCase: Bool
    ) {
        self.ranges = ranges
        self.named = named
        self.ignoresCase = ignoresCase
    }

    /// The same set, in a form in which looking up takes no time that grows with how it is written.
    func sealed() -> ScalarSet {
        var sealed = self
        sealed.ranges = []
        for range in ranges.sorted(by: { $0.lowerBound < $1.lowerBound }) {
            if let last = sealed.ranges.last, range.lowerBound <= last.upperBound {
                sealed.ranges[sealed.ranges.count - 1] = last.lowerBound...max(last.upperBound, range.upperBound)
            } else {
                sealed.ranges.append(range)
            }
        }
        sealed.named = Named.allCases.flatMap { name in
            [true, false].filter { isNegated in named.contains { $0.set == name && $0.isNegated == isNegated } }
                .map { (name, $0) }
        }
        var ascii = (low: UInt64(0), high: UInt64(0))
        // Most sets are one letter, which is in no case of another.
        let only = only.map { $0.isASCII ? UInt8(truncatingIfNeeded: $0.value) : 128 }
        for byte in UInt8(0)..<128 where only == nil || only == NameFolding.lowercase(byte) {
            let scalar = Unicode.Scalar(byte)
            guard sealed.contains(scalar, folded: NameFolding.lowercase(scalar)) else { continue }
            if byte < 64 { ascii.low |= 1 << UInt64(byte) } else { ascii.high |= 1 << UInt64(byte - 64) }
        }
        sealed.ascii = ascii
        return sealed
    }

    /// The sets that have a letter of their own.
    enum Named: Sendable, CaseIterable {
        case digit
        case word
        case space
        case lineFeed

        func contains(_ scalar: Unicode.Scalar) -> Bool {
            switch self {
            case .digit:
                scalar.isASCII ? ("0"..."9").contains(scalar) : scalar.properties.generalCategory == .decimalNumber
            case .word: Self.isWord(scalar)
            case .space: scalar.properties.isWhitespace
            case .lineFeed: scalar == "\n"
            }
        }

        private static func isWord(_ scalar: Unicode.Scalar) -> Bool {
            if scalar.isASCII {
                let byte = UInt8(truncatingIfNeeded: scalar.value)
                return (0x61...0x7A).contains(byte | 0x20) || (0x30...0x39).contains(byte) || byte == 0x5F
            }
            switch scalar.properties.generalCategory {
            case .nonspacingMark, .spacingMark, .enclosingMark, .decimalNumber, .connectorPunctuation: return true
            default: return scalar.properties.isAlphabetic
            }
        }
    }

    /// Tells whether a scalar is in the set; `folded` is the same in lower case.
    func contains(_ scalar: Unicode.Scalar, folded: Unicode.Scalar) -> Bool {
        if let ascii, scalar.isASCII {
            let value = UInt64(scalar.value)
            return (value < 64 ? ascii.low >> value : ascii.high >> (value - 64)) & 1 == 1
        }
        return (isListed(scalar) || ignoresCase && isListedInOtherCase(folded)) != isNegated
    }

    private func isListedInOtherCase(_ folded: Unicode.Scalar) -> Bool {
        if isListed(folded) { return true }
        let upper = NameFolding.uppercase(folded)
        // A capital that has another small letter is no other case of this one: ſ is no S.
        return NameFolding.lowercase(upper) == folded && isListed(upper)
    }

    private func isListed(_ scalar: Unicode.Scalar) -> Bool {
        var (low, high) = (0, ranges.count)
        while low < high {
            let middle = (low + high) / 2
            if ranges[middle].upperBound < scalar { low = middle + 1 } else { high = middle }
        }
        if low < ranges.count, ranges[low].contains(scalar) { return true }
        return named.contains { $0.set.contains(scalar) != $0.isNegated }
    }

    /// The one scalar of the set, in lower case; `nil` when it has not exactly one.
    var only: Unicode.Scalar? {
        guard !isNegated, named.isEmpty, ranges.count == 1, ranges[0].lowerBound == ranges[0].upperBound else {
            return nil
        }
        return NameFolding.lowercase(ranges[0].lowerBound)
    }
}

/// Reads the text of a regular expression.
struct RegularExpressionParser {
    private typealias Tree = RegularExpressionTree
    private typealias Fault = RegularExpression.Fault

    private let scalars: [Unicode.Scalar]
    private var index = 0
    private var ignoresCase = true

    /// The most that a repetition may ask for.
    private static let repetitionLimit = RegularExpression.stateLimit

    init(_ scalars: [Unicode.Scalar]) { self.scalars = scalars }

    mutating func parse() throws(RegularExpression.Fault) -> RegularExpressionTree {
        let tree = try choice(depth: 0)
        // Only a parenthesis ends it early.
        guard index == scalars.count else { throw fault("This parenthesis closes nothing.", index..<(index + 1)) }
        return tree
    }

    private var next: Unicode.Scalar? { index < scalars.count ? scalars[index] : nil }

    private mutating func skip(_ scalar: Unicode.Scalar) -> Bool {
        guard next == scalar else { return false }
        index += 1
        return true
    }

    private func fault(_ message: String, _ range: Range<Int>) -> Fault { Fault(message: message, range: range) }

    private mutating func choice(depth: Int) throws(RegularExpression.Fault) -> RegularExpressionTree {
        var branches = [try sequence(depth: depth)]
        while skip("|") { branches.append(try sequence(depth: depth)) }
        return branches.count == 1 ? branches[0] : .choice(branches)
    }

    private mutating func sequence(depth: Int) throws(RegularExpression.Fault) -> RegularExpressionTree {
        var parts: [RegularExpressionTree] = []
        while let scalar = next, scalar != "|", scalar != ")" {
            let start = index
            guard let part = try atom(depth: depth) else { continue }
            parts.append(try repeated(part, from: start))
        }
        return parts.count == 1 ? parts[0] : parts.isEmpty ? .empty : .sequence(parts)
    }

    /// Reads one part; `nil` for one that only changes how the next are read.
    private mutating func atom(depth: Int) throws(RegularExpression.Fault) -> RegularExpressionTree? {
        let start = index
        let scalar = scalars[index]
        index += 1
        switch scalar {
        case "^": return .assertion(.start)
        case "$": return .assertion(.end)
        case ".": return .scalar(ScalarSet(named: [(.lineFeed, true)], ignoresCase: false).sealed())
        case "[": return .scalar(try set(from: start))
        case "\\": return try escape(from: start)
        case "*", "+", "?": throw fault("There is nothing before this that it could repeat.", start..<index)
        case "(": return try group(from: start, depth: depth)
        default: return .scalar(literal(scalar))
        }
    }

    private func literal(_ scalar: Unicode.Scalar) -> ScalarSet {
        ScalarSet(ranges: [scalar...scalar], ignoresCase: ignoresCase).sealed()
    }

    private mutating func group(
        from start: Int, depth: Int
    ) throws(RegularExpression.Fault) -> RegularExpressionTree? {
        guard depth < RegularExpression.depthLimit else {
            throw fault("Groups may be nested \(RegularExpression.depthLimit) deep.", start..<index)
        }
        let before = ignoresCase
        if skip("?") {
            var value = true
            if skip("-") { value = false }
            if skip("i") {
                ignoresCase = value
                // Without a colon it holds to the end of the group around it.
                if skip(")") { return nil }
                guard skip(":") else { throw fault("After (?i comes : or ).", start..<min(index + 1, scalars.count)) }
            } else {
                guard value, skip(":") else {
                    throw fault(
                        "Of the groups with ? there are (?:…), (?i) and (?-i).", start..<min(index + 1, scalars.count))
                }
            }
        }
        let tree = try choice(depth: depth + 1)
        ignoresCase = before
        guard skip(")") else { throw fault("This parenthesis is not closed.", start..<(start + 1)) }
        return tree
    }

    /// Reads what says how often a part may stand there.
    private mutating func repeated(
        _ part: RegularExpressionTree, from start: Int
    ) throws(RegularExpression.Fault) -> RegularExpressionTree {
        let operatorStart = index
        var minimum = 0
        var maximum: Int?
        switch next {
        case "*": index += 1
        case "+":
            index += 1
            minimum = 1
        case "?":
            index += 1
            maximum = 1
        case "{":
            guard let bounds = try bounds() else { return part }
            (minimum, maximum) = bounds
        default: return part
        }
        // What is matched is the same; only where it is differs.
        _ = skip("?")
        var isAgain = skip("*") || skip("+") || skip("?")
        if next == "{", try bounds() != nil { isAgain = true }
        if isAgain {
            throw fault("One part cannot be repeated twice; put it into a group.", operatorStart..<index)
        }
        return .repetition(part, minimum: minimum, maximum: maximum)
    }

    /// Reads `{2}`, `{2,}`, `{,5}` or `{2,5}`; `nil` when the brace is only text.
    private mutating func bounds() throws(RegularExpression.Fault) -> (Int, Int?)? {
        let start = index
        index += 1
        let low = number()
        let hasComma = skip(",")
        let high = hasComma ? number() : low
        guard low != nil || high != nil, skip("}") else {
            index = start
            return nil
        }
        let minimum = low ?? 0
        guard minimum <= Self.repetitionLimit, high ?? 0 <= Self.repetitionLimit else {
            throw fault("A part can be repeated \(Self.repetitionLimit) times at most.", start..<index)
        }
        guard minimum <= high ?? minimum else {
            throw fault("The least number of repetitions is larger than the most.", start..<index)
        }
        return (minimum, high)
    }

    private mutating func number() -> Int? {
        var value: Int?
        while let digit = next.flatMap({ $0.isASCII ? Int(String($0)) : nil }) {
            value = min((value ?? 0) * 10 + digit, Self.repetitionLimit + 1)
            index += 1
        }
        return value
    }

    private mutating func escape(from start: Int) throws(RegularExpression.Fault) -> RegularExpressionTree {
        if skip("b") { return .assertion(.wordEdge) }
        if skip("B") { return .assertion(.noWordEdge) }
        if let named = namedSet() { return .scalar(ScalarSet(named: [named], ignoresCase: false).sealed()) }
        return .scalar(literal(try escapedScalar(from: start)))
    }

    private mutating func namedSet() -> (ScalarSet.Named, Bool)? {
        let named: (ScalarSet.Named, Bool)
        switch next {
        case "d": named = (.digit, false)
        case "D": named = (.digit, true)
        case "w": named = (.word, false)
        case "W": named = (.word, true)
        case "s": named = (.space, false)
        case "S": named = (.space, true)
        default: return nil
        }
        index += 1
        return named
    }

    /// Reads what stands after a backslash for one scalar.
    private mutating func escapedScalar(from start: Int) throws(RegularExpression.Fault) -> Unicode.Scalar {
        guard let scalar = next else { throw fault("There is nothing after this backslash.", start..<index) }
        index += 1
        switch scalar {
        case "t": return "\t"
        case "n": return "\n"
        case "r": return "\r"
        case "u":
            if skip("{") {
                let digits = scalars[index...].prefix { $0 != "}" }
                index += digits.count
                let value = digits.count <= 6 ? UInt32(String(String.UnicodeScalarView(digits)), radix: 16) : nil
                if skip("}"), let value, let result = Unicode.Scalar(value) { return result }
            }
            throw fault("A character is written as \\u{1F600}.", start..<index)
        default:
            guard !scalar.properties.isAlphabetic, !ScalarSet.Named.digit.contains(scalar) else {
                throw fault("There is no \\\(scalar).", start..<index)
            }
            return scalar
        }
    }

    private mutating func set(from start: Int) throws(RegularExpression.Fault) -> ScalarSet {
        var set = ScalarSet(ignoresCase: ignoresCase)
        set.isNegated = skip("^")
        guard next != "]" else {
            throw fault("This class is empty; a bracket in it is written \\].", start..<(index + 1))
        }
        while true {
            guard let scalar = next else { throw fault("This bracket is not closed.", start..<(start + 1)) }
            if skip("]") { return set.sealed() }
            let memberStart = index
            index += 1
            var low = scalar
            if scalar == "\\" {
                if let named = namedSet() {
                    set.named.append(named)
                    continue
                }
                low = try escapedScalar(from: memberStart)
            }
            guard next == "-", index + 1 < scalars.count, scalars[index + 1] != "]" else {
                set.ranges.append(low...low)
                continue
            }
            index += 1
            let highStart = index
            var high = scalars[index]
            index += 1
            if high == "\\" { high = try escapedScalar(from: highStart) }
            guard low <= high else { throw fault("This range runs backwards.", memberStart..<index) }
            set.ranges.append(low...high)
        }
    }
}

/// Turns a regular expression into states.
struct RegularExpressionCompiler {
    /// One state of the machine.
    enum Instruction: Sendable {
        /// Goes on to the next state over a scalar of the set.
        case consume(ScalarSet)
        /// Goes on to the next state when the place is right.
        case assert(RegularExpressionTree.Assertion)
        case jump(Int)
        case fork(Int, Int)
        case match
    }

    /// There are too many states.
    struct TooLarge: Error {}

    private var program: [Instruction] = []

    mutating func program(of tree: RegularExpressionTree) throws(TooLarge) -> [Instruction] {
        try add(tree)
        try append(.match)
        return program
    }

    private mutating func append(_ instruction: Instruction) throws(TooLarge) {
        guard program.count < RegularExpression.stateLimit else { throw TooLarge() }
        program.append(instruction)
    }

    private mutating func add(_ tree: RegularExpressionTree) throws(TooLarge) {
        switch tree {
        case .empty: break
        case .scalar(let set): try append(.consume(set))
        case .assertion(let assertion): try append(.assert(assertion))
        case .sequence(let parts): for part in parts { try add(part) }
        case .choice(let branches):
            var ends: [Int] = []
            for branch in branches.dropLast() {
                let fork = program.count
                try append(.fork(0, 0))
                try add(branch)
                ends.append(program.count)
                try append(.jump(0))
                program[fork] = .fork(fork + 1, program.count)
            }
            if let last = branches.last { try add(last) }
            for end in ends { program[end] = .jump(program.count) }
        case .repetition(let part, let minimum, let maximum):
            // Without a maximum the last copy is gone through again and again.
            for _ in 0..<(maximum == nil && minimum > 0 ? minimum - 1 : minimum) {
                let count = program.count
                try add(part)
                // Copies of nothing are nothing, and might be very many.
                if program.count == count { break }
            }
            guard let maximum else {
                let start = program.count
                if minimum > 0 {
                    try add(part)
                    return try append(.fork(start, program.count + 1))
                }
                try append(.fork(0, 0))
                try add(part)
                try append(.jump(start))
                program[start] = .fork(start + 1, program.count)
                return
            }
            var forks: [Int] = []
            for _ in minimum..<max(minimum, maximum) {
                forks.append(program.count)
                try append(.fork(0, 0))
                try add(part)
            }
            for fork in forks { program[fork] = .fork(fork + 1, program.count) }
        }
    }
}

/// Finds the text that a regular expression requires.
struct RequiredText {
    /// The scalars of the run that is being read.
    private var run = String.UnicodeScalarView()
    private var best = ""

    static func longest(in tree: RegularExpressionTree) -> String? {
        var finder = RequiredText()
        finder.read(tree)
        finder.endRun()
        return finder.best.isEmpty ? nil : finder.best
    }

    private mutating func read(_ tree: RegularExpressionTree) {
        switch tree {
        case .empty, .assertion: break
        case .scalar(let set):
            // A mark may be one with the letter before it.
            if let only = set.only, only.isASCII || only.properties.canonicalCombiningClass == .notReordered {
                run.append(only)
            } else {
                endRun()
            }
        case .sequence(let parts): for part in parts { read(part) }
        case .choice: endRun()
        case .repetition(let part, let minimum, let maximum):
            guard minimum > 0 else { return endRun() }
            read(part)
            if minimum == 1, maximum == 1 { return }
            endRun()
            // The last of the copies is followed by what comes next. (Nested ones would be read twice at each level.)
            if !part.hasRepetition { read(part) }
        }
    }

    private mutating func endRun() {
        // A mark may follow, and be one with the last letter in lower case only: ẖ, ǰ, ẗ, ẘ, ẙ, and some of Greek.
        if let last = run.last, last.isASCII ? "hjtwy".unicodeScalars.contains(last) : last.properties.isCased {
            run.removeLast()
        }
        let text = String(run)
        if text.utf8.count > best.utf8.count { best = text }
        run = String.UnicodeScalarView()
    }
}
