/// Reads the text of a query.
///
/// What is syntax depends on where it stands, so that names of files are found as they are:
///
/// - White space separates words. A quotation mark counts at the start of a word, when white space, a closing
///   parenthesis or the end follows its partner, and anywhere in the value of a filter. Two in a row within a phrase are
///   one that belongs to the text.
/// - A parenthesis groups at the start or the end of a word, when it has a partner there; one whose partner is in the
///   same word, with text on the outer side of either, is text: `foo(bar)`, `(1).pdf`.
/// - `-` and `!` negate when a letter, a digit or a text that is quoted, grouped or has a wildcard follows at once.
/// - `OR`, `|` and `AND` are words of their own between two others; `NOT` is one before another. Elsewhere they are text.
/// - `*` and `?` are wildcards in a word; but one question mark after which nothing comes but punctuation is text.
/// - A word with a colon is a filter when the name before it is one of a filter's.
struct QueryParser {
    private let scalars: [Unicode.Scalar]
    /// Where each scalar, and the end, is in the UTF-8 of the text.
    private let offsets: [Int]
    private let values: FilterValues
    private var items: [Item] = []
    private var position = 0
    private var terms = 0
    private var sort: [SortKey] = []
    /// What looks like a filter and is text.
    private(set) var unknownFilters: [SearchQuery.UnknownFilter] = []
    /// True when something stands in the query that only a person who knows the language writes.
    private var hasSyntax = false

    /// What a query consists of, after it has been taken apart.
    private enum Item {
        case open(at: Int)
        case close(at: Int)
        case negation(at: Int)
        case keyword(Keyword, Range<Int>)
        case word(Word)
    }

    private enum Keyword: String {
        case or = "OR"
        case bar = "|"
        case and = "AND"
        case not = "NOT"
    }

    /// A word, a phrase or a filter, without the parentheses around it.
    private struct Word {
        var range: Range<Int>
        var form: Form

        enum Form {
            case plain
            case phrase(String)
            case filter(Field, FilterText)
        }
    }

    /// What white space separates.
    private struct Token {
        var word: Word
        var start: Int
        var end: Int
        /// The parentheses (true) and negations (false) before the word.
        var leads: [(isParenthesis: Bool, index: Int)]
        /// The number of parentheses after the word.
        var closers: Int
    }

    init(_ text: String, clock: QueryClock) throws(QueryError) {
        let count = text.utf8.count
        guard count <= SearchQuery.lengthLimit else {
            throw QueryError(
                .tooLong, "A search has at most \(SearchQuery.lengthLimit) bytes; this one has \(count).",
                at: SearchQuery.lengthLimit..<count)
        }
        scalars = Array(text.unicodeScalars)
        var offsets = [0]
        offsets.reserveCapacity(scalars.count + 1)
        for scalar in scalars { offsets.append(offsets[offsets.count - 1] + UTF8.width(scalar)) }
        self.offsets = offsets
        values = FilterValues(clock: clock, offsets: offsets)
    }

    mutating func query() throws(QueryError) -> SearchQuery {
        try separate()
        let condition = try alternatives(depth: 0)
        guard terms <= SearchQuery.termLimit else {
            throw QueryError(
                .tooManyTerms,
                "A search has at most \(SearchQuery.termLimit) words and filters; this one has \(terms).",
                at: 0..<offsets[scalars.count])
        }
        return SearchQuery(condition: condition, sort: sort)
    }

    private func error(_ code: QueryError.Code, _ message: String, _ range: Range<Int>) -> QueryError {
        QueryError(code, message, at: offsets[range.lowerBound]..<offsets[range.upperBound])
    }

    // MARK: - Words

    private func isSpace(_ index: Int) -> Bool { scalars[index].properties.isWhitespace }

    private func isEdge(_ index: Int) -> Bool { index == scalars.count || isSpace(index) }

    /// Takes the text apart into items.
    private mutating func separate() throws(QueryError) {
        var tokens: [Token] = []
        var index = 0
        while true {
            while index < scalars.count, isSpace(index) { index += 1 }
            guard index < scalars.count else { break }
            let token = try token(at: index)
            index = token.end
            tokens.append(token)
        }

        // Parentheses at the edges of words find their partners.
        var opened: [Int] = []
        var partners = Array(repeating: (opens: 0, closes: 0), count: tokens.count)
        for (number, token) in tokens.enumerated() {
            for lead in token.leads where lead.isParenthesis { opened.append(number) }
            for _ in 0..<token.closers {
                guard let other = opened.popLast() else { break }
                partners[other].opens += 1
                partners[number].closes += 1
            }
        }

        var lone: Range<Int>?
        for (token, partners) in zip(tokens, partners) {
            let openings = token.leads.filter(\.isParenthesis)
            if partners.opens < openings.count {
                let index = openings[0].index
                lone = lone ?? index..<(index + 1)
            } else if partners.closes < token.closers {
                lone = lone ?? (token.end - 1)..<token.end
            }
            add(token, opens: partners.opens, closes: partners.closes)
        }
        let isOperator = isOperatorUsed()
        if let lone, hasSyntax || isOperator {
            throw error(
                .unpairedParenthesis,
                "This parenthesis has no partner. To find it as text, put the text around it into quotation marks.",
                lone)
        }
    }

    /// Adds the items of a token, of whose parentheses so many have a partner; the others are text.
    private mutating func add(_ token: Token, opens: Int, closes: Int) {
        var word = token.word
        var opens = opens
        var isChanged = closes < token.closers
        if case .plain = word.form {} else { hasSyntax = true }
        var start = word.range.lowerBound
        for (number, lead) in token.leads.enumerated() {
            if !lead.isParenthesis {
                // Before a parenthesis that is text it is text too.
                if opens == 0, number + 1 < token.leads.count, token.leads[number + 1].isParenthesis {
                    start = lead.index
                    isChanged = true
                    break
                }
                items.append(.negation(at: lead.index))
                hasSyntax = true
            } else if opens > 0 {
                opens -= 1
                items.append(.open(at: lead.index))
            } else {
                start = lead.index
                isChanged = true
                break
            }
        }
        if isChanged {
            word.form = .plain
            word.range = start..<(token.end - closes)
        }
        if !word.range.isEmpty {
            let isNegated = if case .negation = items.last { true } else { false }
            if case .plain = word.form, !isNegated, let keyword = Keyword(rawValue: text(word.range)) {
                items.append(.keyword(keyword, word.range))
            } else {
                items.append(.word(word))
            }
        }
        for index in (token.end - closes)..<token.end { items.append(.close(at: index)) }
    }

    private func text(_ range: Range<Int>) -> String { String(String.UnicodeScalarView(scalars[range])) }

    /// Tells whether a keyword stands where it has something to work on.
    private func isOperatorUsed() -> Bool {
        items.indices.contains { index in
            guard case .keyword(let keyword, _) = items[index], startsOperand(index + 1) else { return false }
            return keyword == .not || endsOperand(index - 1)
        }
    }

    private func startsOperand(_ index: Int) -> Bool {
        guard items.indices.contains(index) else { return false }
        if case .close = items[index] { return false }
        return true
    }

    private func endsOperand(_ index: Int) -> Bool {
        guard items.indices.contains(index) else { return false }
        switch items[index] {
        case .open, .negation: return false
        case .close, .keyword, .word: return true
        }
    }

    /// Reads up to the white space that ends a word.
    private mutating func token(at start: Int) throws(QueryError) -> Token {
        var index = start
        var leads: [(isParenthesis: Bool, index: Int)] = []
        while index < scalars.count {
            if scalars[index] == "(" {
                leads.append((true, index))
            } else if isNegation(index) {
                leads.append((false, index))
            } else {
                break
            }
            index += 1
        }
        if index < scalars.count, !isSpace(index) {
            if let phrase = try phrase(at: index) {
                return Token(
                    word: Word(range: index..<phrase.end, form: .phrase(phrase.text)), start: start,
                    end: phrase.end + phrase.closers, leads: leads, closers: phrase.closers)
            }
            if let filter = try filter(at: index, leads: leads) {
                return Token(
                    word: Word(range: index..<(filter.end - filter.closers), form: .filter(filter.field, filter.text)),
                    start: start, end: filter.end, leads: leads, closers: filter.closers)
            }
        }
        return plain(from: start, word: index, leads: leads)
    }

    private func isNegation(_ index: Int) -> Bool {
        guard scalars[index] == "-" || scalars[index] == "!", index + 1 < scalars.count else { return false }
        switch scalars[index + 1] {
        case "\"", "(", "*", "?", ".", "_": return true
        case let next: return next.properties.isAlphabetic || next.properties.numericType != nil
        }
    }

    /// Reads a word whose parentheses and negations have been read.
    private func plain(from start: Int, word: Int, leads: [(isParenthesis: Bool, index: Int)]) -> Token {
        var end = word
        while !isEdge(end) { end += 1 }
        var inner = end
        while inner > word, scalars[inner - 1] == ")" { inner -= 1 }
        var opens = 0
        var closes = 0
        for scalar in scalars[word..<inner] {
            if scalar == "(" {
                opens += 1
            } else if scalar == ")" {
                if opens > 0 { opens -= 1 } else { closes += 1 }
            }
        }
        let closers = max(0, end - inner - opens)
        var leads = leads
        var first = word
        // What closes within the word was opened there too, and is text.
        while closes > 0, let last = leads.lastIndex(where: \.isParenthesis) {
            closes -= 1
            first = leads[last].index
            leads.removeSubrange(last...)
        }
        if first == end - closers, !leads.isEmpty, closers > 0 {
            // Parentheses around nothing.
            return Token(word: Word(range: start..<end, form: .plain), start: start, end: end, leads: [], closers: 0)
        }
        return Token(
            word: Word(range: first..<(end - closers), form: .plain), start: start, end: end, leads: leads,
            closers: closers)
    }

    /// Reads a phrase; `nil` when the word is none.
    private func phrase(at start: Int) throws(QueryError) -> (text: String, end: Int, closers: Int)? {
        guard scalars[start] == "\"" else { return nil }
        let (text, _, end) = try quoted(at: start)
        var edge = end
        while edge < scalars.count, scalars[edge] == ")" { edge += 1 }
        return isEdge(edge) ? (String(text), end, edge - end) : nil
    }

    /// Reads from a quotation mark to its partner.
    private func quoted(
        at start: Int
    ) throws(QueryError) -> (text: String.UnicodeScalarView, sources: [Int], end: Int) {
        var text = String.UnicodeScalarView()
        var sources: [Int] = []
        var index = start + 1
        while index < scalars.count {
            if scalars[index] == "\"" {
                guard index + 1 < scalars.count, scalars[index + 1] == "\"" else { return (text, sources, index + 1) }
                index += 1
            }
            text.append(scalars[index])
            sources.append(index)
            index += 1
        }
        throw error(
            .unpairedQuote, "This quotation mark has no partner. Within quotation marks, one is written as two.",
            start..<(start + 1))
    }

    // MARK: - Filters

    /// Reads a filter; `nil` when the word is none.
    private mutating func filter(
        at start: Int, leads: [(isParenthesis: Bool, index: Int)]
    ) throws(QueryError) -> (field: Field, text: FilterText, end: Int, closers: Int)? {
        var colon = start
        while colon < scalars.count, ("a"..."z").contains(NameFolding.lowercase(scalars[colon])) { colon += 1 }
        guard colon > start, colon < scalars.count, scalars[colon] == ":" else { return nil }
        let name = text(start..<colon).lowercased()
        guard let field = Field(name) else {
            // `https://`, `std::` and `Re:` are no filters, nor meant to be.
            guard name.count > 2, !isEdge(colon + 1), scalars[colon + 1] != "/", scalars[colon + 1] != ":" else {
                return nil
            }
            guard let meant = Field.nearest(to: name) else {
                let unknown = SearchQuery.UnknownFilter(name: name, nearest: Field.meant(by: name)?.rawValue)
                if !unknownFilters.contains(unknown) { unknownFilters.append(unknown) }
                return nil
            }
            throw error(
                .unknownField,
                "There is no filter \(name):. Did you mean \(meant.rawValue):? To find it as text, put it into quotation "
                    + "marks.", start..<colon)
        }
        var pieces: [FilterText.Piece] = []
        var sources: [Int] = []
        var index = colon + 1
        var opens = 0
        var closers = 0
        while !isEdge(index) {
            if scalars[index] == "\"" {
                let piece = try quoted(at: index)
                pieces.append(FilterText.Piece(scalars: Array(piece.text), isQuoted: true))
                sources += piece.sources
                index = piece.end
                closers = 0
                continue
            }
            if scalars[index] == "(" {
                opens += 1
                closers = 0
            } else if scalars[index] == ")" {
                if opens > 0 { opens -= 1 } else { closers += 1 }
            } else {
                closers = 0
            }
            if pieces.last?.isQuoted ?? true { pieces.append(FilterText.Piece(scalars: [], isQuoted: false)) }
            pieces[pieces.count - 1].scalars.append(scalars[index])
            sources.append(index)
            index += 1
        }
        if closers > 0 {
            pieces[pieces.count - 1].scalars.removeLast(closers)
            sources.removeLast(closers)
        }
        pieces.removeAll { !$0.isQuoted && $0.scalars.isEmpty }
        let text = FilterText(
            pieces: pieces, sources: sources, name: start..<(colon + 1), range: (colon + 1)..<(index - closers))
        guard !pieces.isEmpty, !text.scalars.isEmpty else {
            throw error(
                .missingValue,
                "\(field.rawValue): needs a value right after the colon. To find it as text, put it into quotation marks.",
                start..<(colon + 1))
        }
        return (field, text, index, closers)
    }

    // MARK: - Conditions

    private mutating func alternatives(depth: Int) throws(QueryError) -> Condition {
        var branches = [try conjunction(depth: depth)]
        while case .keyword(let keyword, _) = item, keyword == .or || keyword == .bar, startsOperand(position + 1) {
            position += 1
            branches.append(try conjunction(depth: depth))
        }
        return Condition(any: branches)
    }

    private var item: Item? { items.indices.contains(position) ? items[position] : nil }

    private mutating func conjunction(depth: Int) throws(QueryError) -> Condition {
        var parts: [Condition] = []
        while let item {
            if case .close = item { break }
            if !parts.isEmpty, case .keyword(let keyword, _) = item, keyword != .not, startsOperand(position + 1) {
                if keyword != .and { break }
                position += 1
            }
            if let part = try operand(depth: depth, isNegated: false) { parts.append(part) }
        }
        return Condition(all: parts)
    }

    /// Reads one operand; `nil` for what is no condition.
    private mutating func operand(depth: Int, isNegated: Bool) throws(QueryError) -> Condition? {
        guard let item else { return nil }
        position += 1
        switch item {
        case .open(let index):
            try checkDepth(depth, index)
            if case .close(let end) = self.item {
                throw error(.emptyGroup, "There is nothing between these parentheses.", index..<(end + 1))
            }
            let condition = try alternatives(depth: depth + 1)
            position += 1
            return condition
        case .negation(let index): return try negated(depth: depth, index)
        case .keyword(.not, let range) where startsOperand(position):
            return try negated(depth: depth, range.lowerBound)
        case .keyword(_, let range):
            terms += 1
            return .term(.name(.contains(NameFolding.folded(text(range)))))
        case .word(let word): return try condition(of: word, depth: depth, isNegated: isNegated)
        case .close: preconditionFailure("A closing parenthesis with a partner ends its group")
        }
    }

    private mutating func negated(depth: Int, _ index: Int) throws(QueryError) -> Condition? {
        try checkDepth(depth, index)
        return try operand(depth: depth + 1, isNegated: true).map(Condition.init(not:))
    }

    private func checkDepth(_ depth: Int, _ index: Int) throws(QueryError) {
        guard depth < SearchQuery.depthLimit else {
            throw error(
                .tooDeep, "Groups and negations may be nested \(SearchQuery.depthLimit) deep.", index..<(index + 1))
        }
    }

    /// Tells whether the one wildcard of a word ends a question instead: `What?`.
    private static func isQuestion(_ word: [Unicode.Scalar]) -> Bool {
        guard let mark = word.firstIndex(of: "?"), !word[..<mark].contains("*") else { return false }
        return word[(mark + 1)...].allSatisfy { scalar in
            scalar != "?" && scalar != "*" && !scalar.properties.isAlphabetic && scalar.properties.numericType == nil
        }
    }

    private mutating func condition(
        of word: Word, depth: Int, isNegated: Bool
    ) throws(QueryError) -> Condition? {
        switch word.form {
        case .plain:
            terms += 1
            let scalars = Array(scalars[word.range])
            let piece = FilterText.Piece(scalars: scalars, isQuoted: Self.isQuestion(scalars))
            return .term(.name(FilterText.nameMatch(of: [piece])))
        case .phrase(let text):
            terms += 1
            return text.isEmpty ? .everything : .term(.name(.contains(NameFolding.folded(text))))
        case .filter(.sort, let text):
            guard depth == 0, !isNegated else {
                throw error(
                    .misplacedSort, "sort: holds for the whole search, and stands outside of groups and negations.",
                    word.range)
            }
            for key in try values.sort(text) where !sort.contains(where: { $0.field == key.field }) { sort.append(key) }
            return nil
        case .filter(let field, let text):
            let condition = try values.condition(field, text)
            terms += condition.termCount
            return condition
        }
    }
}

extension Condition {
    /// All of several conditions, in the shape in which a query has them.
    init(all parts: [Condition]) {
        let parts = parts.flatMap { (part) -> [Condition] in
            switch part {
            case .everything: []
            case .all(let parts): parts
            default: [part]
            }
        }
        self = parts.isEmpty ? .everything : parts.count == 1 ? parts[0] : .all(parts)
    }

    /// One of several conditions at least, in the shape in which a query has them.
    init(any parts: [Condition]) {
        let parts = parts.flatMap { (part) -> [Condition] in
            if case .any(let parts) = part { parts } else { [part] }
        }
        self = parts.count == 1 ? parts[0] : .any(parts)
    }

    /// The opposite of a condition, in the shape in which a query has it.
    init(not part: Condition) {
        if case .not(let inner) = part { self = inner } else { self = .not(part) }
    }

    /// The number of terms in it.
    var termCount: Int {
        switch self {
        case .everything: 0
        case .all(let parts), .any(let parts): parts.reduce(0) { $0 + $1.termCount }
        case .not(let part): part.termCount
        case .term: 1
        }
    }
}
