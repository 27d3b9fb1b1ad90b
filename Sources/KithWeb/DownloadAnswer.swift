import KithAPI
import KithWire
import NIOCore
import NIOHTTP1

/// The answer to a request for a download.
struct DownloadAnswer {
    let ticket: DownloadTicket
    let client: Client

    func send(_ head: HTTPRequestHead, _ answer: inout HTTPAnswer) async throws {
        var headers = WebHeaders.content
        headers.add(
            name: "content-disposition",
            value: WebHeaders.disposition(ticket.name, isInline: ticket.isInline))
        switch ticket.content {
        case .file(let path, let entry): try await send(path, entry, head, headers, &answer)
        case .archive(let form, let paths):
            headers.add(name: "content-type", value: form.mediaType)
            let archive = try await ArchiveStream(form, of: paths, on: ticket.device, client: client)
            try await answer.send(.ok, headers, length: archive.size) { write in
                try await archive.send { try await write(ByteBuffer(bytes: $0)) }
            }
        }
    }

    private func send(
        _ path: Files.Path, _ known: Files.Entry, _ head: HTTPRequestHead, _ fields: HTTPHeaders,
        _ answer: inout HTTPAnswer
    ) async throws {
        var headers = fields
        headers.add(
            name: "content-type",
            value: (ticket.isInline ? MediaType.shown(ticket.name) : nil) ?? "application/octet-stream")
        headers.add(name: "accept-ranges", value: "bytes")
        var entry = known
        if head.method == .HEAD {
            entry = try await client.call(Files.Stat.self, .init(path: path, followsLinks: true), on: ticket.device)
        }
        // As a rule it is as it was; else it is looked at once more.
        for isLast in [false, true] {
            guard entry.size <= DownloadTicket.sizeLimit else { throw KithError(.invalid, "That is no file's size.") }
            let range = Self.range(of: entry, head)
            var all = headers
            all.add(name: "etag", value: Self.tag(entry))
            if case .unsatisfiable = range {
                all.add(name: "content-range", value: "bytes */\(entry.size)")
                return try await answer.send(.rangeNotSatisfiable, all, length: 0) { _ in }
            }
            var (status, wanted) = (HTTPResponseStatus.ok, 0..<entry.size)
            if case .part(let part) = range {
                (status, wanted) = (.partialContent, part)
                all.add(name: "content-range", value: "bytes \(part.lowerBound)-\(part.upperBound - 1)/\(entry.size)")
            }
            let length = wanted.upperBound - wanted.lowerBound
            if head.method == .HEAD { return try await answer.send(status, all, length: length) { _ in } }
            let opened = try await client.open(
                Files.Read.self, .init(path: path, offset: wanted.lowerBound, length: length), on: ticket.device)
            if Self.tag(opened.output) != Self.tag(entry), !isLast {
                opened.stream.abort(.cancelled)
                entry = opened.output
                continue
            }
            return try await answer.send(status, all, length: length) { write in
                var rest = length
                do {
                    while rest > 0, let bytes = try await opened.stream.read(upTo: 256 << 10) {
                        rest -= min(rest, UInt64(bytes.count))
                        try await write(ByteBuffer(bytes: bytes))
                    }
                } catch {
                    opened.stream.abort(.cancelled)
                    throw error
                }
                guard rest == 0 else { throw KithError(.conflict, "The file became shorter while it was read.") }
            }
        }
    }

    /// The part that is asked for; all of a file that is not the one the asker has a part of.
    private static func range(of entry: Files.Entry, _ head: HTTPRequestHead) -> ByteRange {
        guard head.headers["if-range"].allSatisfy({ $0 == tag(entry) }) else { return .whole }
        return ByteRange(head.headers["range"], size: entry.size)
    }

    /// What a file's contents are known by, as far as that can be told without reading them.
    private static func tag(_ entry: Files.Entry) -> String {
        "\"\(String(entry.size, radix: 16))-\(String(entry.modified, radix: 16))-\(String(entry.modifiedNanoseconds, radix: 16))\""
    }
}
