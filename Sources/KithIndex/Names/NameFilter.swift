import CKithSystem
import Foundation
import KithCatalog

/// What a condition says of names alone, tried on their folded bytes.
///
/// Every name of an entry that meets the condition passes it.
struct NameFilter: Sendable {
    /// A test of one name.
    private indirect enum Test: Sendable {
        case contains([UInt8])
        case prefix([UInt8])
        case suffix([UInt8])
        case exact([UInt8])
        case match(NameMatch)
        case ending(Set<String>)
        case all([Test])
        case any([Test])
    }

    private var test: Test
    /// Texts of which every name that passes has one at least, in ways of which each does; none when none is known.
    let choices: [[[UInt8]]]
    /// True when an entry whose name passes meets the condition.
    let isWhole: Bool

    /// Makes the filter of a condition; `nil` when it says nothing of names.
    init?(_ condition: Condition) {
        guard let test = Self.test(condition) else { return nil }
        self.test = test
        choices = Self.choices(test)
        isWhole = Self.isWhole(condition)
    }

    private init(_ test: Test, of filter: NameFilter) {
        self = filter
        self.test = test
    }

    private static func test(_ condition: Condition) -> Test? {
        switch condition {
        case .all(let conditions):
            let tests = conditions.compactMap(test)
            return tests.isEmpty ? nil : tests.count == 1 ? tests[0] : .all(tests)
        case .any(let conditions):
            let tests = conditions.compactMap(test)
            return tests.isEmpty || tests.count < conditions.count ? nil : .any(tests)
        case .term(.name(let match)):
            return switch match {
            case .contains(let text): .contains(Array(text.utf8))
            case .prefix(let text): .prefix(Array(text.utf8))
            case .suffix(let text): .suffix(Array(text.utf8))
            case .exact(let text): .exact(Array(text.utf8))
            case .glob, .regex: .match(match)
            }
        case .term(.fileExtension(let endings)): return .ending(endings)
        // What is wanted of a negation is that nothing too much passes.
        case .everything, .not, .term: return nil
        }
    }

    private static func isWhole(_ condition: Condition) -> Bool {
        switch condition {
        case .all(let conditions), .any(let conditions): conditions.allSatisfy(isWhole)
        case .term(.name(.regex)): false
        case .term(.name), .term(.fileExtension): true
        case .everything, .not, .term: false
        }
    }

    private static func choices(_ test: Test) -> [[[UInt8]]] {
        switch test {
        case .contains(let text), .prefix(let text), .suffix(let text), .exact(let text): return [[text]]
        case .match(.glob(let glob)):
            return glob.parts.compactMap { if case .text(let text) = $0 { [Array(text.utf8)] } else { nil } }
        case .match(.regex(let expression)): return expression.requiredText.map { [[Array($0.utf8)]] } ?? []
        case .match: return []
        case .ending(let endings): return [endings.map { Array(".\($0)".utf8) }]
        case .all(let tests): return tests.flatMap(choices)
        case .any(let tests):
            // The longest of each is taken to be the rarest.
            let length = { (texts: [[UInt8]]) in texts.map(\.count).min() ?? 0 }
            let longest = tests.compactMap { choices($0).max { length($0) < length($1) } }
            return longest.count < tests.count ? [] : [longest.flatMap(\.self)]
        }
    }

    /// What is left to be tried of names that have one of some texts; `nil` when it is nothing.
    func behind(_ texts: [[UInt8]]) -> NameFilter? {
        func isDone(_ test: Test) -> Bool {
            switch test {
            case .contains(let text): texts == [text]
            case .any(let tests):
                tests.count == texts.count
                    && zip(tests, texts).allSatisfy { if case .contains(let text) = $0 { text == $1 } else { false } }
            default: false
            }
        }
        if isDone(test) { return nil }
        guard case .all(let tests) = test else { return self }
        let rest = tests.filter { !isDone($0) }
        return rest.isEmpty ? nil : NameFilter(rest.count == 1 ? rest[0] : .all(rest), of: self)
    }

    /// Gives `body` the tests in a form for many names.
    func withTests<Result>(_ body: (NameTests) throws -> Result) rethrows -> Result {
        var flat = FlatTests()
        flat.append(test)
        return try unsafe flat.steps.withUnsafeBufferPointer { steps in
            try unsafe flat.texts.withUnsafeBytes { texts in
                try unsafe flat.matches.withUnsafeBufferPointer { matches in
                    try unsafe body(NameTests(steps: steps, texts: texts, matches: matches))
                }
            }
        }
    }

    /// The tests one after the other, each before those it consists of.
    private struct FlatTests {
        var steps: [NameTests.Step] = []
        var texts: [UInt8] = []
        var matches: [NameMatch] = []

        mutating func append(_ test: Test) {
            switch test {
            case .contains(let text): append(.contains, text)
            case .prefix(let text): append(.prefix, text)
            case .suffix(let text): append(.suffix, text)
            case .exact(let text): append(.exact, text)
            case .ending(let endings):
                append(.any) { flat in
                    for ending in endings { flat.append(.ending, Array(".\(ending)".utf8)) }
                }
            case .match(let match):
                steps.append(.init(kind: .match, start: matches.count, length: 0, next: steps.count + 1))
                matches.append(match)
            case .all(let tests): append(.all) { flat in for test in tests { flat.append(test) } }
            case .any(let tests): append(.any) { flat in for test in tests { flat.append(test) } }
            }
        }

        private mutating func append(_ kind: NameTests.Kind, _ text: [UInt8]) {
            steps.append(.init(kind: kind, start: texts.count, length: text.count, next: steps.count + 1))
            texts += text
        }

        private mutating func append(_ kind: NameTests.Kind, _ parts: (inout FlatTests) -> Void) {
            let place = steps.count
            steps.append(.init(kind: kind, start: 0, length: 0, next: 0))
            parts(&self)
            steps[place].next = steps.count
        }
    }
}

/// The tests of a filter while many names are tried: to count references would take a quarter of the time.
@unsafe struct NameTests {
    enum Kind: UInt8 {
        case contains, prefix, suffix, exact, ending, match
        /// Of all the steps up to the next, or of any of them.
        case all, any
    }

    /// One test.
    struct Step {
        var kind: Kind
        /// Where its text begins, or the number of its match.
        var start: Int
        var length: Int
        /// The step behind it and what it consists of.
        var next: Int
    }

    let steps: UnsafeBufferPointer<Step>
    let texts: UnsafeRawBufferPointer
    let matches: UnsafeBufferPointer<NameMatch>

    /// Tells whether a folded name passes; `length` is what it has on the disk.
    func passes(_ name: UnsafeRawBufferPointer, length: Int) -> Bool { unsafe passes(0, name, length) }

    private func passes(_ number: Int, _ name: UnsafeRawBufferPointer, _ length: Int) -> Bool {
        let step = unsafe steps[number]
        switch step.kind {
        case .contains:
            guard let bytes = name.baseAddress, let text = unsafe texts.baseAddress else { return step.length == 0 }
            return unsafe step.length == 0
                || kith_find_bytes(bytes, name.count, text + step.start, step.length) < name.count
        case .prefix: return unsafe hasText(of: step, name, at: 0)
        case .suffix: return unsafe hasText(of: step, name, at: name.count - step.length)
        case .exact: return unsafe name.count == step.length && hasText(of: step, name, at: 0)
        case .ending: return unsafe name.count > step.length && hasText(of: step, name, at: name.count - step.length)
        case .match: return unsafe passes(matches[step.start], name, length)
        case .all, .any:
            var part = number + 1
            while part < step.next {
                if unsafe passes(part, name, length) != (step.kind == .all) { return step.kind == .any }
                part = unsafe steps[part].next
            }
            return step.kind == .all
        }
    }

    private func hasText(of step: Step, _ name: UnsafeRawBufferPointer, at place: Int) -> Bool {
        guard place >= 0, place + step.length <= name.count else { return false }
        guard step.length > 0, let bytes = name.baseAddress, let text = unsafe texts.baseAddress else { return true }
        return unsafe memcmp(bytes + place, text + step.start, step.length) == 0
    }

    private func passes(_ match: NameMatch, _ name: UnsafeRawBufferPointer, _ length: Int) -> Bool {
        // A name that is not in ASCII on the disk is tried as it is there.
        if case .regex = match, unsafe name.count != length || !name.allSatisfy({ $0 < 0x80 }) { return true }
        return unsafe match.matches(String(decoding: name, as: UTF8.self))
    }
}

extension UnsafeRawBufferPointer {
    /// Where a text begins in these bytes, at a place or behind it; `nil` when it does not.
    func firstIndex(of text: [UInt8], from start: Int = 0) -> Int? {
        guard let base = baseAddress, start <= count else { return nil }
        let (rest, length) = unsafe (base + start, count - start)
        let place = unsafe text.withUnsafeBytes { unsafe kith_find_bytes(rest, length, $0.baseAddress, $0.count) }
        return place < length ? start + place : nil
    }
}
