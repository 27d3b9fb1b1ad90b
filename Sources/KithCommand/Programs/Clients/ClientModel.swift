import KithAPI
import KithRPC
import KithWire

/// A table of methods as a language with types writes it: what the generators of clients have in common.
struct ClientModel {
    /// The form of a value.
    indirect enum Form: Hashable {
        case any, boolean, integer, number, text, null
        /// Base64, where bytes are meant.
        case bytes
        /// One of these words.
        case words([String])
        case list(Form)
        /// Any member, each of this form.
        case dictionary(Form)
        case object([Member])
        case oneOf([Form])
        /// A type of the document, by its name there.
        case named(String)
    }

    /// A member of an object.
    struct Member: Hashable {
        var name: String
        var form: Form
        var isRequired: Bool
        var description: String?
    }

    /// A type of the document.
    struct Definition {
        var name: String
        var form: Form
        var description: String?
    }

    /// A method.
    struct Method {
        var name: String
        var namespace: String
        var summary: String
        var callers: String
        var members: [Member]
        /// The whole input, where it is not an object.
        var input: Form?
        var output: Form
        /// What flows each way of a stream; `nil` of a call.
        var stream: (up: Way, down: Way)?
    }

    /// One direction of a stream.
    enum Way {
        case nothing, bytes
        case messages(Form)
    }

    var version: String
    var definitions: [Definition]
    /// The methods of each namespace, both by their names.
    var namespaces: [(name: String, methods: [Method])]
    /// The error codes by their names.
    var errors: [(name: String, code: Int)]

    /// Reads a document.
    init(_ document: OpenRPC) {
        version = document.info.version
        definitions = document.components.schemas.sorted { $0.key < $1.key }.map { name, schema in
            Definition(name: name, form: Form(schema), description: schema.text)
        }
        errors = document.components.errors.sorted { $0.key < $1.key }.map { ($0.key, $0.value.code) }
        var methods: [String: [Method]] = [:]
        for method in document.methods.sorted(by: { $0.name < $1.name }) {
            // By its path, or by its name: the first dot of a name without a slash is the slash.
            let namespace = String(method.name.prefix { $0 != "." && $0 != "/" })
            methods[namespace, default: []].append(
                Method(
                    name: method.name, namespace: namespace, summary: method.summary, callers: method.access,
                    members: method.params.map {
                        Member(
                            name: $0.name, form: Form($0.schema), isRequired: $0.required ?? false,
                            description: $0.schema.text)
                    }, input: method.input.map { Form($0) }, output: Form(method.result.schema),
                    stream: method.kind == .stream ? (Way(method.upstream), Way(method.downstream)) : nil))
        }
        namespaces = methods.sorted { $0.key < $1.key }.map { (name: $0.key, methods: $0.value) }
    }
}

extension ClientModel.Method {
    /// Its name within the namespace.
    var word: String { String(name.dropFirst(namespace.count + 1)) }

    /// Its members, those that must be given first.
    var ordered: [ClientModel.Member] { members.filter(\.isRequired) + members.filter { !$0.isRequired } }
}

extension ClientModel.Way {
    init(_ way: OpenRPC.Way?) {
        switch way?.form {
        case .bytes: self = .bytes
        case .messages: self = .messages(way?.message.map { ClientModel.Form($0) } ?? .any)
        case .nothing, nil: self = .nothing
        }
    }
}

extension ClientModel.Form {
    /// The form that a schema describes; where it says more than a type can, less.
    init(_ schema: JSONSchema) {
        if let name = schema.referenced {
            self = .named(name)
            return
        }
        for keyword in ["anyOf", "oneOf"] {
            guard case .array(let forms)? = schema[keyword] else { continue }
            self = .oneOf(forms.map { JSONSchema($0).map { Self($0) } ?? .any })
            return
        }
        let words = JSONSchema.strings(schema["enum"])
        if !words.isEmpty {
            self = .words(words)
            return
        }
        switch schema["type"] {
        case "boolean": self = .boolean
        case "integer": self = .integer
        case "number": self = .number
        case "null": self = .null
        case "string": self = schema["contentEncoding"] == "base64" ? .bytes : .text
        case "array": self = .list(JSONSchema(schema["items"]).map { Self($0) } ?? .any)
        case "object":
            let required = Set(schema.required)
            let members = schema.properties.sorted { $0.key < $1.key }.map { name, form in
                ClientModel.Member(
                    name: name, form: Self(form), isRequired: required.contains(name), description: form.text)
            }
            if members.isEmpty, let below = schema["additionalProperties"] {
                self = .dictionary(JSONSchema(below).map { Self($0) } ?? .any)
            } else {
                self = members.isEmpty ? .dictionary(.any) : .object(members)
            }
        default: self = .any
        }
    }
}

extension JSONSchema {
    /// What it says of itself for a person.
    fileprivate var text: String? {
        guard case .string(let text)? = self["description"] else { return nil }
        return text
    }
}

extension String {
    /// Every line with so many blanks before it.
    func indented(_ width: Int) -> String {
        let blanks = String(repeating: " ", count: width)
        return split(separator: "\n", omittingEmptySubsequences: false).map { $0.isEmpty ? "" : blanks + $0 }
            .joined(separator: "\n")
    }

    /// A name that begins with a capital and holds letters and digits only: `Files.Path` becomes `FilesPath`.
    var asTypeName: String {
        let word = SwiftWord.camel(self)
        return word.prefix(1).uppercased() + word.dropFirst()
    }

    /// A name of letters, digits and underscores: `follow_links`.
    var asSnakeName: String {
        var text = ""
        for character in SwiftWord.camel(self) {
            if character.isUppercase, !text.isEmpty, text.last?.isUppercase != true, text.last != "_" { text += "_" }
            text += character.lowercased()
        }
        return text
    }

    /// One line that ends no comment.
    var asComment: String {
        replacing("*/", with: "* /").replacing("\\", with: "/").replacing("\"\"\"", with: "“")
            .split(whereSeparator: \.isNewline).joined(separator: " ")
    }
}
