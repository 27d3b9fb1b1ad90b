import KithAPI
import KithRPC
import KithStore
import KithWire
import Synchronization

/// The requests that the door answers itself, because they are about what only it has: tickets, and the session.
final class WebRequests: Sendable {
    /// The most that are answered at once; the next waits.
    static let limit = 32

    /// A message of a page.
    enum Kind {
        /// It is the device's.
        case line
        /// It is ours.
        case own(RPCRequest)
        /// It asks for what a page cannot have.
        case refused([UInt8])
    }

    private enum Own: String {
        case download = "web/download"
        case upload = "web/upload"
        case session = "web/session"
        case logout = "web/logout"
    }

    private let door: WebDoor
    private let browser: BrowserRecord
    private let isOver = Mutex(false)

    init(door: WebDoor, browser: BrowserRecord) { (self.door, self.browser) = (door, browser) }

    /// True once the page has signed out.
    var hasEnded: Bool { isOver.withLock(\.self) }

    /// Tells whose a message is.
    func kind(of message: [UInt8]) -> Kind {
        // Nearly all of them are the device's, and are not read here.
        guard message.contains("\"web") || message.contains("\"raw\"") || message.contains("\\u") else { return .line }
        let request: RPCRequest
        switch RPCPacket(parsing: message) {
        case .single(.request(let single)): request = single
        case .single: return .line
        case .batch(let messages):
            guard messages.contains(where: Self.isOurs) else { return .line }
            let error = RPCError(KithError(.invalid, "In a batch there is nothing of the page's own, and nothing raw."))
            return .refused(RPCResponse(id: .null, result: .failure(error)).json)
        }
        if Self.isLink(request.method) {
            let error = RPCError(
                KithError(.denied, "Another browser is let in on the device itself: kith web --print"))
            return .refused(RPCResponse(id: request.id ?? .null, result: .failure(error)).json)
        }
        if request.envelope["raw"]?.boolean == true {
            let error = RPCError(KithError(.unsupported, "A WebSocket carries no raw streams: leave out `raw`."))
            return .refused(RPCResponse(id: request.id ?? .null, result: .failure(error)).json)
        }
        return Self.own(request.method) == nil ? .line : .own(request)
    }

    private static func isOurs(_ message: RPCMessage) -> Bool {
        guard case .request(let request) = message else { return false }
        return own(request.method) != nil || isLink(request.method) || request.envelope["raw"] != nil
    }

    private static func isLink(_ method: String) -> Bool { method == "web.link" || method == "web/link" }

    private static func own(_ method: String) -> Own? {
        Own(rawValue: method.hasPrefix("web.") ? "web/" + method.dropFirst(4) : method)
    }

    /// Tells whether one of ours is the last: after it the page is nobody's.
    func isLast(_ request: RPCRequest) -> Bool { Self.own(request.method) == .logout }

    /// Answers one of ours.
    func answer(_ request: RPCRequest) async -> RPCResponse {
        do {
            return RPCResponse(id: request.id ?? .null, result: .success(try await result(of: request)))
        } catch {
            let known = error as? KithError
            return RPCResponse(
                id: request.id ?? .null,
                result: .failure(RPCError(known ?? KithError(.invalid, "The request makes no sense: \(error)."))))
        }
    }

    private func result(of request: RPCRequest) async throws -> JSONText {
        let params = try request.params ?? JSONText(Array("{}".utf8))
        switch Self.own(request.method) {
        case .download?:
            let wanted = try Self.read(Download.self, params)
            let ticket = try await DownloadTicket(
                wanted, on: wanted.on ?? request.envelope["on"]?.string, client: door.host.client)
            return try JSONText(
                encoding: Downloaded(
                    url: "/d/" + (try add(.download(ticket))).text, size: ticket.size, name: ticket.name))
        case .upload?:
            let wanted = try Self.read(Upload.self, params)
            let ticket = try UploadTicket(
                wanted, on: wanted.on ?? request.envelope["on"]?.string, browser: browser.id, client: door.host.client,
                busy: door.uploads)
            let offset = try await ticket.begin()
            return try JSONText(
                encoding: Uploaded(url: "/u/" + (try add(.upload(ticket))).text, offset: offset))
        case .session?:
            return try JSONText(
                encoding: PageConnection.welcome(try door.host.browsers.use(browser.id) ?? browser, door.host))
        case .logout?:
            _ = try door.host.browsers.forget(browser.id)
            isOver.withLock { $0 = true }
            return try JSONText(Array("{}".utf8))
        case nil: throw KithError(.unsupported, "\(request.method) is not known here.")
        }
    }

    private func add(_ ticket: WebGuests.Ticket) throws -> TicketID {
        guard let id = door.guests.add(ticket, of: browser.id, at: door.host.ticker.now) else {
            throw KithError(.denied, "This browser is not signed in any more.")
        }
        return id
    }

    private static func read<Value: Decodable>(_ type: Value.Type, _ params: JSONText) throws -> Value {
        do {
            return try params.decode(type)
        } catch {
            throw KithError(.invalid, "The parameters make no sense: \(error)", cause: error)
        }
    }

    /// The input of `web/download`.
    struct Download: Codable {
        enum Form: String, Codable { case file, zip, tar }
        var on: String?
        var paths: [Files.Path]
        var form: Form?
        var inline: Bool?
    }

    private struct Downloaded: Codable {
        var url: String
        var size: UInt64?
        var name: String

        func encode(to encoder: any Encoder) throws {
            var values = encoder.container(keyedBy: CodingKeys.self)
            try values.encode(url, forKey: .url)
            // What is not known is said to be.
            try values.encode(size, forKey: .size)
            try values.encode(name, forKey: .name)
        }
    }

    /// The input of `web/upload`.
    struct Upload: Codable {
        enum Conflict: String, Codable {
            case refuse, replace
            case keepBoth = "keep both"
        }
        var on: String?
        var folder: Files.Path
        var path: String
        var size: UInt64
        var conflict: Conflict?
        var key: String?
    }

    private struct Uploaded: Codable {
        var url: String
        var offset: UInt64
    }
}

extension [UInt8] {
    /// Tells whether an ASCII text is somewhere in it.
    fileprivate func contains(_ text: StaticString) -> Bool {
        let text = unsafe Array(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
        var from = startIndex
        while let next = self[from...].firstIndex(of: text[0]), next + text.count <= endIndex {
            if self[next..<next + text.count].elementsEqual(text) { return true }
            from = next + 1
        }
        return false
    }
}
