import KithWire
import NIOHTTP1

/// What a request asks for, once nothing is wrong with it.
enum WebRoute: Hashable, Sendable {
    /// A file of the page, by its path without a slash in front.
    case file(String)
    /// The WebSocket of a page, from that origin.
    case socket(origin: String)
    /// A file or an archive of files.
    case download(TicketID)
    /// A place to put a file.
    case upload(TicketID)
}

/// The 128 bits that a download or an upload is known by.
struct TicketID: Hashable, Sendable {
    let bytes: [UInt8]

    /// Makes one that nobody can guess.
    static func random() -> TicketID {
        TicketID(bytes: (0..<16).map { _ in UInt8.random(in: .min ... .max) })
    }

    private init(bytes: [UInt8]) { self.bytes = bytes }

    /// Reads one as it stands in a path: 22 letters of base64url, in the one form that these bytes have.
    init?(_ text: Substring) {
        guard text.utf8.count == 22, let bytes = Base64.decodeURL(text), bytes.count == 16,
            Base64.encodeURL(bytes) == text
        else { return nil }
        self.bytes = bytes
    }

    var text: String { Base64.encodeURL(bytes) }
}

/// The reason a request is not answered.
struct WebRefusal: Error, Hashable, Sendable {
    let status: HTTPResponseStatus
    /// A sentence for a person.
    let message: String
    /// The methods that would do, where another was used.
    var allow: String?

    init(_ status: HTTPResponseStatus, _ message: String, allow: String? = nil) {
        (self.status, self.message, self.allow) = (status, message, allow)
    }
}

extension WebRoute {
    /// Reads the head of a request.
    ///
    /// Nothing is known of who asks: what is refused here is what no page of ours would ask.
    init(_ head: HTTPRequestHead, names: WebNames) throws(WebRefusal) {
        let hosts = head.headers["host"]
        guard let host = hosts.first, hosts.count == 1 else {
            throw WebRefusal(.badRequest, "A request names one host.")
        }
        guard names.admits(host: host) else {
            throw WebRefusal(.misdirectedRequest, "The page is at \(names.page), under no other name.")
        }
        guard head.uri.utf8.first == UInt8(ascii: "/") else {
            throw WebRefusal(.badRequest, "The target of a request is a path.")
        }
        let path = head.uri.prefix { $0 != "?" }
        if path.hasPrefix("/d/") {
            try Self.check(head, names, host, "GET, HEAD")
            self = .download(try Self.ticket(path))
        } else if path.hasPrefix("/u/") {
            try Self.check(head, names, host, "PUT")
            self = .upload(try Self.ticket(path))
        } else if path == "/ws" {
            try Self.check(head, names, host, "GET")
            let origins = head.headers["origin"]
            guard let origin = origins.first, origins.count == 1, names.admits(origin: origin, at: host) else {
                throw WebRefusal(.forbidden, "Only the page itself may open its WebSocket.")
            }
            self = .socket(origin: origin)
        } else {
            guard head.method == .GET || head.method == .HEAD else {
                throw WebRefusal(.methodNotAllowed, "Files of the page are read, nothing else.", allow: "GET, HEAD")
            }
            self = .file(path == "/" ? "index.html" : String(path.dropFirst()))
        }
    }

    private static func ticket(_ path: Substring) throws(WebRefusal) -> TicketID {
        guard let id = TicketID(path.dropFirst(3)) else { throw .noTicket }
        return id
    }

    /// Refuses another method, and what a browser says another page asks.
    private static func check(
        _ head: HTTPRequestHead, _ names: WebNames, _ host: String, _ methods: String
    ) throws(WebRefusal) {
        guard methods.split(separator: ", ").contains(head.method.rawValue[...]) else {
            throw WebRefusal(.methodNotAllowed, "This is asked for by \(methods).", allow: methods)
        }
        let isForeign =
            head.headers["origin"].contains { !names.admits(origin: $0, at: host) }
            || head.headers["sec-fetch-site"].contains { $0 != "same-origin" && $0 != "none" }
        if isForeign { throw WebRefusal(.forbidden, "Only the page itself may ask for this.") }
    }
}

extension WebRefusal {
    /// There is no such ticket, or it is not valid any more: the answer does not tell which.
    static let noTicket = WebRefusal(
        .notFound, "This address is not valid any more: it was good for an hour, and as long as its page was signed in."
    )
}
