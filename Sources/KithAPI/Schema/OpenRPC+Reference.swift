import KithRPC

// The document for people: in words, as examples, as a page.

extension OpenRPC {
    /// A schema in a few words: `integer`, `array of Files.Entry`, `text or null`.
    package func words(for schema: JSONSchema) -> String {
        if let name = schema.referenced { return name }
        for keyword in ["anyOf", "oneOf"] {
            guard case .array(let forms) = schema[keyword] else { continue }
            return forms.compactMap { JSONSchema($0) }.map { form in
                // An enumeration's cases are objects of one member.
                form.properties.count == 1 && form.required.count == 1
                    ? "{\(form.required[0])}" : words(for: form)
            }.joined(separator: " or ")
        }
        if case .array(let values) = schema["enum"] {
            return values.map { "`\(Self.text($0))`" }.joined(separator: ", ")
        }
        switch schema["type"] {
        case "string": return schema["contentEncoding"] == "base64" ? "base64" : "text"
        case "array": return "array of \(JSONSchema(schema["items"]).map { words(for: $0) } ?? "anything")"
        case "object":
            guard let values = JSONSchema(schema["additionalProperties"]) else { return "object" }
            return "object of \(words(for: values))"
        case .string(let name): return name
        default: return "anything"
        }
    }

    /// Describes the content of one direction of a stream, in words.
    package func words(for way: Way) -> String {
        way.message.map { "messages: \(words(for: $0))" } ?? way.form.rawValue
    }

    /// A method's default for a member, in JSON; `nil` when it has none that could be named.
    package func defaultText(of content: Content) -> String? {
        content.schema["default"].flatMap { try? JSONText(encoding: $0).description }
    }

    /// Describes in one line how a method is called, by whom, and whether it is idempotent.
    package func traits(of method: Method) -> String {
        let who =
            switch method.access {
            case "anyone": "for any device"
            case "paired": "for paired devices"
            case "owner": "for this device's person"
            default: "needs \(method.access)"
            }
        return "\(method.kind.rawValue), \(who)\(method.isIdempotent ? ", idempotent" : "")"
    }

    /// A line that calls a method, to be filled in.
    package func exampleCall(of method: Method) -> String {
        let required = method.params.filter { $0.required == true }
        let members = required.map { ($0.name, example(of: $0.schema, depth: 0)) }
        let input = method.input.map { example(of: $0, depth: 0) } ?? .object(Dictionary(members) { $1 })
        let text = (try? JSONText(encoding: input).description) ?? "{}"
        return
            "kith call \(method.name)\(text == "{}" ? "" : " '\(text)'")\(method.access == "owner" ? "" : " --on laptop")"
    }

    private func example(of schema: JSONSchema, depth: Int) -> JSONValue {
        if let value = schema["default"] { return value }
        if case .array(let values) = schema["examples"], let first = values.first { return first }
        if case .array(let values) = schema["enum"], let first = values.first { return first }
        if let name = schema.referenced, let target = components.schemas[name] {
            // A type that holds itself ends somewhere.
            return depth < 8 ? example(of: target, depth: depth + 1) : .null
        }
        for keyword in ["anyOf", "oneOf"] {
            guard case .array(let forms) = schema[keyword], let first = JSONSchema(forms.first) else { continue }
            return example(of: first, depth: depth + 1)
        }
        switch schema["type"] {
        case "string": return schema["contentEncoding"] == "base64" ? "" : "…"
        case "integer", "number": return 1
        case "boolean": return true
        case "array": return JSONSchema(schema["items"]).map { [example(of: $0, depth: depth + 1)] } ?? []
        case "object":
            let members = schema.properties.filter { schema.required.contains($0.key) }
            return .object(members.mapValues { example(of: $0, depth: depth + 1) })
        default: return .null
        }
    }

    private static func text(_ value: JSONValue) -> String {
        if case .string(let text) = value { return text }
        return (try? JSONText(encoding: value).description) ?? ""
    }

    /// The members of an object by name, with their types in words.
    package func members(of schema: JSONSchema) -> [(name: String, type: String, isRequired: Bool)] {
        schema.properties.sorted { $0.key < $1.key }.map {
            ($0.key, words(for: $0.value), schema.required.contains($0.key))
        }
    }

    // MARK: - The page

    /// The whole document as a page in Markdown.
    package var reference: String {
        var lines = [
            "# Methods", "",
            "Made by `kith api reference`; a test checks that it is up to date. `Documentation/Socket.md` says how to call",
            "them, `Documentation/Evolution.md` how they may change. Members that have a default may be left out.", "",
        ]
        var service = ""
        for method in methods {
            let prefix = String(method.name.prefix { $0 != "." })
            if prefix != service {
                lines += ["## \(prefix)", ""]
                service = prefix
            }
            lines += ["### `\(method.name)`", "", "\(method.summary) (\(traits(of: method)))", ""]
            if let input = method.input { lines += ["Input: \(Self.cell(words(for: input)))", ""] }
            if !method.params.isEmpty {
                lines += ["| member | type | default |", "| --- | --- | --- |"]
                for param in method.params {
                    let fallback =
                        param.required == true ? "required" : defaultText(of: param).map { "`\($0)`" } ?? "none"
                    lines.append(
                        "| `\(param.name)` | \(Self.cell(words(for: param.schema))) | \(Self.cell(fallback)) |")
                }
                lines.append("")
            }
            var answer = "Answer: \(Self.cell(words(for: method.result.schema)))"
            if let way = method.upstream { answer += "; the caller sends \(Self.cell(words(for: way)))" }
            if let way = method.downstream { answer += "; the device sends \(Self.cell(words(for: way)))" }
            lines += [answer, ""]
        }
        lines += ["## Types", ""]
        for (name, schema) in components.schemas.sorted(by: { $0.key < $1.key }) {
            lines += ["### `\(name)`", ""]
            if case .string(let text) = schema["description"] { lines += [text, ""] }
            let members = members(of: schema)
            if members.isEmpty {
                lines += [Self.cell(forms(of: schema)), ""]
                continue
            }
            lines += ["| member | type | |", "| --- | --- | --- |"]
            lines += members.map { "| `\($0.name)` | \(Self.cell($0.type)) | \($0.isRequired ? "required" : "") |" }
            lines.append("")
        }
        lines.removeLast()
        return lines.joined(separator: "\n") + "\n"
    }

    /// A type that is no object in words; an enumeration's cases with what they hold.
    package func forms(of schema: JSONSchema) -> String {
        guard case .array(let forms) = schema["oneOf"] else { return words(for: schema) }
        return forms.compactMap { JSONSchema($0) }.map { form in
            guard let name = form.required.first, let value = form.properties[name] else { return words(for: form) }
            return "{`\(name)`: \(words(for: value))}"
        }.joined(separator: " or ")
    }

    private static func cell(_ text: String) -> String { text.replacing("|", with: "\\|") }
}
