/// A regular expression that takes time proportional to its size times the length of the text, whatever either is.
///
/// Expressions come from other devices, and one that backtracks can be made to take years. This one follows all ways at
/// once (Thompson's construction), so there are no back references and no look-around; groups only group.
///
/// The alphabet is that of Unicode scalars, in normalization form C on both sides. Case does not count, unless `(?-i)`
/// says so. `^` and `$` are the ends of the text; `.` is anything but a line feed; `\d`, `\w`, `\s` and `\b` are those
/// of Unicode: decimal digits; letters, marks, digits and `_`; white space; the edges of words.
package struct RegularExpression: Sendable {
    /// The most states an expression may have.
    package static let stateLimit = 1_000
    /// The most groups in one another.
    package static let depthLimit = 64

    /// A fault in an expression.
    package struct Fault: Error, Hashable, Sendable {
        /// One sentence for a person.
        package let message: String
        /// Where it is: offsets of Unicode scalars of the expression.
        package let range: Range<Int>
    }

    /// The text of the expression.
    package let pattern: String
    /// The longest text, folded, that is part of the folded form of every text the expression matches; `nil` when there
    /// is none to be found.
    ///
    /// An index looks this up, and the expression need be tried only on what it finds.
    package let requiredText: String?

    private let program: [RegularExpressionCompiler.Instruction]

    /// Reads an expression.
    ///
    /// - Throws: ``Fault`` for what is no expression, or one of more than ``stateLimit`` states.
    package init(_ pattern: String) throws(Fault) {
        let scalars = Array(NameFolding.normalized(pattern).unicodeScalars)
        let count = pattern.unicodeScalars.count
        var parser = RegularExpressionParser(scalars)
        let tree: RegularExpressionTree
        do {
            tree = try parser.parse()
        } catch {
            // Where it is counts in the text as it was given.
            throw scalars.count == count ? error : Fault(message: error.message, range: 0..<count)
        }
        var compiler = RegularExpressionCompiler()
        do {
            program = try compiler.program(of: tree)
        } catch {
            throw Fault(
                message:
                    "The expression has more than \(Self.stateLimit) states, with all its repetitions written out.",
                range: 0..<count)
        }
        requiredText = RequiredText.longest(in: tree)
        self.pattern = pattern
    }

    /// Tells whether the expression matches somewhere in a text.
    package func matches(_ text: String) -> Bool {
        var run = Run(program: program)
        var previous: Unicode.Scalar?
        // Marks that are not in form C would make one name two.
        for scalar in NameFolding.normalized(text).unicodeScalars {
            if run.step(over: scalar, after: previous) { return true }
            previous = scalar
        }
        return run.finish(after: previous)
    }

    /// The ways through a program that are alive.
    private struct Run {
        let program: [RegularExpressionCompiler.Instruction]
        var current: [Int] = []
        var pending: [Int] = []
        /// The step at which each state was last reached.
        var reached: [Int]
        var step = 0

        init(program: [RegularExpressionCompiler.Instruction]) {
            self.program = program
            reached = Array(repeating: -1, count: program.count)
        }

        /// Goes over one scalar; true when a match ends before it.
        mutating func step(over scalar: Unicode.Scalar, after previous: Unicode.Scalar?) -> Bool {
            if spread(before: scalar, after: previous) { return true }
            pending.removeAll(keepingCapacity: true)
            let fold = NameFolding.lowercase(scalar)
            for state in current {
                if case .consume(let set) = program[state], set.contains(scalar, folded: fold) {
                    pending.append(state + 1)
                }
            }
            return false
        }

        /// True when a match ends with the text.
        mutating func finish(after previous: Unicode.Scalar?) -> Bool { spread(before: nil, after: previous) }

        /// Follows what consumes nothing, from the states just reached and from the start; true when that is a match.
        private mutating func spread(before next: Unicode.Scalar?, after previous: Unicode.Scalar?) -> Bool {
            current.removeAll(keepingCapacity: true)
            pending.append(0)
            while let state = pending.popLast() {
                guard reached[state] != step else { continue }
                reached[state] = step
                switch program[state] {
                case .match: return true
                case .consume: current.append(state)
                case .jump(let target): pending.append(target)
                case .fork(let one, let other):
                    pending.append(one)
                    pending.append(other)
                case .assert(let assertion):
                    if assertion.holds(between: previous, and: next) { pending.append(state + 1) }
                }
            }
            step += 1
            return false
        }
    }
}

extension RegularExpression: Hashable {
    /// Compares the texts of the expressions.
    package static func == (left: RegularExpression, right: RegularExpression) -> Bool {
        left.pattern.unicodeScalars.elementsEqual(right.pattern.unicodeScalars)
    }

    /// Hashes the text of the expression.
    package func hash(into hasher: inout Hasher) {
        for scalar in pattern.unicodeScalars { hasher.combine(scalar) }
    }
}

extension RegularExpression: CustomStringConvertible {
    /// The text of the expression.
    package var description: String { pattern }
}
