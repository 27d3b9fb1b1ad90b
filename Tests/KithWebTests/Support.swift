import Crypto
import Foundation
import Kith
import KithAPI
import KithIdentity
import KithTesting
import KithWire
import Logging
import Synchronization

@testable import KithWeb

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// A device that serves its page, in a folder of its own, while `body` runs.
struct ServedPage: Sendable {
    let device: Device
    let folder: TemporaryFolder
    let service: WebService
    let clock: ManualClock
    let wallClock: WallClock

    /// The seconds since 1970, as a test wants them.
    final class WallClock: Sendable {
        private let seconds = Mutex(Int64(Date().timeIntervalSince1970))
        var now: Int64 { seconds.withLock { $0 } }
        func advance(by more: Int64) { seconds.withLock { $0 += more } }
    }

    static func run(
        page: [String: String] = [:], in folder: TemporaryFolder? = nil,
        _ body: @escaping @Sendable (ServedPage) async throws -> Void
    ) async throws {
        let folder = try folder ?? TemporaryFolder()
        var options = Device.Options()
        options.name = "nas"
        options.endpoint.bindAddresses = [.ownLoopback()]
        let device = try await Device.open(directory: folder.path, options: options)
        let (clock, wallClock) = (ManualClock(), WallClock())
        var web = WebService.Options()
        (web.ticker, web.now, web.environment) = (clock, { wallClock.now }, page)
        let service = WebService(
            for: device, options: web, logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
        try device.add(service)
        try await device.whileRunning {
            try await body(
                ServedPage(device: device, folder: folder, service: service, clock: clock, wallClock: wallClock))
        }
    }

    /// A new link, taken apart.
    func link(port: UInt16? = nil) async throws -> (page: String, port: UInt16, secret: [UInt8]) {
        let link = try await device.client.call(Web.Link.self, .init(port: port))
        let parts = link.url.split(separator: "#")
        guard let url = URL(string: link.page), let port = url.port.flatMap({ UInt16(exactly: $0) }),
            let secret = Base64.decodeURL(parts[1])
        else { throw KithError(.internal, "not a link: \(link.url)") }
        return (link.page, port, secret)
    }

    /// A page that has signed in by a link.
    func signedIn(as name: String = "Test", _ key: Curve25519.Signing.PrivateKey = .init()) async throws -> PageClient {
        let link = try await link()
        let page = try await PageClient.open(port: link.port)
        _ = try await page.signIn(key, name: name, secret: link.secret)
        return page
    }

    /// The lines of the audit log about browsers.
    func audit() async throws -> [Audit.Entry] {
        try await device.client.call(Audit.List.self, .init(limit: 100)).filter { $0.method.hasPrefix("web.") }
    }
}

/// A TCP connection that sends anything, right or wrong.
final class RawWeb: Sendable {
    private let descriptor: Int32
    private let unread = Mutex<[UInt8]>([])

    init(port: UInt16) throws {
        #if canImport(Darwin)
        descriptor = socket(AF_INET, SOCK_STREAM, 0)
        #else
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #endif
        _ = signal(SIGPIPE, SIG_IGN)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let status = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard status == 0 else { throw KithError(.unreachable, "errno \(errno)") }
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
    }

    deinit { close(descriptor) }

    func send(_ text: String) async { await send(Array(text.replacing("\n", with: "\r\n").utf8)) }

    /// Sends as much as the other end takes before it goes; returns whether that was all.
    @discardableResult func send(_ bytes: [UInt8]) async -> Bool {
        var offset = 0
        while offset < bytes.count {
            let count = bytes[offset...].withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EAGAIN, !Task.isCancelled {
                await Task.yield()
                continue
            }
            guard count > 0 else { return false }
            offset += count
        }
        return true
    }

    /// Ends this direction.
    func endSending() { _ = shutdown(descriptor, Int32(SHUT_WR)) }

    /// Takes `count` bytes, or all until the end; `nil` when it ends before.
    func take(_ count: Int) async -> [UInt8]? {
        while true {
            let bytes: [UInt8]? = unread.withLock { unread in
                guard unread.count >= count else { return nil }
                defer { unread.removeFirst(count) }
                return Array(unread[..<count])
            }
            if let bytes { return bytes }
            guard await more() else { return nil }
        }
    }

    /// Waits until the other end has closed; what came until then.
    func rest() async -> [UInt8] {
        while await more() {}
        return unread.withLock { unread in
            defer { unread = [] }
            return unread
        }
    }

    /// Takes all up to a text, and the text itself; `nil` when the end comes before.
    func take(through end: String) async -> String? {
        let end = Array(end.utf8)
        while true {
            let found: String? = unread.withLock { unread in
                guard let range = unread.firstRange(of: end) else { return nil }
                defer { unread.removeFirst(range.upperBound) }
                return String(decoding: unread[..<range.upperBound], as: UTF8.self)
            }
            if let found { return found }
            guard await more() else { return nil }
        }
    }

    private func more() async -> Bool {
        var chunk = [UInt8](repeating: 0, count: 65_536)
        var attempts = 0
        while !Task.isCancelled {
            let count = read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EAGAIN {
                attempts += 1
                // Real time: the other end is another thread's.
                if attempts > 100 { try? await Task.sleep(for: .milliseconds(1)) } else { await Task.yield() }
                continue
            }
            guard count > 0 else { return false }
            unread.withLock { $0 += chunk[..<count] }
            return true
        }
        return false
    }

    /// An answer.
    struct Answer {
        var status: Int
        var headers: [String: String]
        var body: [UInt8]
        var text: String { String(decoding: body, as: UTF8.self) }
    }

    /// The next answer, without a body when it was asked for by HEAD; `nil` when there is none.
    func answer(toHead: Bool = false) async -> Answer? {
        guard let head = await take(through: "\r\n\r\n") else { return nil }
        let lines = head.components(separatedBy: "\r\n")
        var headers: [String: String] = [:]
        for line in lines.dropFirst() where line.contains(":") {
            let parts = line.split(separator: ":", maxSplits: 1)
            headers[parts[0].lowercased()] = parts[1].trimmingCharacters(in: .whitespaces)
        }
        let status = Int(lines[0].split(separator: " ").dropFirst().first ?? "") ?? 0
        let length = toHead || status == 304 || status == 101 ? 0 : headers["content-length"].flatMap { Int($0) } ?? 0
        guard let body = await take(length) else { return nil }
        return Answer(status: status, headers: headers, body: body)
    }

    /// The answer to a request of its own connection.
    static func ask(_ request: String, port: UInt16) async throws -> Answer? {
        let web = try RawWeb(port: port)
        await web.send(request)
        return await web.answer(toHead: request.hasPrefix("HEAD"))
    }
}

/// A page: a WebSocket, and what a browser's script would say over it.
final class PageClient: Sendable {
    let web: RawWeb
    let port: UInt16
    let origin: String
    private let number = Mutex(0)

    private init(_ web: RawWeb, _ port: UInt16, _ origin: String) {
        (self.web, self.port, self.origin) = (web, port, origin)
    }

    static func request(port: UInt16, host: String? = nil, origin: String?) -> String {
        "GET /ws HTTP/1.1\nHost: \(host ?? "localhost:\(port)")\n" + (origin.map { "Origin: \($0)\n" } ?? "")
            + "Connection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n\n"
    }

    static func open(port: UInt16, origin: String? = nil) async throws -> PageClient {
        let web = try RawWeb(port: port)
        let origin = origin ?? "http://localhost:\(port)"
        await web.send(request(port: port, host: String(origin.dropFirst("http://".count)), origin: origin))
        guard let answer = await web.answer(), answer.status == 101 else {
            throw KithError(.denied, "no upgrade")
        }
        return PageClient(web, port, origin)
    }

    // MARK: - Frames

    static func frame(
        _ payload: [UInt8], opcode: UInt8 = 1, isFinal: Bool = true, isMasked: Bool = true, reserved: UInt8 = 0
    ) -> [UInt8] {
        var bytes: [UInt8] = [(isFinal ? 0x80 : 0) | reserved << 4 | opcode]
        let bit: UInt8 = isMasked ? 0x80 : 0
        switch payload.count {
        case ..<126: bytes.append(bit | UInt8(payload.count))
        case ..<65_536: bytes += [bit | 126, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
        default: bytes += [bit | 127] + (0..<8).reversed().map { UInt8(truncatingIfNeeded: payload.count >> (8 * $0)) }
        }
        guard isMasked else { return bytes + payload }
        let mask: [UInt8] = [1, 2, 3, 4]
        return bytes + mask + payload.enumerated().map { $1 ^ mask[$0 % 4] }
    }

    /// The next frame; `nil` at the end.
    func frame() async -> (opcode: UInt8, payload: [UInt8])? {
        guard let head = await web.take(2) else { return nil }
        var length = Int(head[1] & 0x7F)
        if length >= 126 {
            guard let more = await web.take(length == 126 ? 2 : 8) else { return nil }
            length = more.reduce(0) { $0 << 8 | Int($1) }
        }
        guard let payload = await web.take(length) else { return nil }
        return (head[0] & 0x0F, payload)
    }

    /// The next message; `nil` when the other end closes.
    func message() async -> String? {
        while let (opcode, payload) = await frame() {
            if opcode == 1 { return String(decoding: payload, as: UTF8.self) }
            if opcode == 8 { return nil }
        }
        return nil
    }

    func send(_ text: String) async { await web.send(Self.frame(Array(text.utf8))) }

    // MARK: - Login

    struct Hello: Decodable {
        struct Content: Decodable {
            var nonce: String
            var device: String
            var version: Int
        }
        var hello: Content
    }

    func hello() async throws -> Hello.Content {
        try JSONDecoder().decode(Hello.self, from: Data((await message() ?? "").utf8)).hello
    }

    /// What the device is to sign.
    static let challenge = Base64.encodeURL([UInt8](repeating: 9, count: 32))

    /// The message that signs in.
    static func login(
        _ key: Curve25519.Signing.PrivateKey, name: String = "Test", secret: [UInt8]? = nil, nonce: String,
        device: String, origin: String
    ) throws -> String {
        let publicKey = Base64.encodeURL(key.publicKey.rawRepresentation)
        let transcript = Array("kith web 1\n\(nonce)\n\(device)\n\(origin)\n\(publicKey)".utf8)
        var login = [
            "key": publicKey, "name": name, "signature": Base64.encodeURL(try key.signature(for: transcript)),
            "challenge": challenge,
        ]
        if let secret {
            login["proof"] = Base64.encodeURL(
                HMAC<SHA256>.authenticationCode(for: transcript, using: SymmetricKey(data: secret)))
        }
        return String(decoding: try JSONEncoder().encode(["login": login]), as: UTF8.self)
    }

    /// Signs in; what the device says to that.
    func signIn(
        _ key: Curve25519.Signing.PrivateKey, name: String = "Test", secret: [UInt8]? = nil
    ) async throws -> String {
        let hello = try await hello()
        await send(
            try Self.login(
                key, name: name, secret: secret, nonce: hello.nonce, device: hello.device, origin: origin))
        return await message() ?? ""
    }

    // MARK: - Calls

    /// Calls a method; the answer as it came, or nothing when there is none.
    func call(_ method: String, _ params: String = "{}", more: String = "") async -> String {
        let number = number.withLock { number in
            number += 1
            return number
        }
        await send(#"{"jsonrpc":"2.0","id":\#(number),"method":"\#(method)","params":\#(params)\#(more)}"#)
        while let answer = await message() {
            if answer.contains("\"id\":\(number),") || answer.contains("\"id\":\(number)}") { return answer }
        }
        return ""
    }

    private struct Ticket: Decodable {
        struct Result: Decodable {
            var url: String
            var size: UInt64?
            var name: String?
            var offset: UInt64?
        }
        var result: Result
    }

    /// A ticket.
    func ticket(_ method: String, _ params: String) async throws -> (url: String, size: UInt64?, offset: UInt64?) {
        let answer = await call(method, params)
        guard let ticket = try? JSONDecoder().decode(Ticket.self, from: Data(answer.utf8)).result else {
            throw KithError(.invalid, "no ticket: \(answer)")
        }
        return (ticket.url, ticket.size, ticket.offset)
    }

    /// The answer to a request for one.
    func get(_ url: String, _ headers: String = "", method: String = "GET") async throws -> RawWeb.Answer? {
        try await RawWeb.ask("\(method) \(url) HTTP/1.1\nHost: localhost:\(port)\n\(headers)\n", port: port)
    }

    func put(_ url: String, _ body: [UInt8], offset: UInt64 = 0) async throws -> RawWeb.Answer? {
        let web = try RawWeb(port: port)
        await web.send(
            "PUT \(url) HTTP/1.1\nHost: localhost:\(port)\nOrigin: \(origin)\nUpload-Offset: \(offset)\nContent-Length: \(body.count)\n\n"
        )
        await web.send(body)
        return await web.answer()
    }
}
