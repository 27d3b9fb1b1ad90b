import KithRPC

/// Swift source that gives ``Client`` a member for each namespace of the table: `client.locations.add(…)`.
///
/// It is kept in `Generated/Client+Namespaces.swift`, and a test compares the two.
package enum ClientNamespaces {
    /// Writes the source for `methods`, in the order of their names.
    package static func source(for methods: some Sequence<AnyMethod>) -> String {
        var namespaces: [String: [AnyMethod]] = [:]
        for method in methods where method.declaration != nil {
            namespaces[String(method.name.prefix { $0 != "." }), default: []].append(method)
        }
        var text = """
            // swift-format-ignore-file
            // Written from the table of methods, and compared with it by a test: KITH_RENEW_GOLDEN=1 writes it anew.

            extension Client {

            """
        let sorted = namespaces.sorted { $0.key < $1.key }
        for (name, _) in sorted {
            text += """
                    /// The methods named `\(name).…`.
                    public var \(SwiftWord.escaped(name)): \(typeName(name)) { \(typeName(name))(client: self) }

                """
        }
        text += "}\n"
        for (name, methods) in sorted {
            text += """

                /// The methods named `\(name).…`, each as a function.
                public struct \(typeName(name)): Sendable {
                    /// Calls them.
                    public let client: Client

                """
            for method in methods.sorted(by: { $0.name < $1.name }) {
                if let declaration = method.declaration { text += function(method, declaration) }
            }
            text += "}\n"
        }
        return text
    }

    private static func typeName(_ namespace: String) -> String {
        namespace.prefix(1).uppercased() + namespace.dropFirst() + "Namespace"
    }

    private static func function<M: Method>(_ method: AnyMethod, _ declaration: M.Type) -> String {
        let type = String(reflecting: declaration).split(separator: ".").dropFirst().joined(separator: ".")
        let name = SwiftWord.camel(method.name.drop { $0 != "." }.dropFirst())
        let usual: String =
            switch M.Input.self {
            case let input as any OmissibleInput.Type: input.required.isEmpty ? " = .usual" : ""
            case is any ExpressibleByNilLiteral.Type: " = nil"
            default: ""
            }
        let hasInput = M.Input.self != Nothing.self
        let parameter = hasInput ? "_ input: \(type).Input\(usual), " : ""
        let input = hasInput ? "input" : "Nothing()"
        let isStream = method.kind == .stream
        let verb = isStream ? "open" : "call"
        let returnsNothing = !isStream && M.Output.self == Nothing.self
        let discarding = returnsNothing ? "_ = " : ""
        let answer = isStream ? "OpenedStream<\(type)>" : "\(type).Output"
        return """

                /// \(method.header.summary)
                ///
                /// The \(method.kind.rawValue) `\(method.name)`. Callers: \(method.header.callersText).
                public func \(SwiftWord.escaped(name))(
                    \(parameter)on device: String? = nil, options: CallOptions = CallOptions()
                ) async throws\(returnsNothing ? "" : " -> \(answer)") {
                    \(discarding)try await client.\(verb)(\(type).self, \(input), on: device, options: options)
                }

            """
    }
}

/// Words of the table as names in Swift.
package enum SwiftWord {
    private static let keywords: Set<String> = [
        "associatedtype", "class", "deinit", "enum", "extension", "fileprivate", "func", "import", "init", "inout",
        "internal", "let", "open", "operator", "private", "protocol", "public", "static", "struct", "subscript",
        "typealias", "var", "break", "case", "continue", "default", "defer", "do", "else", "fallthrough", "for",
        "guard", "if", "in", "repeat", "return", "switch", "where", "while", "as", "catch", "false", "is", "nil",
        "rethrows",
        "super", "self", "Self", "throw", "throws", "true", "try", "Type", "Protocol", "any", "some", "await", "async",
        "precedencegroup", "actor",
    ]

    /// The word in backticks, where the language has a meaning of its own for it.
    package static func escaped(_ word: some StringProtocol) -> String {
        keywords.contains(String(word)) && word != "open" && word != "actor" ? "`\(word)`" : String(word)
    }

    /// The word without what no name may hold: `remote.all_devices` becomes `remoteAllDevices`.
    package static func camel(_ text: some StringProtocol) -> String {
        let parts = text.split { !($0.isASCII && ($0.isLetter || $0.isNumber)) }
        guard let first = parts.first else { return "value" }
        let word = first + parts.dropFirst().map { $0.prefix(1).uppercased() + $0.dropFirst() }.joined()
        return word.first?.isNumber == true ? "_\(word)" : String(word)
    }
}
