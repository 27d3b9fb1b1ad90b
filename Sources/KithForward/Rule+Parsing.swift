public import KithAPI
public import KithWire

extension Forward.Rule {
    /// The options of ssh whose words a rule can be written in.
    @nonexhaustive
    public enum Option: String, Hashable, Sendable {
        /// `-L [BIND:]PORT:HOST:HOSTPORT`: this device listens.
        case local = "-L"
        /// `-R [BIND:]PORT:HOST:HOSTPORT`: the other device listens; without a host, for SOCKS5 and HTTP.
        case remote = "-R"
        /// `-D [BIND:]PORT`: this device listens, for SOCKS5 and HTTP.
        case dynamic = "-D"
    }

    /// Reads a rule as ssh writes it.
    ///
    /// `udp:` before it is for datagrams. Either side may be the path of a Unix socket; an IPv6 address stands in
    /// brackets; without BIND only programs of the listening device get in, with an empty one or `*` everybody; port 0 lets
    /// the system choose. A backslash takes the meaning from the character after it.
    ///
    /// - Throws: `.invalid`, saying what is wrong and what would be right.
    public init(_ option: Option, parsing text: String) throws(KithError) {
        func wrong(_ reason: String) -> KithError {
            let form = option == .dynamic ? "-D [BIND:]PORT" : "\(option.rawValue) [BIND:]PORT:HOST:HOSTPORT"
            return KithError(
                .invalid,
                "“\(option.rawValue) \(text.prefix(200))” \(reason). Write \(form), or a path for a Unix socket.")
        }
        guard text.utf8.count <= 1_024, !text.utf8.contains(0) else { throw wrong("is too long, or has a NUL") }
        var rest = text
        var transport = Forward.Transport.tcp
        for (prefix, carried) in [("udp:", Forward.Transport.udp), ("tcp:", .tcp)] where rest.hasPrefix(prefix) {
            transport = carried
            rest = String(rest.dropFirst(prefix.count))
            break
        }
        guard var fields = Self.fields(rest) else { throw wrong("has a bracket that does not end") }

        func port(_ field: Field) throws(KithError) -> UInt16 {
            guard !field.isBracketed, (1...5).contains(field.text.utf8.count),
                field.text.utf8.allSatisfy({ (48...57).contains($0) }), let port = UInt16(field.text)
            else { throw wrong("has “\(field.text.prefix(64))” for a port, which is 0 to 65535") }
            return port
        }
        func socket(_ field: Field) throws(KithError) -> Forward.Endpoint {
            guard transport == .tcp else { throw wrong("is for UDP, which a Unix socket does not carry") }
            guard let endpoint = Forward.Endpoint(path: field.text) else {
                throw wrong("has a path that is not plain, or longer than \(Forward.Endpoint.longestPath) bytes")
            }
            return endpoint
        }

        // Where is listened: a path, a port, or an address and a port.
        let listen: Forward.Endpoint
        var bind: Field?
        guard let first = fields.first else { throw wrong("is empty") }
        if first.isPath {
            listen = try socket(first)
            fields.removeFirst()
        } else {
            // With an address there is one field more than without.
            let isWhole =
                option == .dynamic || (option == .remote && fields.count <= 2 && !fields[fields.count - 1].isPath)
            let withoutBind = isWhole ? 1 : (fields.last?.isPath == true ? 2 : 3)
            if fields.count == withoutBind + 1 { bind = fields.removeFirst() }
            guard fields.count == withoutBind else { throw wrong("has too few or too many parts") }
            let number = try port(fields.removeFirst())
            let host = bind.map { $0.text.isEmpty && !$0.isBracketed ? "*" : $0.text } ?? "localhost"
            guard let endpoint = Forward.Endpoint(host: host, port: number) else {
                throw wrong("has “\(host.prefix(64))” for an address to listen at")
            }
            listen = endpoint
        }

        // Where to: nothing, a path, or a host and a port.
        let target: Forward.Endpoint?
        switch fields.count {
        case 0 where option != .local: target = nil
        case 1 where fields[0].isPath && option != .dynamic: target = try socket(fields[0])
        case 2 where option != .dynamic:
            let number = try port(fields[1])
            guard number != 0 else { throw wrong("has port 0 for a port to connect to") }
            guard let endpoint = Forward.Endpoint(host: fields[0].text, port: number) else {
                throw wrong("has “\(fields[0].text.prefix(64))” for a host")
            }
            if case .every = endpoint { throw wrong("has * for a host") }
            target = endpoint
        default: throw wrong("has too few or too many parts")
        }
        if transport == .udp, target == nil {
            throw wrong("is for UDP, which SOCKS5 carries without being asked")
        }
        self.init(option == .remote ? .remote : .local, transport: transport, listen: listen, target: target)
    }

    private struct Field {
        var text: String
        var isBracketed: Bool
        var isPath: Bool { !isBracketed && text.hasPrefix("/") }
    }

    /// The parts between colons; `nil` for a bracket that does not end.
    private static func fields(_ text: String) -> [Field]? {
        var fields: [Field] = []
        var current = Field(text: "", isBracketed: false)
        var isInBrackets = false
        var isEscaped = false
        for character in text {
            if isEscaped {
                current.text.append(character)
                isEscaped = false
            } else if character == "\\" {
                isEscaped = true
            } else if character == "[", current.text.isEmpty, !isInBrackets {
                isInBrackets = true
                current.isBracketed = true
            } else if character == "]", isInBrackets {
                isInBrackets = false
            } else if character == ":", !isInBrackets {
                fields.append(current)
                current = Field(text: "", isBracketed: false)
            } else {
                current.text.append(character)
            }
        }
        fields.append(current)
        return isInBrackets || isEscaped ? nil : fields
    }

    /// The rule for a person: `127.0.0.1:8080 → db:5432`.
    public var summary: String {
        let carried = transport == .udp ? "udp " : ""
        return "\(carried)\(listen) → \(target.map(\.description) ?? "SOCKS5 and HTTP")"
    }
}
