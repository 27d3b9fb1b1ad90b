package import KithRPC
package import KithWire

extension JSONSchema {
    /// Checks that a value looks as this says.
    ///
    /// Understands of the draft 2020-12 `type`, `enum`, `const`, the limits of numbers, lengths, counts of elements and of
    /// members, `items`, `prefixItems`, `properties`, `required`, `additionalProperties`, `uniqueItems`, `anyOf`, `oneOf`,
    /// `allOf`, `not`, and `$ref` to `#` or to one of `#/$defs`. What it does not know, and a keyword whose value makes no
    /// sense, allows all.
    ///
    /// - Parameters:
    ///   - value: The value.
    ///   - name: The value's name in the error.
    ///   - steps: How much may be done, at most ``SchemaCheck/stepLimit``.
    /// - Throws: `KithError` `.invalid` with the first member that is not as it should be, `params.count: …`;
    ///   `.exhausted` for a value that takes more; `.cancelled` when the task is cancelled meanwhile.
    package func check(
        _ value: ParsedJSON, as name: String, steps: Int = SchemaCheck.stepLimit
    ) throws(KithError) {
        var check = SchemaCheck(root: self, limit: min(steps, SchemaCheck.stepLimit))
        do throws(SchemaCheck.Failure) {
            try check.check(value, self, SchemaCheck.Path())
        } catch {
            switch error {
            case .violation(let violation):
                throw KithError(.invalid, "\(violation.path.text(of: name)): \(violation.text)")
            case .tooMuch: throw KithError(.exhausted, "\(name): too deep or too large to be checked.")
            case .cancelled: throw KithError(.cancelled, "The call was cancelled.")
            }
        }
    }
}

/// Looks whether a value is as a schema says: a pure function of the two, in bounded time.
package struct SchemaCheck {
    /// The most steps of one check: each is a value that is held against a schema or against a value of one, a member or an
    /// element that is looked at, or 256 bytes of text.
    package static let stepLimit = 1 << 18
    /// The most steps that are taken at once, without a turn: under a millisecond.
    package static let shortLimit = 1 << 11
    /// How deep values and schemas may be nested, together.
    static let depthLimit = 128

    /// Why a value is not accepted.
    enum Failure: Error {
        case violation(Violation)
        /// It takes more than is done for one value.
        case tooMuch
        /// Nobody waits for it any more.
        case cancelled
    }

    /// The first thing that is wrong.
    struct Violation {
        var path: Path
        /// One sentence without its subject.
        var text: String
        /// Whether the value is of another kind than the schema is for.
        var isOfType = false
    }

    /// The way to a part of a value.
    struct Path {
        private var parts: [String] = []
        var depth = 0

        func member(_ name: String) -> Path { adding("." + Self.visible(name)) }
        func element(_ index: Int) -> Path { adding("[\(index)]") }

        /// One more schema for the same value.
        func deeper() -> Path {
            var path = self
            path.depth += 1
            return path
        }

        private func adding(_ part: String) -> Path {
            var path = deeper()
            path.parts.append(part)
            return path
        }

        /// The way as text of at most so many bytes.
        func text(of name: String) -> String { (name + parts.joined()).prefix(bytes: 256) }

        var count: Int { parts.count }

        /// A member's name comes from elsewhere.
        private static func visible(_ name: String) -> String {
            let text = name.prefix(bytes: 64)
            guard text.unicodeScalars.contains(where: { $0.value < 0x20 || (0x7F...0x9F).contains($0.value) }) else {
                return text
            }
            return String(
                String.UnicodeScalarView(
                    text.unicodeScalars.map { $0.properties.generalCategory == .control ? "?" : $0 }))
        }
    }

    private let root: JSONSchema
    private let limit: Int
    private var steps = 0

    init(root: JSONSchema, limit: Int = stepLimit) {
        self.root = root
        self.limit = limit
    }

    private mutating func step(_ count: Int = 1) throws(Failure) {
        let before = steps
        steps += count
        if steps > limit { throw .tooMuch }
        // Looking costs as much as some steps.
        if before >> 10 != steps >> 10, Task.isCancelled { throw .cancelled }
    }

    /// As many steps as it takes to read a text.
    private mutating func step(over text: String) throws(Failure) {
        if text.utf8.count >= 256 { try step(text.utf8.count >> 8) }
    }

    /// Checks a value against a schema as it stands in another: an object, `true` or `false`.
    private mutating func check(_ value: ParsedJSON, _ schema: JSONValue, _ path: Path) throws(Failure) {
        switch schema {
        case .object(let keywords): try check(value, JSONSchema(keywords), path)
        case .boolean(false): throw .violation(Violation(path: path, text: "is not allowed here."))
        default: break
        }
    }

    mutating func check(_ value: ParsedJSON, _ schema: JSONSchema, _ path: Path) throws(Failure) {
        try step()
        guard path.depth < Self.depthLimit else { throw .tooMuch }
        func fail(_ text: String, isOfType: Bool = false) -> Failure {
            .violation(Violation(path: path, text: text, isOfType: isOfType))
        }
        switch value {
        case .number(let text), .string(let text): try step(over: text)
        default: break
        }
        let types = try types(of: schema)
        if !types.isEmpty, !types.contains(where: { Self.isOf($0, value) }) {
            throw fail(
                "must be \(types.map(Self.phrase).joined(separator: " or ")), not \(Self.kind(value)).", isOfType: true)
        }
        if let constant = schema["const"] {
            guard try isSame(value, constant) else { throw fail("must be \(Self.shown(constant)).") }
        }
        if case .array(let values) = schema["enum"] { try choice(value, values, fail) }
        switch value {
        case .number(let literal): try number(literal, schema, fail)
        case .string(let text):
            if let reason = Self.count(text.unicodeScalars.count, schema, "Length", "character") { throw fail(reason) }
        case .array(let elements): try array(elements, schema, path, fail)
        case .object(let members): try object(members, schema, path, fail)
        case .null, .bool: break
        }
        try combined(value, schema, path)
    }

    private mutating func choice(
        _ value: ParsedJSON, _ values: [JSONValue], _ fail: (String, Bool) -> Failure
    ) throws(Failure) {
        for other in values where try isSame(value, other) { return }
        let list = values.prefix(12).map(Self.shown).joined(separator: ", ")
        throw fail("must be one of \(list)\(values.count > 12 ? ", …" : "").", false)
    }

    /// Tells whether two values are the same, however their numbers are written.
    private mutating func isSame(_ value: ParsedJSON, _ other: JSONValue) throws(Failure) -> Bool {
        try step()
        switch (value, other) {
        case (.null, .null): return true
        case (.bool(let value), .boolean(let other)): return value == other
        case (.string(let value), .string(let other)):
            guard value.utf8.count == other.utf8.count else { return false }
            try step(over: value)
            return value.utf8.elementsEqual(other.utf8)
        case (.number(let literal), .integer), (.number(let literal), .number):
            try step(over: literal)
            return Canonical(number: literal) == Canonical(number: other)
        case (.array(let elements), .array(let others)):
            guard elements.count == others.count else { return false }
            for (element, other) in zip(elements, others) {
                guard try isSame(element, other) else { return false }
            }
            return true
        case (.object(let members), .object(let others)):
            guard members.count == others.count else { return false }
            for (name, other) in others {
                guard let member = members[name], try isSame(member, other) else { return false }
            }
            return true
        default: return false
        }
    }

    // MARK: - Types

    /// The types that a schema allows; none when it does not say, or says what is unknown.
    private mutating func types(of schema: JSONSchema) throws(Failure) -> [String] {
        switch schema["type"] {
        case .string(let name)?: return Self.known.contains(name) ? [name] : []
        case .array(let types)?:
            try step(types.count)
            let names = JSONSchema.strings(.array(types))
            return names.allSatisfy(Self.known.contains) ? names : []
        default: return []
        }
    }

    private static let known: Set<String> = ["null", "boolean", "integer", "number", "string", "array", "object"]

    private static func isOf(_ type: String, _ value: ParsedJSON) -> Bool {
        switch (type, value) {
        case ("null", .null), ("boolean", .bool), ("number", .number), ("string", .string), ("array", .array),
            ("object", .object):
            true
        case ("integer", .number(let literal)): isWhole(literal)
        default: false
        }
    }

    /// Whether a number is whole, however it is written: 3, 3.0 and 3e0 are.
    private static func isWhole(_ literal: String) -> Bool {
        if literal.utf8.allSatisfy({ $0 == UInt8(ascii: "-") || (48...57).contains($0) }) { return true }
        guard let number = Double(literal), number.isFinite else { return false }
        return number.rounded() == number
    }

    private static func phrase(_ type: String) -> String {
        switch type {
        case "null": "null"
        case "boolean": "true or false"
        case "integer": "a whole number"
        case "number": "a number"
        case "string": "text"
        case "array": "an array"
        default: "an object"
        }
    }

    private static func kind(_ value: ParsedJSON) -> String {
        switch value {
        case .null: "null"
        case .bool(let value): value ? "true" : "false"
        case .number(let literal): literal.prefix(bytes: 32)
        case .string: "text"
        case .array: "an array"
        case .object: "an object"
        }
    }

    /// A value of a schema, as it is written; of one that holds others only what it is.
    private static func shown(_ value: JSONValue) -> String {
        switch value {
        case .array(let elements): return elements.isEmpty ? "[]" : "a certain array"
        case .object(let members): return members.isEmpty ? "{}" : "a certain object"
        case .string(let text): return String(decoding: JSONText.quoted(text.prefix(bytes: 60)), as: UTF8.self)
        default:
            // What was read can be written.
            return String(decoding: (try? JSONText(encoding: value).bytes) ?? [], as: UTF8.self).prefix(bytes: 64)
        }
    }

    // MARK: - Numbers and counts

    private mutating func number(
        _ literal: String, _ schema: JSONSchema, _ fail: (String, Bool) -> Failure
    ) throws(Failure) {
        func compared(_ keyword: String) -> (limit: JSONValue, order: Int)? {
            guard let limit = schema[keyword] else { return nil }
            switch limit {
            case .integer(let limit):
                if let own = Int64(literal) { return (.integer(limit), own < limit ? -1 : own > limit ? 1 : 0) }
                return Double(literal).map { (.integer(limit), $0 < Double(limit) ? -1 : $0 > Double(limit) ? 1 : 0) }
            case .number(let limit):
                return Double(literal).map { (.number(limit), $0 < limit ? -1 : $0 > limit ? 1 : 0) }
            default: return nil
            }
        }
        for (keyword, phrase, isAllowed) in [
            ("minimum", "at least", { $0 >= 0 }), ("exclusiveMinimum", "more than", { $0 > 0 }),
            ("maximum", "at most", { $0 <= 0 }), ("exclusiveMaximum", "less than", { $0 < 0 }),
        ] as [(String, String, (Int) -> Bool)] {
            guard let (limit, order) = compared(keyword), !isAllowed(order) else { continue }
            throw fail("must be \(phrase) \(Self.shown(limit)).", false)
        }
    }

    /// What is wrong with a length or a count, if anything is.
    private static func count(_ count: Int, _ schema: JSONSchema, _ keyword: String, _ unit: String) -> String? {
        func limit(_ prefix: String) -> Int? {
            switch schema[prefix + keyword] {
            case .integer(let limit) where limit >= 0: Int(limit)
            case .number(let limit) where limit >= 0 && limit.rounded() == limit: Int(exactly: limit)
            default: nil
            }
        }
        func units(_ count: Int) -> String { "\(count) \(unit)\(count == 1 ? "" : "s")" }
        if let least = limit("min"), count < least { return "must have at least \(units(least)), not \(count)." }
        if let most = limit("max"), count > most { return "must have at most \(units(most)), not \(count)." }
        return nil
    }

    // MARK: - What holds others

    private mutating func array(
        _ elements: [ParsedJSON], _ schema: JSONSchema, _ path: Path, _ fail: (String, Bool) -> Failure
    ) throws(Failure) {
        if let reason = Self.count(elements.count, schema, "Items", "element") { throw fail(reason, false) }
        var first = 0
        if case .array(let schemas) = schema["prefixItems"] {
            for (index, (element, schema)) in zip(elements, schemas).enumerated() {
                try check(element, schema, path.element(index))
            }
            first = schemas.count
        }
        if let rest = schema["items"], first < elements.count {
            for index in first..<elements.count { try check(elements[index], rest, path.element(index)) }
        }
        if schema["uniqueItems"] == true {
            var seen: Set<Canonical> = []
            for (index, element) in elements.enumerated() {
                guard seen.insert(try canonical(element)).inserted else {
                    throw .violation(Violation(path: path.element(index), text: "is there twice."))
                }
            }
        }
    }

    private mutating func object(
        _ members: [String: ParsedJSON], _ schema: JSONSchema, _ path: Path, _ fail: (String, Bool) -> Failure
    ) throws(Failure) {
        try step(members.count)
        let required = schema.required
        try step(required.count)
        for name in required where members[name] == nil {
            throw .violation(Violation(path: path.member(name), text: "is missing."))
        }
        if let reason = Self.count(members.count, schema, "Properties", "member") { throw fail(reason, false) }
        var properties: [String: JSONValue] = [:]
        if case .object(let described) = schema["properties"] { properties = described }
        let others = schema["additionalProperties"]
        if properties.isEmpty, others == nil { return }
        // In one order, so that of several errors always the same comes first.
        for (name, value) in members.sorted(by: { $0.key < $1.key }) {
            if let own = properties[name] {
                try check(value, own, path.member(name))
            } else if others == .boolean(false) {
                throw .violation(Violation(path: path.member(name), text: "is not a member of this."))
            } else if let others {
                try check(value, others, path.member(name))
            }
        }
    }

    // MARK: - Several schemas

    private mutating func combined(_ value: ParsedJSON, _ schema: JSONSchema, _ path: Path) throws(Failure) {
        if case .array(let schemas) = schema["allOf"] {
            for schema in schemas { try check(value, schema, path.deeper()) }
        }
        if case .array(let schemas) = schema["anyOf"], !schemas.isEmpty {
            let (fits, violation) = try alternatives(value, schemas, path, enough: 1)
            if fits == 0, let violation { throw .violation(violation) }
        }
        if case .array(let schemas) = schema["oneOf"], !schemas.isEmpty {
            let (fits, violation) = try alternatives(value, schemas, path, enough: 2)
            if fits == 0, let violation { throw .violation(violation) }
            if fits > 1 {
                throw .violation(Violation(path: path, text: "must have one of its forms, and has several."))
            }
        }
        if let other = schema["not"], try alternatives(value, [other], path, enough: 1).fits == 1 {
            throw .violation(Violation(path: path, text: "is what it must not be."))
        }
        if case .string(let reference) = schema["$ref"], let target = target(of: reference) {
            try check(value, target, path.deeper())
        }
    }

    /// How many of some schemas a value fits, as far as `enough`; and what is wrong with it where it fits none.
    private mutating func alternatives(
        _ value: ParsedJSON, _ schemas: [JSONValue], _ path: Path, enough: Int
    ) throws(Failure) -> (fits: Int, violation: Violation?) {
        var fits = 0
        var nearest: [Violation] = []
        for schema in schemas {
            do throws(Failure) {
                try check(value, schema, path.deeper())
                fits += 1
                if fits == enough { break }
            } catch {
                guard case .violation(let violation) = error else { throw error }
                // One that is for another kind of value says nothing about this one.
                if violation.isOfType, violation.path.count == path.count { continue }
                nearest.append(violation)
            }
        }
        if fits > 0 { return (fits, nil) }
        // Of several forms, the one in which it went furthest is the one that was meant.
        let best = nearest.max { $0.path.count < $1.path.count }
        if let best, nearest.count == 1 || best.path.count > path.count { return (0, best) }
        return (0, Violation(path: path, text: "has none of the forms that it may have."))
    }

    /// A value in the one way of writing it.
    private mutating func canonical(_ value: ParsedJSON) throws(Failure) -> Canonical {
        try step()
        switch value {
        case .null: return .null
        case .bool(let value): return .boolean(value)
        case .string(let text):
            try step(over: text)
            return .string(text)
        case .number(let literal):
            try step(over: literal)
            return Canonical(number: literal)
        case .array(let elements):
            var all: [Canonical] = []
            for element in elements { all.append(try canonical(element)) }
            return .array(all)
        case .object(let members):
            var all: [String: Canonical] = [:]
            for (name, member) in members { all[name] = try canonical(member) }
            return .object(all)
        }
    }

    private func target(of reference: String) -> JSONValue? {
        if reference == "#" { return root.value }
        let prefix = "#/$defs/"
        guard reference.hasPrefix(prefix), case .object(let definitions) = root["$defs"] else { return nil }
        return definitions[String(reference.dropFirst(prefix.count))]
    }
}

/// A value by what it is, not how it is written: 1, 1.0 and 1e0 are one number.
private enum Canonical: Hashable {
    case null
    case boolean(Bool)
    case integer(Int64)
    case natural(UInt64)
    case number(Double)
    case literal(String)
    case string(String)
    case array([Canonical])
    case object([String: Canonical])

    init(number literal: String) {
        if let number = Int64(literal) {
            self = .integer(number)
        } else if let number = UInt64(literal) {
            self = .natural(number)
        } else if let number = Double(literal), number.isFinite {
            self = Canonical(number)
        } else {
            self = .literal(literal)
        }
    }

    /// A number of a schema; any other value is none.
    init(number value: JSONValue) {
        switch value {
        case .integer(let number): self = .integer(number)
        case .number(let number): self = Canonical(number)
        default: self = .null
        }
    }

    private init(_ number: Double) {
        if let whole = Int64(exactly: number) {
            self = .integer(whole)
        } else if let whole = UInt64(exactly: number) {
            self = .natural(whole)
        } else {
            self = .number(number)
        }
    }
}
