internal import KithAPI
internal import KithCommandLine
internal import KithCatalog
internal import KithForward
internal import KithRPC
internal import KithReach
internal import KithTerminal
internal import KithWire

/// The input that comes as text or between local programs: JSON-RPC, proxies, recordings, patterns and settings.
enum FuzzedText {
    /// Lines of JSON-RPC, in pieces of the first byte's size.
    static func rpc(_ bytes: [UInt8]) {
        guard let first = bytes.first else { return }
        let size = Int(first) % 61 + 1
        var framer = LineFramer(limit: 4_096)
        for start in stride(from: 1, to: bytes.count, by: size) {
            framer.append(Array(bytes[start..<min(start + size, bytes.count)]))
            while let line = try? framer.next() {
                precondition(!line.isEmpty && line.count <= 4_096, "A line is bounded")
                switch RPCPacket(parsing: line) {
                case .single(let message): check(message)
                case .batch(let messages):
                    precondition(messages.count <= RPCPacket.batchLimit, "A batch is bounded")
                    for message in messages { check(message) }
                }
                if let text = try? JSONText(line) {
                    _ = (try? text.value(), text.integer, text.string, text.members()?.count)
                }
            }
        }
        _ = framer.takeRest()
    }

    private static func check(_ message: RPCMessage) {
        if case .request(let request) = message, let (id, notice) = try? StreamNotice.parse(request) {
            let again = try? StreamNotice.parse(notice.request(id))
            precondition(again?.id == id && again?.notice == notice, "A notice survives")
        }
        let written =
            switch message {
            case .request(let request): request.json
            case .response(let response), .malformed(let response): response.json
            }
        guard case .single(let again) = RPCPacket(parsing: written) else {
            preconditionFailure("What was written can be read")
        }
        switch (message, again) {
        case (.request(let first), .request(let second)): precondition(first == second, "A request survives")
        case (.response, .response), (.malformed, .response): break
        default: preconditionFailure("A message stays of its kind")
        }
    }

    /// A schema, and behind the first line feed a value.
    static func schema(_ bytes: [UInt8]) {
        let parts = bytes.split(separator: 0x0A, maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let schema = try? JSONText(Array(parts[0])).decode(JSONSchema.self),
            let value = try? JSONText(Array(parts[1])).parsed
        else { return }
        func outcome(_ schema: JSONSchema) -> KithError? {
            do throws(KithError) {
                try schema.check(value, as: "params")
                return nil
            } catch {
                precondition(error.code == .invalid || error.code == .exhausted, "It is refused, or too much")
                precondition(error.message.hasPrefix("params"), "The error names the value")
                precondition(error.message.utf8.count <= 2_048, "The error is bounded")
                return error
            }
        }
        let (first, again) = (outcome(schema), outcome(schema))
        precondition(first?.message == again?.message, "The same is always the same")
        // A reference to the root means another one inside another schema.
        if first?.code == .exhausted || parts[0].contains(UInt8(ascii: "$")) { return }
        guard let opposite = outcome(["not": schema.value]), opposite.code != .invalid || first == nil else {
            precondition(first != nil, "What is accepted is not refused")
            return
        }
        precondition(opposite.code == .exhausted || first == nil, "What is refused is not accepted")
    }

    /// Datagrams on a stream, in pieces of the first byte's size.
    static func datagram(_ bytes: [UInt8]) {
        guard let first = bytes.first else { return }
        let size = Int(first) % 61 + 1
        var decoder = DatagramFrameDecoder()
        for start in stride(from: 1, to: bytes.count, by: size) {
            decoder.append(Array(bytes[start..<min(start + size, bytes.count)]))
            while let frame = try? decoder.next() {
                var again = DatagramFrameDecoder()
                again.append(frame.encoded)
                precondition((try? again.next()) == frame, "A datagram survives")
            }
        }
    }

    /// SOCKS, and a request to a proxy of HTTP with its body in pieces of the first byte's size.
    static func proxy(_ bytes: [UInt8]) {
        ProxyInspection.socks(bytes)
        guard let first = bytes.first else { return }
        ProxyInspection.http(Array(bytes.dropFirst()), inPiecesOf: Int(first) % 61 + 1)
        proxyAnswer(Array(bytes.dropFirst()), inPiecesOf: Int(first) % 61 + 1)
    }

    /// The answer of a proxy in pieces, the same as that of a captive portal, and as the URL of a proxy.
    private static func proxyAnswer(_ bytes: [UInt8], inPiecesOf size: Int) {
        guard let proxy = try? ProxyServer("proxy:1"), let relay = RelayAddress("https://relay.example") else { return }
        var tunnel = ProxyTunnel(by: proxy, to: relay)
        for start in stride(from: 0, to: bytes.count, by: size) {
            let action = tunnel.received(Array(bytes[start..<min(start + size, bytes.count)]))
            guard case .wait = action else { break }
            precondition(start < ProxyTunnel.maxLength, "An answer has an end")
        }
        if let head = try? HTTPAnswerHead(bytes) {
            let portal = CaptivePortal(answer: head, from: relay.host, challenge: "x")
            precondition(portal?.url.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } != false, "It is shown to a person")
        }
        // Most are none.
        guard let server = try? ProxyServer(String(decoding: bytes, as: UTF8.self)) else { return }
        precondition((try? ProxyServer(server.urlWithPassword)) == server, "A URL survives")
    }

    /// A recording in asciicast v2, and when its events are due.
    static func recording(_ bytes: [UInt8]) {
        var reader = Asciicast.Reader()
        guard let events = try? reader.read(bytes) else { return }  // a refusal
        for speed in [0.01, 1, 1_000] {
            var pace = Asciicast.Pace(speed: speed, idleLimit: reader.header?.idleTimeLimit)
            var last = Duration.zero
            for event in events {
                let due = pace.due(event.time)
                precondition(due >= last, "Time does not go back")
                last = due
            }
        }
        _ = try? reader.finish()
    }

    /// A query, and in the last line the name of a file.
    static func query(_ bytes: [UInt8]) {
        let end = bytes.lastIndex(of: 0x0A) ?? bytes.endIndex
        let text = String(decoding: bytes[..<end], as: UTF8.self)
        let name = NameFolding.display(bytes[end...].dropFirst().prefix(255))
        do throws(QueryError) {
            let query = try SearchQuery(text, now: 1_700_000_000, offsetFromUTC: 3_600)
            _ = query.matches(Subject(name: name, path: "/\(name)"))
            let description = query.description
            guard description.utf8.count <= SearchQuery.lengthLimit else { return }
            let again = try? SearchQuery(description, now: 1_700_000_000, offsetFromUTC: 3_600)
            precondition(again == query, "A query means what it is described as")
        } catch {
            precondition(error.range.upperBound <= text.utf8.count, "A fault is in the text")
            _ = error.shown(in: text)
        }
    }

    /// Patterns and settings: each line is one; the last byte of a line is also what names are made of.
    static func pattern(_ bytes: [UInt8]) {
        let lines = bytes.prefix(2_048).split(separator: 0x0A, maxSplits: 16, omittingEmptySubsequences: false)
        let texts = lines.map { String(decoding: $0, as: UTF8.self) }
        let names = lines.prefix(4).map { Array($0.prefix(64)) }
        if let rules = try? IgnoreRules(texts) {
            for name in names { _ = rules.excludes(name, isFolder: name.last ?? 0 & 1 == 0) }
        }
        for text in texts.prefix(4) {
            for ignoresCase in [false, true] {
                let glob = GlobPattern(text, ignoresCase: ignoresCase)
                for name in names { _ = glob.matches(name) }
            }
            _ = Configuration.matches(text, texts)
        }
        _ = try? Configuration(parsing: String(decoding: bytes, as: UTF8.self))  // a problem is an answer
    }
}
