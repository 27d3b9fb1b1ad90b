import KithWire

/// An HTTP proxy that opens connections for its clients, with CONNECT (RFC 9110 §9.3.6).
///
/// As text a URL, as `http://proxy.example.org:3128` or `http://NAME:PASSWORD@proxy.example.org:3128`. The password goes
/// to the proxy alone, as Basic (RFC 7617), in clear; descriptions leave it and the name out.
public struct ProxyServer: Hashable, Sendable {
    /// The port when a URL has none; the same as curl's.
    public static let defaultPort: UInt16 = 1_080
    /// The most bytes of a URL.
    static let maxLength = 2_048

    /// A name or an IP address, without brackets.
    public let host: String
    /// The TCP port.
    public let port: UInt16
    /// The name to sign in with.
    private let user: String?
    private let password: String

    /// Indicates whether it is given a name and a password.
    public var hasPassword: Bool { user != nil }

    /// Reads the URL of a proxy; without a scheme it is taken for `http`.
    ///
    /// The name and the password are percent-encoded. A path is passed over.
    ///
    /// - Throws: ``ProxyProblem``, which quotes nothing of the URL, as that may hold a password.
    public init(_ url: String) throws(ProxyProblem) {
        var rest = url[...]
        rest = rest.drop { $0.isWhitespace }
        while rest.last?.isWhitespace == true { rest.removeLast() }
        guard rest.utf8.count <= Self.maxLength else { throw ProxyProblem("it is longer than 2 KiB") }
        guard rest.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7F }) else {
            throw ProxyProblem("it has spaces or control characters in it")
        }
        if let colon = rest.firstRange(of: "://") {
            switch rest[..<colon.lowerBound].lowercased() {
            case "http": break
            case "https":
                throw ProxyProblem("a proxy that is spoken to by TLS (https://) cannot be used; one of http:// can")
            case "socks", "socks4", "socks4a", "socks5", "socks5h":
                throw ProxyProblem("a SOCKS proxy cannot be used; one of http:// can")
            default: throw ProxyProblem.form
            }
            rest = rest[colon.upperBound...]
        }
        let end = rest.firstIndex { "/?#".contains($0) } ?? rest.endIndex
        guard !rest[end...].contains("@") else {
            throw ProxyProblem("in its name and password /, ? and # are written %2F, %3F and %23")
        }
        rest = rest[..<end]
        if let at = rest.lastIndex(of: "@") {
            let credentials = rest[..<at]
            let colon = credentials.firstIndex(of: ":") ?? credentials.endIndex
            user = try Self.decoded(credentials[..<colon])
            password = try Self.decoded(credentials[colon...].dropFirst())
            // It would end the name where Basic looks for the password.
            guard user?.contains(":") != true else { throw ProxyProblem("a name with a colon cannot be used") }
            rest = rest[rest.index(after: at)...]
        } else {
            (user, password) = (nil, "")
        }
        guard let place = RelayAddress.place(rest),
            let address = RelayAddress(
                host: String(place.host), port: place.port ?? Self.defaultPort, isSecure: false)
        else { throw ProxyProblem.form }
        (host, port) = (address.host, address.port)
    }

    /// Undoes percent-encoding.
    private static func decoded(_ text: Substring) throws(ProxyProblem) -> String {
        var (bytes, rest) = ([UInt8](), text.utf8)
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard rest.count >= 2, let digits = Hex.decode(String(rest.prefix(2)) ?? "") else {
                throw ProxyProblem("in its name and password a % is written %25")
            }
            bytes += digits
            rest = rest.dropFirst(2)
        }
        guard let decoded = String(validating: bytes, as: UTF8.self) else {
            throw ProxyProblem("its name and password must be UTF-8")
        }
        guard decoded.unicodeScalars.allSatisfy({ $0.properties.generalCategory != .control }) else {
            throw ProxyProblem("its name and password must have no control characters in them")
        }
        return decoded
    }
}

extension ProxyServer: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    private var place: String { "\(host.contains(":") ? "[\(host)]" : host):\(port)" }

    /// The URL without name and password.
    public var description: String { "http://\(place)" }
    /// The same: a password has no place in what developers print either.
    public var debugDescription: String { description }
    /// The same for `dump`.
    public var customMirror: Mirror { Mirror(self, children: ["url": description]) }

    /// The URL with name and password, for a file that nobody else reads.
    public var urlWithPassword: String {
        guard let user else { return description }
        return "http://\(Self.encoded(user)):\(Self.encoded(password))@\(place)"
    }

    /// The value of `Proxy-Authorization`; nil when there is no name to sign in with.
    package var authorization: String? {
        user.map { "Basic " + Base64.encode(Array("\($0):\(password)".utf8)) }
    }

    private static func encoded(_ text: String) -> String {
        var bytes: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case 48...57, 65...90, 97...122, 45, 46, 95, 126: bytes.append(byte)
            default: bytes += Array("%\(Hex.encode([byte]).uppercased())".utf8)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

/// Why a text is not the URL of a proxy that can be used; it quotes nothing of it.
public struct ProxyProblem: Error, Hashable, Sendable, CustomStringConvertible {
    /// The reason, as the end of a sentence.
    public let description: String

    init(_ description: String) { self.description = description }

    static let form = ProxyProblem("it is not the URL of an HTTP proxy, such as http://proxy.example.org:3128")
}
