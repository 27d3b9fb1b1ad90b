import KithRPC
import KithWire
import Testing

@testable import KithAPI

@Suite struct `Checking a value by its schema` {
    /// What is wrong with `value`; `nil` when it is as the schema says.
    private func reason(_ value: String, _ schema: JSONSchema) throws -> String? {
        let value = try JSONText(Array(value.utf8)).parsed
        do throws(KithError) {
            try schema.check(value, as: "params")
            return nil
        } catch {
            #expect(error.code == .invalid)
            return error.message
        }
    }

    @Test(arguments: [
        ("null", "null"), ("boolean", "true"), ("integer", "-3"), ("integer", "3.0"),
        ("integer", "18446744073709551616"),
        ("integer", "3e2"), ("number", "0.5"), ("number", "7"), ("string", "\"\""), ("array", "[]"), ("object", "{}"),
    ])
    func `a value of the type passes, one of no other does`(type: String, value: String) throws {
        #expect(try reason(value, ["type": .string(type)]) == nil)
        #expect(try reason(value, ["type": ["string", "object", .string(type)]]) == nil)
        let others: [JSONValue] = ["null", "boolean", "string", "array", "object"].filter { $0 != .string(type) }
        for other in others { #expect(try reason(value, ["type": other]) != nil) }
    }

    @Test func `the error names the member, and says what it must be`() throws {
        let schema: JSONSchema = [
            "type": "object", "required": ["count"],
            "properties": [
                "count": ["type": "integer", "minimum": 1, "maximum": 9],
                "list": ["items": ["properties": ["name": ["type": "string", "minLength": 1]]]],
                "mode": ["enum": ["fast", 2, .null]],
            ],
            "additionalProperties": false,
        ]
        #expect(try reason(#"{"count": 3, "list": [{}, {"name": "x", "more": 1}], "mode": 2.0}"#, schema) == nil)
        for (value, expected) in [
            ("7", "params: must be an object, not 7."), ("{}", "params.count: is missing."),
            (#"{"count": "3"}"#, "params.count: must be a whole number, not text."),
            (#"{"count": 0}"#, "params.count: must be at least 1."),
            (#"{"count": 1.5}"#, "params.count: must be a whole number, not 1.5."),
            (#"{"count": 1e1}"#, "params.count: must be at most 9."),
            (
                #"{"count": 1, "list": [{}, {"name": ""}]}"#,
                "params.list[1].name: must have at least 1 character, not 0."
            ),
            (#"{"count": 1, "mode": "slow"}"#, #"params.mode: must be one of "fast", 2, null."#),
            (#"{"count": 1, "x\u001b": 2}"#, "params.x?: is not a member of this."),
        ] {
            #expect(try reason(value, schema) == expected)
        }
    }

    @Test func `limits of numbers, lengths and counts hold`() throws {
        for (value, schema, isRight) in [
            ("9007199254740993", ["maximum": 9_007_199_254_740_992], false), ("1e400", ["maximum": 5], false),
            ("-1e400", ["maximum": 5], true), ("5", ["exclusiveMinimum": 5], false),
            ("5", ["minimum": .number(5)], true),
            ("5", ["exclusiveMaximum": .number(5.5)], true), ("\"e\u{301}\"", ["maxLength": 1], false),
            ("\"\u{1F600}\"", ["maxLength": 1], true), ("[1,2]", ["maxItems": 1], false),
            ("[]", ["minItems": 1], false),
            ("{\"a\":1}", ["maxProperties": 0], false), ("[1, 1.0]", ["uniqueItems": true], false),
            ("[18446744073709551615, 18446744073709551614, \"1\", 1]", ["uniqueItems": true], true),
            ("[{\"a\":[1]},{\"a\":[1]}]", ["uniqueItems": true], false),
            ("[1,\"x\"]", ["prefixItems": [["type": "integer"]], "items": ["type": "string"]], true),
            ("[1,2]", ["prefixItems": [["type": "integer"]], "items": false], false),
            ("3", ["const": .number(3)], true), ("{\"a\":1}", ["const": ["a": 2]], false),
            ("{\"a\":1}", ["additionalProperties": ["type": "string"]], false),
        ] as [(String, JSONSchema, Bool)] {
            #expect(try (reason(value, schema) == nil) == isRight, "\(value) by \(schema)")
        }
    }

    @Test func `of several forms the nearest one says what is wrong`() throws {
        let forms: JSONSchema = [
            "anyOf": [["type": "null"], ["type": "object", "properties": ["a": ["type": "integer"]]]]
        ]
        #expect(try reason("null", forms) == nil)
        #expect(try reason("{}", forms) == nil)
        #expect(try reason(#"{"a": "x"}"#, forms) == "params.a: must be a whole number, not text.")
        #expect(try reason("5", forms) == "params: has none of the forms that it may have.")
        let one: JSONSchema = ["oneOf": [["minimum": 1], ["maximum": 9]]]
        #expect(try reason("5", one) == "params: must have one of its forms, and has several.")
        #expect(try reason("15", one) == nil)
        #expect(try reason("5", ["allOf": [["minimum": 1], ["maximum": 4]]]) == "params: must be at most 4.")
        #expect(try reason("5", ["not": ["type": "integer"]]) == "params: is what it must not be.")
    }

    @Test func `references to definitions and to the whole are followed, and end`() throws {
        let tree: JSONSchema = [
            "$defs": ["name": ["type": "string"]], "type": "object",
            "properties": ["name": ["$ref": "#/$defs/name"], "children": ["items": ["$ref": "#"]]],
        ]
        #expect(try reason(#"{"name": "a", "children": [{"name": "b", "children": []}]}"#, tree) == nil)
        #expect(
            try reason(#"{"children": [{"children": [{"name": 1}]}]}"#, tree)
                == "params.children[0].children[0].name: must be text, not 1.")
        for endless: JSONSchema in [
            ["$ref": "#"], ["anyOf": [["$ref": "#"], ["$ref": "#"]]],
            ["$defs": ["a": ["allOf": [["$ref": "#/$defs/a"], ["$ref": "#/$defs/a"]]]], "$ref": "#/$defs/a"],
        ] {
            #expect(throws: KithError(.exhausted, "")) { try endless.check(.null, as: "params") }
        }
    }

    @Test func `what takes too long to check is refused`() throws {
        // Each level tries both of its forms with all that is below.
        var schema: JSONSchema = ["type": "integer"]
        for _ in 0..<40 { schema = ["oneOf": [["items": schema.value], ["items": schema.value]]] }
        var value = ParsedJSON.number("1")
        for _ in 0..<40 { value = .array([value]) }
        #expect(throws: KithError(.exhausted, "")) { try schema.check(value, as: "params") }
        let many = ParsedJSON.array(Array(repeating: .null, count: SchemaCheck.stepLimit))
        #expect(throws: KithError(.exhausted, "")) {
            try JSONSchema.array(of: ["type": "null"]).check(many, as: "params")
        }
    }

    /// A value that is a lot of work to check.
    struct Costly: CustomTestStringConvertible {
        var testDescription: String
        var schema: JSONSchema
        var value: ParsedJSON
    }

    static let costly = [
        Costly(
            testDescription: "many constants for each element",
            schema: ["items": ["anyOf": .array((0..<300).map { ["const": .integer($0)] } + [true])]],
            value: .array((0..<10_000).map { .number("\($0 + 1_000)") })),
        Costly(
            testDescription: "arrays that differ in their last element",
            schema: ["items": ["anyOf": [["enum": [.array(Array(repeating: 0, count: 12_000))]], true]]],
            value: .array(
                Array(
                    repeating: .array(Array(repeating: .number("0"), count: 11_999) + [.number("1")]), count: 100))),
        Costly(
            testDescription: "uniqueness again and again",
            schema: ["allOf": .array(Array(repeating: ["uniqueItems": true], count: 1_000))],
            value: .array((0..<10_000).map { .number("\($0)") })),
        Costly(
            testDescription: "the length of a long text again and again",
            schema: ["items": ["anyOf": .array(Array(repeating: ["maxLength": 1], count: 1_000) + [true])]],
            value: .array(Array(repeating: .string(String(repeating: "x", count: 1 << 16)), count: 10))),
        Costly(
            testDescription: "a large object again and again",
            schema: ["anyOf": .array(Array(repeating: ["properties": [:], "required": ["b"]], count: 1_000))],
            value: .object(Dictionary(uniqueKeysWithValues: (0..<10_000).map { ("\($0)", .null) }))),
    ]

    /// Each of these took many seconds while a comparison, however large, was one step or none.
    @Test(arguments: costly)
    func `what is compared is counted, element by element and by length`(costly: Costly) {
        #expect(throws: KithError(.exhausted, "")) { try costly.schema.check(costly.value, as: "params") }
    }

    @Test func `a check ends when nobody waits for it`() async {
        let schema: JSONSchema = ["items": ["type": "integer"]]
        let value = ParsedJSON.array(Array(repeating: .number("1"), count: 100_000))
        let result = await Task {
            withUnsafeCurrentTask { unsafe $0?.cancel() }
            return Result { try schema.check(value, as: "params") }
        }.value
        #expect(throws: KithError(.cancelled, "")) { try result.get() }
    }

    @Test func `keywords that are unknown, or make no sense, allow all`() throws {
        let odd: JSONSchema = [
            "type": "quaternion", "format": "email", "pattern": "^a", "minimum": "x", "maxLength": -1, "required": 5,
            "properties": [1], "items": "x", "enum": 7, "$ref": "https://example.org/", "anyOf": [],
            "minItems": .number(0.5),
        ]
        for value in ["null", "5", "\"b\"", "[1]", "{\"a\":2}"] { #expect(try reason(value, odd) == nil) }
        #expect(try reason("5", [:]) == nil)
    }

    @Test func `every input of ours passes its own schema`() throws {
        let probe = SchemaProbe()
        let document = OpenRPC(describing: API.methods)
        var tried = 0
        for method in API.methods {
            guard let sample = method.sampleInput(probe), case .json(let json) = try method.input.encode(sample, .json)
            else { continue }
            let described = try #require(document.methods.first { $0.name == method.name })
            let schema: JSONSchema
            if let input = described.input {
                schema = input
            } else {
                schema = .object(described.params.map { ($0.name, $0.schema, $0.required ?? false) })
            }
            let problem = try reason(String(decoding: json, as: UTF8.self), schema)
            #expect(problem == nil, "\(method.name)")
            tried += 1
        }
        #expect(tried > 40)
    }
}
