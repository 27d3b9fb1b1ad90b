import KithAPI
import KithRPC
import KithWire
import Logging
import NIOCore
import NIOHTTP1

/// One connection of plain requests: files of the page, downloads and uploads, one after the other.
struct RequestConnection {
    let door: WebDoor
    let number: UInt64

    typealias Channel = NIOAsyncChannel<HTTPServerRequestPart, HTTPServerResponsePart>
    typealias Writer = NIOAsyncChannelOutboundWriter<HTTPServerResponsePart>

    /// The most bytes of a body that nobody asked for, before the connection is closed.
    private static let unwantedLimit = 64 << 10

    /// A service worker that goes.
    private static let leaving = """
        self.addEventListener("install", () => self.skipWaiting());
        self.addEventListener("activate", () => self.registration.unregister());

        """

    func serve(_ channel: Channel) async {
        do {
            try await channel.executeThenClose { inbound, outbound in
                let requests = IncomingRequests(inbound.makeAsyncIterator())
                while let head = try await requests.nextHead() {
                    var answer = HTTPAnswer(head, outbound)
                    do {
                        try await route(head, requests, &answer, channel.channel)
                    } catch let refusal as WebRefusal {
                        try await answer.refuse(refusal)
                    } catch let error as KithError where !answer.hasBegun {
                        try await answer.refuse(WebRefusal(HTTPResponseStatus(error.code), error.message))
                    }
                    guard answer.isKept, try await requests.skipBody(Self.unwantedLimit) else { return }
                }
            }
        } catch {
            door.host.logger.debug("a connection for the page ended", metadata: ["error": "\(error)"])
        }
    }

    private func route(
        _ head: HTTPRequestHead, _ requests: IncomingRequests, _ answer: inout HTTPAnswer,
        _ channel: any NIOCore.Channel
    ) async throws {
        switch try WebRoute(head, names: door.names) {
        case .file(let path): try await send(path, head, &answer)
        case .socket:
            throw WebRefusal(
                .upgradeRequired, "This is a WebSocket of version 13, opened by the first request of a connection.")
        case .download(let id):
            guard let (ticket, stay) = use(id, channel), case .download(let download) = ticket else {
                throw WebRefusal.noTicket
            }
            defer { door.guests.leave(stay) }
            try await DownloadAnswer(ticket: download, client: door.host.client).send(head, &answer)
        case .upload(let id):
            guard let (ticket, stay) = use(id, channel), case .upload(let upload) = ticket else {
                throw WebRefusal.noTicket
            }
            defer { door.guests.leave(stay) }
            try await receive(upload, head, requests, &answer)
        }
    }

    private func use(_ id: TicketID, _ channel: any NIOCore.Channel) -> (WebGuests.Ticket, WebGuests.Stay)? {
        guard let used = door.guests.use(id, at: door.host.ticker.now, cut: { channel.close(promise: nil) }) else {
            return nil
        }
        door.connections.prove(number)
        return (used.ticket, used.stay)
    }

    // MARK: - The page

    private func send(_ path: String, _ head: HTTPRequestHead, _ answer: inout HTTPAnswer) async throws {
        if head.headers["service-worker"].contains("script") {
            // The page has none: who had the port before has left it, and it would answer in the page's place.
            var headers = WebHeaders.page
            headers.add(name: "content-type", value: MediaType.ofPage("worker.js"))
            return try await answer.send(.ok, headers, length: UInt64(Self.leaving.utf8.count)) {
                try await $0(ByteBuffer(string: Self.leaving))
            }
        }
        guard let file = door.files.file(path) else {
            throw WebRefusal(.notFound, "The page has no such file.")
        }
        var headers = WebHeaders.page
        headers.add(name: "etag", value: file.tag)
        if head.headers["if-none-match"].contains(where: { $0.contains(file.tag) }) {
            return try await answer.send(.notModified, headers, length: nil) { _ in }
        }
        headers.add(name: "content-type", value: MediaType.ofPage(path))
        try await answer.send(.ok, headers, length: UInt64(file.bytes.readableBytes)) { try await $0(file.bytes) }
    }

    // MARK: - Uploads

    private struct Placed: Codable {
        var path: Files.Path?
        var size: UInt64
        var offset: UInt64?
    }

    private struct Failed: Codable {
        struct Reason: Codable {
            var code: Int
            var message: String
        }
        var error: Reason
    }

    private func receive(
        _ upload: UploadTicket, _ head: HTTPRequestHead, _ requests: IncomingRequests,
        _ answer: inout HTTPAnswer
    ) async throws {
        let fields = head.headers["upload-offset"]
        guard fields.count <= 1, let offset = UInt64(fields.first ?? "0"), offset <= upload.size else {
            throw WebRefusal(.badRequest, "Upload-Offset is the number of bytes that are there already.")
        }
        if head.headers["expect"].contains(where: { $0.lowercased() == "100-continue" }) {
            try await answer.goOn()
        }
        do {
            let result = try await upload.receive(from: offset) { try await requests.nextBytes() }
            try await answer.send(
                .ok,
                json: Placed(
                    path: result.path, size: upload.size, offset: result.path == nil ? result.offset : nil))
        } catch let error as KithError {
            try await answer.send(
                HTTPResponseStatus(error.code),
                json: Failed(error: .init(code: RPCError(error).code, message: error.message)))
        }
    }
}

/// The requests of a connection, part by part.
final class IncomingRequests {
    private var parts: NIOAsyncChannelInboundStream<HTTPServerRequestPart>.AsyncIterator
    private var isInBody = false

    init(_ parts: NIOAsyncChannelInboundStream<HTTPServerRequestPart>.AsyncIterator) { self.parts = parts }

    /// Waits for the head of the next request; `nil` when there is none.
    func nextHead() async throws -> HTTPRequestHead? {
        guard case .head(let head)? = try await parts.next(isolation: #isolation) else { return nil }
        isInBody = true
        return head
    }

    /// Waits for the next bytes of the body; `nil` at its end.
    func nextBytes() async throws -> [UInt8]? {
        while isInBody {
            switch try await parts.next(isolation: #isolation) {
            case .body(let bytes)?:
                if bytes.readableBytes > 0 { return Array(bytes.readableBytesView) }
            case .end?: isInBody = false
            case .head?: throw KithError(.internal, "A request began inside another.")
            case nil: throw KithError(.closed, "The page stopped in the middle.")
            }
        }
        return nil
    }

    /// Reads what is left of the body, at most `limit` bytes; false when there was more.
    func skipBody(_ limit: Int) async throws -> Bool {
        var count = 0
        while let bytes = try await nextBytes() {
            count += bytes.count
            if count > limit { return false }
        }
        return true
    }
}

/// The answer to one request.
struct HTTPAnswer {
    private let head: HTTPRequestHead
    private let writer: RequestConnection.Writer
    /// True once something has been sent: another answer is not possible then.
    private(set) var hasBegun = false
    /// True while another request may come on the connection.
    private(set) var isKept: Bool

    init(_ head: HTTPRequestHead, _ writer: RequestConnection.Writer) {
        (self.head, self.writer, isKept) = (head, writer, head.isKeepAlive)
    }

    /// Tells whoever waits with a body to send it.
    func goOn() async throws {
        try await writer.write(.head(HTTPResponseHead(version: .http1_1, status: .continue)))
    }

    /// Sends a head, and what `body` sends, which has the `length` that is given; of a HEAD request the head alone.
    mutating func send(
        _ status: HTTPResponseStatus, _ fields: HTTPHeaders, length: UInt64?,
        _ body: ((ByteBuffer) async throws -> Void) async throws -> Void
    ) async throws {
        var headers = fields
        if let length { headers.add(name: "content-length", value: String(length)) }
        if !isKept { headers.add(name: "connection", value: "close") }
        hasBegun = true
        try await writer.write(.head(HTTPResponseHead(version: .http1_1, status: status, headers: headers)))
        if head.method != .HEAD, length != nil {
            do {
                try await body { try await writer.write(.body(.byteBuffer($0))) }
            } catch {
                // Less than was announced: whoever reads must see that.
                isKept = false
                throw error
            }
        }
        try await writer.write(.end(nil))
    }

    /// Sends a value as JSON.
    mutating func send(_ status: HTTPResponseStatus, json: some Encodable) async throws {
        let text = ByteBuffer(bytes: try JSONText.encode(json))
        var headers = WebHeaders.content
        headers.add(name: "content-type", value: "application/json")
        // What is left of the body is not waited for.
        if status != .ok { isKept = false }
        try await send(status, headers, length: UInt64(text.readableBytes)) { try await $0(text) }
    }

    /// Sends the reason of a refusal.
    mutating func refuse(_ refusal: WebRefusal) async throws {
        guard !hasBegun else { return }
        let text = ByteBuffer(string: refusal.message + "\n")
        var headers = WebHeaders.content
        headers.add(name: "content-type", value: "text/plain; charset=utf-8")
        if let allow = refusal.allow { headers.add(name: "allow", value: allow) }
        if refusal.status == .upgradeRequired { headers.add(name: "sec-websocket-version", value: "13") }
        if refusal.status != .notFound { isKept = false }
        try await send(refusal.status, headers, length: UInt64(text.readableBytes)) { try await $0(text) }
    }
}

extension HTTPResponseStatus {
    /// The status that says what an error does.
    init(_ code: KithError.Code) {
        self =
            switch code {
            case .invalid: .badRequest
            case .notFound: .notFound
            case .conflict: .conflict
            case .denied, .unpaired: .forbidden
            case .unreachable, .closed: .badGateway
            case .timedOut: .gatewayTimeout
            case .exhausted: .insufficientStorage
            case .unsupported: .notImplemented
            default: .internalServerError
            }
    }
}
