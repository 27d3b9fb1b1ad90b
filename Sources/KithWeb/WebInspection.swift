import KithWire
import NIOCore
import NIOHTTP1

/// What the door reads of anybody, for a fuzzer: whatever they send, this holds.
package enum WebInspection {
    private static let names = WebNames(port: 8_080, device: "nas")
    private static let hosts = ["localhost:8080", "127.0.0.1:8080", "[::1]:8080", "nas.localhost:8080"]

    /// Feeds a request, one part a line: method, target, host, origin, range, what a page fetches it for; then a login.
    package static func feed(_ bytes: [UInt8]) {
        let lines = bytes.split(separator: 0x0A, maxSplits: 6, omittingEmptySubsequences: false)
            .map { String(decoding: $0, as: UTF8.self) }
        func line(_ index: Int) -> String { index < lines.count ? lines[index] : "" }
        route(method: line(0), target: line(1), host: line(2), origin: line(3), site: line(5))
        range(line(4))
        field(line(1))
        login(line(6))
    }

    private static func route(method: String, target: String, host: String, origin: String, site: String) {
        var head = HTTPRequestHead(version: .http1_1, method: HTTPMethod(rawValue: method), uri: target)
        head.headers.add(name: "host", value: host)
        if !origin.isEmpty { head.headers.add(name: "origin", value: origin) }
        if !site.isEmpty { head.headers.add(name: "sec-fetch-site", value: site) }
        // A refusal is an answer.
        guard let route = try? WebRoute(head, names: names) else { return }
        precondition(hosts.contains(host.lowercased()), "Nothing is answered under another name")
        switch route {
        case .file(let path):
            precondition(method == "GET" || method == "HEAD", "A file is only read")
            if let file = PageFiles().file(path) { precondition(file.bytes.readableBytes > 0, "A file of ours") }
        case .socket(let origin):
            precondition(origin.lowercased() == "http://" + host.lowercased(), "Only the page opens its WebSocket")
            precondition(site != "cross-site", "Another page opens none")
        case .download(let id), .upload(let id):
            precondition(target.dropFirst(3).hasPrefix(id.text), "A ticket has one form")
            precondition(TicketID(id.text[...]) == id, "A ticket survives")
        }
    }

    private static func range(_ text: String) {
        for size in [0, 1, 1_000, UInt64.max] {
            guard case .part(let part) = ByteRange([text], size: size) else { continue }
            precondition(!part.isEmpty && part.upperBound <= size, "A part is of the file")
        }
    }

    private static func field(_ name: String) {
        for isInline in [false, true] {
            let field = WebHeaders.disposition(name, isInline: isInline)
            precondition(field.utf8.allSatisfy { (0x20..<0x7F).contains($0) }, "A field is one line of ASCII")
            precondition(field.utf8.count { $0 == UInt8(ascii: "\"") } == 2, "A name does not end its quotes")
        }
        let unpacked = ArchiveEntry.name(Array(name.utf8))
        precondition(!unpacked.contains("\\"), "A name has no separators but slashes")
        let shown = WebLogin.name(name)
        precondition(!shown.isEmpty && shown.utf8.count <= 96 && !shown.contains("\n"), "A name can be shown")
    }

    private static func login(_ text: String) {
        let claim = try? WebLogin.claim(  // a refusal is an answer
            Array(text.utf8), nonce: "nonce", device: "device", origin: "http://localhost:8080")
        precondition(claim == nil, "Nobody signs by chance")
    }
}
