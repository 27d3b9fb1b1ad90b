import KithAPI
import KithWire

/// The head of a request to an HTTP proxy (RFC 9110 §9.3.6, RFC 9112), as far as a proxy must understand it.
struct HTTPProxyRequest: Hashable {
    /// The way the body after the head ends.
    enum Body: Hashable {
        /// There is none, or so many bytes.
        case length(UInt64)
        /// In chunks (RFC 9112 §7.1).
        case chunked
        /// Not at all: the connection becomes something else (RFC 9110 §7.8).
        case upgrade
    }

    /// The destination.
    var endpoint: Forward.Endpoint
    /// True when a tunnel is asked for, by CONNECT.
    var isTunnel: Bool
    /// The client's credentials: `user:password` in base64.
    var credentials: String?
    /// The head sent to the server in place of the one received; empty for a tunnel.
    var head: [UInt8]
    /// The body that follows the head.
    var body: Body

    /// The longest head taken.
    static let longestHead = 64 << 10

    /// The offset at which the head ends, if all of it has come.
    static func endOfHead(_ bytes: [UInt8]) -> Int? {
        guard bytes.count >= 4 else { return nil }
        var index = 3
        while index < bytes.count {
            if bytes[index] == 10, bytes[index - 1] == 13, bytes[index - 2] == 10, bytes[index - 3] == 13 {
                return index + 1
            }
            index += 1
        }
        return nil
    }

    /// Reads a head, with the empty line at its end.
    ///
    /// - Throws: ``HTTPProxyError`` for one that cannot be served, with what to answer.
    init(parsing bytes: [UInt8]) throws(HTTPProxyError) {
        // Bytes that are no ASCII stay what they are; a NUL or a bare CR could mean something else to the server.
        let lines = bytes.dropLast(4).split(separator: 10, omittingEmptySubsequences: false).map { line in
            line.last == 13 ? line.dropLast() : line
        }
        guard let first = lines.first, !bytes.contains(0), lines.allSatisfy({ !$0.contains(13) }) else {
            throw .malformed("The head has stray bytes.")
        }
        let words = first.split(separator: 32, omittingEmptySubsequences: false)
        guard words.count == 3, words[2].starts(with: "HTTP/1.".utf8), words[2].count == 8,
            !words[0].isEmpty, words[0].allSatisfy({ Self.isToken($0) })
        else { throw .malformed("The request is not HTTP/1.1.") }
        let method = String(decoding: words[0], as: UTF8.self)
        let target = String(decoding: words[1], as: UTF8.self)

        var fields: [(name: String, value: ArraySlice<UInt8>, line: ArraySlice<UInt8>)] = []
        for line in lines.dropFirst() {
            guard let colon = line.firstIndex(of: 58), colon > line.startIndex,
                line[..<colon].allSatisfy({ Self.isToken($0) })
            else { throw .malformed("A field is malformed.") }
            let value = line[(colon + 1)...].trimming { $0 == 32 || $0 == 9 }
            fields.append((String(decoding: line[..<colon], as: UTF8.self).lowercased(), value, line))
        }
        func values(_ name: String) -> [String] {
            fields.filter { $0.name == name }.map { String(decoding: $0.value, as: UTF8.self) }
        }
        if let authorization = values("proxy-authorization").first {
            let parts = authorization.split(separator: " ", maxSplits: 1)
            credentials = parts.count == 2 && parts[0].lowercased() == "basic" ? String(parts[1]) : nil
        }

        isTunnel = method == "CONNECT"
        if isTunnel {
            guard let endpoint = Self.authority(target, port: nil) else {
                throw .malformed("CONNECT names no host and port.")
            }
            self.endpoint = endpoint
            head = []
            body = .upgrade
            return
        }

        guard let (authority, path) = Self.absolute(target) else {
            throw target.lowercased().hasPrefix("https:")
                ? .malformed("For https a proxy is asked with CONNECT.")
                : .malformed("This is a proxy: it takes whole addresses, as http://host/path.")
        }
        guard let endpoint = Self.authority(authority, port: 80) else {
            throw .malformed("The address names no host.")
        }
        self.endpoint = endpoint

        let upgrade = values("upgrade")
        body = try Self.body(lengths: values("content-length"), encodings: values("transfer-encoding"))
        if !upgrade.isEmpty { body = .upgrade }
        // Fields about the connection end here (RFC 9110 §7.6.1).
        var hops: Set = [
            "connection", "proxy-connection", "keep-alive", "proxy-authorization", "te", "host", "upgrade",
        ]
        for list in values("connection") {
            for name in list.lowercased().split(separator: ",") { hops.insert(String(name.trimming { $0 == " " })) }
        }
        hops.subtract(["content-length", "transfer-encoding"])
        var head: [UInt8] = Array("\(method) \(path) HTTP/1.1\r\nHost: \(authority)\r\n".utf8)
        for field in fields where !hops.contains(field.name) { head += field.line + [13, 10] }
        if upgrade.isEmpty {
            // One request, one connection: the next may be for another host.
            head += Array("Connection: close\r\n\r\n".utf8)
        } else {
            head += Array("Upgrade: \(upgrade.joined(separator: ", "))\r\nConnection: upgrade\r\n\r\n".utf8)
        }
        self.head = head
    }

    /// The way the body ends (RFC 9112 §6.3); two answers to that are an attack.
    private static func body(lengths: [String], encodings: [String]) throws(HTTPProxyError) -> Body {
        if !encodings.isEmpty {
            guard lengths.isEmpty, encodings.count == 1, encodings[0].lowercased() == "chunked" else {
                throw .malformed("It is not clear where the body ends.")
            }
            return .chunked
        }
        guard let first = lengths.first else { return .length(0) }
        guard lengths.count == 1, (1...18).contains(first.utf8.count),
            first.utf8.allSatisfy({ (48...57).contains($0) }), let length = UInt64(first)
        else { throw .malformed("It is not clear where the body ends.") }
        return .length(length)
    }

    private static func absolute(_ target: String) -> (authority: String, path: String)? {
        guard target.lowercased().hasPrefix("http://") else { return nil }
        let rest = target.dropFirst(7)
        let end = rest.firstIndex { $0 == "/" || $0 == "?" || $0 == "#" } ?? rest.endIndex
        let authority = String(rest[..<end])
        var path = String(rest[end...].prefix { $0 != "#" })
        if !path.hasPrefix("/") { path = "/" + path }
        // A name and password in the address are nobody's business on the way.
        guard !authority.isEmpty, !authority.contains("@") else { return nil }
        return (authority, path)
    }

    private static func authority(_ text: String, port: UInt16?) -> Forward.Endpoint? {
        let endpoint: Forward.Endpoint?
        if let whole = Forward.Endpoint(text), !text.hasPrefix("unix:") {
            endpoint = whole
        } else if let port {
            endpoint = Forward.Endpoint("\(text):\(port)")
        } else {
            endpoint = nil
        }
        switch endpoint {
        case .every, .socket, nil: return nil
        case let endpoint?: return endpoint.port == 0 ? nil : endpoint
        }
    }

    private static func isToken(_ byte: UInt8) -> Bool {
        (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte)
            || "!#$%&'*+-.^_`|~".utf8.contains(byte)
    }
}

/// Why a request to an HTTP proxy cannot be served.
enum HTTPProxyError: Error, Hashable {
    /// The request is at fault.
    case malformed(String)
}

/// An answer of the HTTP proxy itself.
struct HTTPProxyAnswer: Hashable {
    var status: Int
    var reason: String
    var message: String

    /// The tunnel stands.
    static let established = Array("HTTP/1.1 200 Connection established\r\n\r\n".utf8)

    init(_ status: Int, _ reason: String, _ message: String) {
        self.status = status
        self.reason = reason
        self.message = message
    }

    /// Makes the answer to a client about an opening that failed.
    init(_ opening: Forward.Opening) {
        let message = opening.message ?? "The connection could not be opened."
        switch opening.outcome {
        case .timedOut: self.init(504, "Gateway Timeout", message)
        default: self.init(502, "Bad Gateway", message)
        }
    }

    /// Makes the answer to a client about an error.
    init(_ error: any Error) {
        let message = (error as? KithError)?.message ?? "Forwarding failed."
        switch (error as? KithError)?.code {
        case .denied, .unpaired: self.init(403, "Forbidden", message)
        case .timedOut: self.init(504, "Gateway Timeout", message)
        case .exhausted: self.init(503, "Service Unavailable", message)
        default: self.init(502, "Bad Gateway", message)
        }
    }

    /// The bytes; the connection ends after them.
    var bytes: [UInt8] {
        let body = Array("kith: \(message)\n".utf8)
        let challenge = status == 407 ? "Proxy-Authenticate: Basic realm=\"kith\"\r\n" : ""
        return Array(
            """
            HTTP/1.1 \(status) \(reason)\r
            \(challenge)Content-Type: text/plain; charset=utf-8\r
            Content-Length: \(body.count)\r
            Connection: close\r
            \r\n
            """.utf8) + body
    }
}

/// Finds the end of a body that is passed on as it comes.
struct HTTPBodyMeter {
    private enum State {
        case data(left: UInt64, inChunk: Bool)
        case size(digits: Int, value: UInt64, isDone: Bool)
        case afterChunk
        case trailer(lineLength: Int)
        case ended
    }

    private var state: State

    /// Begins with the first byte after the head.
    init(_ body: HTTPProxyRequest.Body) {
        switch body {
        case .length(let count): state = count == 0 ? .ended : .data(left: count, inChunk: false)
        case .chunked: state = .size(digits: 0, value: 0, isDone: false)
        case .upgrade: state = .data(left: .max, inChunk: false)
        }
    }

    /// True once nothing may follow.
    var hasEnded: Bool { if case .ended = state { true } else { false } }

    /// Takes bytes in and returns how many belong to the body.
    ///
    /// - Throws: ``HTTPProxyError`` for chunks that are none.
    mutating func take(_ bytes: [UInt8]) throws(HTTPProxyError) -> Int {
        var index = 0
        while index < bytes.count {
            switch state {
            case .ended: return index
            case .data(let left, let inChunk):
                let count = min(UInt64(bytes.count - index), left)
                index += Int(count)
                let rest = left == .max ? left : left - count
                if rest > 0 {
                    state = .data(left: rest, inChunk: inChunk)
                } else {
                    state = inChunk ? .afterChunk : .ended
                }
            case .size(let digits, let value, let isDone):
                let byte = bytes[index]
                index += 1
                if byte == 10 {
                    guard digits > 0 else { throw .malformed("A chunk has no size.") }
                    state = value == 0 ? .trailer(lineLength: 0) : .data(left: value, inChunk: true)
                } else if !isDone, let digit = Self.digit(byte) {
                    guard digits < 15 else { throw .malformed("A chunk is too large.") }
                    state = .size(digits: digits + 1, value: value << 4 | digit, isDone: false)
                } else {
                    // An extension, or the CR before the line's end.
                    state = .size(digits: digits, value: value, isDone: true)
                }
            case .afterChunk:
                let byte = bytes[index]
                index += 1
                switch byte {
                case 13: break
                case 10: state = .size(digits: 0, value: 0, isDone: false)
                default: throw .malformed("A chunk is longer than it says.")
                }
            case .trailer(let lineLength):
                let byte = bytes[index]
                index += 1
                if byte == 10 {
                    state = lineLength == 0 ? .ended : .trailer(lineLength: 0)
                } else if byte != 13 {
                    state = .trailer(lineLength: lineLength + 1)
                }
            }
        }
        return index
    }

    private static func digit(_ byte: UInt8) -> UInt64? {
        switch byte {
        case 48...57: UInt64(byte - 48)
        case 65...70: UInt64(byte - 55)
        case 97...102: UInt64(byte - 87)
        default: nil
        }
    }
}

extension BidirectionalCollection {
    /// The part without what `isPadding` finds at both ends.
    fileprivate func trimming(_ isPadding: (Element) -> Bool) -> SubSequence {
        var rest = drop(while: isPadding)
        while let last = rest.last, isPadding(last) { rest = rest.dropLast() }
        return rest
    }
}
