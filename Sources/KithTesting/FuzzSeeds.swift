internal import KithAPI
internal import KithFiles
internal import KithIdentity
internal import KithRPC
internal import KithRelayServer
internal import KithShell
internal import KithWire

extension FuzzTarget {
    /// Inputs made of the numbers that arithmetic stumbles over, in the places where a peer says numbers.
    ///
    /// The fuzzers begin with them as with the seeds in `Fuzz/Corpus`, and the test suite runs each.
    public var extremes: [[UInt8]] {
        switch self {
        case .packet: Extremes.packets
        case .frame: Extremes.frames
        case .parameters: Extremes.parameters
        case .connection: Extremes.connections
        case .conversation: []  // It takes what a wire does: there are no numbers.
        case .ticket: Extremes.tickets
        case .announcement: Extremes.announcements
        case .cbor: Extremes.cbor
        case .header: Extremes.headers
        case .terminal, .input, .difference: Extremes.sequences
        case .mls: Extremes.mls
        case .preview: Extremes.pictures
        case .transfer: Extremes.transfers
        case .answers: Extremes.answers
        case .shell: Extremes.shells
        case .datagram: Extremes.datagrams
        case .proxy: Extremes.proxies
        case .method: Extremes.methods
        case .rpc: Extremes.rpc
        case .recording: Extremes.recordings
        case .pattern: Extremes.patterns
        case .query: Extremes.queries
        case .caller: Extremes.callers
        case .credential: Extremes.credentials
        case .certificate: Extremes.credentials + FuzzedTrust.seeds
        case .envelope: FuzzedEnvelopes.seeds
        case .delivery: Extremes.deliveries
        case .settings: Extremes.settings
        case .schema: Extremes.schemas
        case .stun: FuzzedReach.stunSeeds
        case .control: FuzzedReach.controlSeeds
        case .dns: FuzzedRecords.seeds.dns
        case .record: FuzzedRecords.seeds.record
        case .gateway: FuzzedPortMapping.gatewaySeeds
        case .upnp: FuzzedPortMapping.upnpSeeds
        case .relay: FuzzedRelay.seeds
        case .websocket: FuzzedWebSocket.seeds
        case .web: Extremes.requests
        case .etcd: EtcdInspection.seeds
        case .mdns: FuzzedMDNS.seeds
        case .vncviewer: FuzzedScreen.conversations.viewer
        case .vncserver: FuzzedScreen.conversations.server
        case .tiles: FuzzedScreen.tileSeeds
        case .pointer: FuzzedScreen.pointerSeeds
        case .video: FuzzedVideo.seeds
        case .advertisement: FuzzedReach.advertisementSeeds
        case .reference: FuzzedReference.seeds
        case .document: FuzzedContent.documentSeeds
        case .extraction: FuzzedContent.answerSeeds
        }
    }
}

private enum Extremes {
    /// Requests to the page: method, target, host, origin, range, what it is fetched for, and a login.
    static let requests: [[UInt8]] = [
        "GET\n/\nlocalhost:8080\n\nbytes=0-\nsame-origin\n{}",
        "GET\n/ws\nNAS.localhost:8080\nhttp://nas.localhost:8080\nbytes=-18446744073709551615\n\n"
            + #"{"login":{"key":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","signature":"AA","name":"x","proof":"AA"}}"#,
        "HEAD\n/d/AAAAAAAAAAAAAAAAAAAAAA\n[::1]:8080\n\nbytes=0-0,1-1\nnone\n{\"login\":{}}",
        "PUT\n/u/_____________________w\n127.0.0.1:8080\nhttp://127.0.0.1:8080\nbytes=99999999999999999999-\ncross-site\n[]",
        "GET\nhttp://localhost:8080/\u{202E}\"\\%\r\nlocalhost:8080\nnull\nbytes=1-0\nsame-site\n\u{0}",
    ].map { Array($0.utf8) }
    static let numbers: [UInt64] = [
        0, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 1 << 32, 1 << 53 | 1, 1 << 60, 1 << 61, 1 << 62 - 1, 1 << 62,
        1 << 63 - 4_096, 1 << 63 - 1, 1 << 63, 1 << 63 + 1, .max - 1, .max,
    ]
    /// Those that a varint has room for.
    static let varints = numbers.filter { $0 < 1 << 62 }
    /// As they can be written in JSON.
    static let numerals =
        numbers.map { String($0) } + [
            "-0", "-1", "-2147483648", "-9223372036854775808", "-9223372036854775809", "18446744073709551616", "1.5",
            "1e18", "1e19", "1e300", "1e400", "-1e400", "5e-324", "1E+99999999999999999999", "0e99999",
        ]

    private static func bytes(_ body: (inout ByteWriter) -> Void) -> [UInt8] {
        var writer = ByteWriter()
        body(&writer)
        return writer.bytes
    }

    private static func joined(_ parts: [UInt8]...) -> [UInt8] { parts.flatMap(\.self) }
    private static func text(_ text: String) -> [UInt8] { Array(text.utf8) }
    private static func count(_ bytes: [UInt8]) -> [UInt8] { varint(UInt64(bytes.count)) }
    private static func many(_ byte: UInt8, _ count: Int) -> [UInt8] { [UInt8](repeating: byte, count: count) }
    private static func varint(_ number: UInt64) -> [UInt8] { bytes { $0.varint(number) } }
    private static func big(_ number: UInt64) -> [UInt8] { bytes { $0.integer(number) } }

    // MARK: - Local network

    static let announcements: [[UInt8]] = {
        guard let key = try? DeviceKey(seed: many(14, 32)) else { preconditionFailure("a seed has 32 bytes") }
        let addresses = [
            NetworkAddress(ipv4: 0xC000_0207, port: 4_433), NetworkAddress(ipv6: .max, .max, port: .max),
        ]
        let goodbye = LocalAnnouncement(id: key.id, number: 1, lifetime: 0, addresses: [])
        return
            ([goodbye]
            + numbers.map {
                LocalAnnouncement(
                    id: key.id, number: $0, lifetime: UInt32(truncatingIfNeeded: $0), addresses: addresses)
            })
            .compactMap { try? $0.signed(by: key) }
    }()

    // MARK: - QUIC

    static let packets: [[UInt8]] = varints.map { number in
        // An Initial of version 1 with ids of eight bytes, a token and a length.
        joined(
            [0xC3, 0, 0, 0, 1, 8, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 7, 6, 5, 4, 3, 2, 1], varint(number), varint(number),
            many(0, 32))
    }

    private static func frame(_ type: UInt64, _ numbers: UInt64...) -> [UInt8] {
        joined(varint(type), numbers.flatMap { varint($0) }, many(8, 24))
    }

    private static let largest: UInt64 = 1 << 62 - 1

    static let frames: [[UInt8]] = {
        var seeds: [[UInt8]] = []
        for type in Array(0x02...0x1E) + [0x30, 0x31] as [UInt64] {
            seeds.append(frame(type, largest, largest, largest, largest))
            seeds.append(frame(type, largest, 0, 0, 0))
            seeds.append(frame(type, 0, largest, 0, largest))
            seeds.append(frame(type, 4, 1 << 60, 1, largest - 1))
        }
        return seeds
    }()

    private static func packet(_ frame: [UInt8]) -> [UInt8] {
        joined([UInt8(frame.count >> 8), UInt8(frame.count & 0xFF)], frame)
    }

    static let connections: [[UInt8]] = {
        // Each packet is one frame; the first that breaks a rule ends the connection.
        let mild: [[UInt8]] = [
            frame(0x10, largest), frame(0x11, 0, largest), frame(0x12, 1 << 60), frame(0x13, 1 << 60),
            frame(0x14, largest), frame(0x16, 1 << 60), frame(0x17, 1 << 60), frame(0x05, 0, largest),
            frame(0x18, largest, 0),
        ]
        let strong: [[UInt8]] = [
            frame(0x02, largest, largest, 0, largest), frame(0x03, 0, largest, 0, 0, largest, largest, largest),
            frame(0x04, 0, largest, largest), frame(0x06, largest), frame(0x0E, 0, largest),
            frame(0x0C, largest, largest), frame(0x0F, 0, largest - 1, 1), frame(0x19, largest),
            frame(0x1D, largest, 0),
        ]
        let together = mild.flatMap { packet($0) }
        return [joined([0], together), joined([1], together)] + strong.map { joined([0], packet($0)) }
    }()

    static let parameters: [[UInt8]] = {
        var seeds: [[UInt8]] = []
        for id in Array(0x00...0x11) + [0x20] as [UInt64] {
            for number in varints { seeds.append(joined(varint(id), count(varint(number)), varint(number))) }
        }
        return seeds
    }()

    // MARK: - Words

    static let tickets: [[UInt8]] = numbers.map { number in
        let ticket = joined([1], many(9, 32), [0, 0])
        return joined([1], count(ticket), ticket, many(5, 16), big(number), [1, 65])
    }

    private static func head(_ major: UInt8, _ argument: UInt64) -> [UInt8] {
        switch argument {
        case ..<24: [major << 5 | UInt8(argument)]
        case ..<0x100: [major << 5 | 24, UInt8(argument)]
        case ..<0x1_0000: [major << 5 | 25, UInt8(argument >> 8), UInt8(argument & 0xFF)]
        case ..<0x1_0000_0000: [major << 5 | 26] + big(argument).suffix(4)
        default: [major << 5 | 27] + big(argument)
        }
    }

    private static let doubles: [Double] = [
        -0.0, .leastNonzeroMagnitude, 1e300, -1e300, .infinity, -.infinity, 9.3e18, -9.3e18, 1.9e19, 0.1,
        .leastNormalMagnitude,
    ]

    static let cbor: [[UInt8]] = {
        var seeds: [[UInt8]] = []
        for major in 0...5 as ClosedRange<UInt8> {
            // Lengths far beyond the bytes are all alike.
            for number in major < 2 ? numbers : [0xFFFF_FFFF, 1 << 62, 1 << 63 - 1, 1 << 63, .max] {
                seeds.append(joined(head(major, number), major < 2 ? [] : [0]))
            }
        }
        for double in doubles + [.nan] { seeds.append(joined([0xFB], big(double.bitPattern))) }
        return seeds + [[0xF9, 0x7E, 0], [0xF9, 0x7C, 0], [0xF9, 0xFC, 0], [0xF9, 0x80, 0]]
    }()

    static let headers: [[UInt8]] = {
        let name = text("files.list")
        var seeds: [[UInt8]] = []
        for number in varints {
            seeds.append(joined([1], count(name), name, varint(number), [0, 1, 0xA0]))
            seeds.append(joined([1], varint(number), name))
            seeds.append(joined([0], varint(number)))
        }
        return seeds
    }()

    static let mls: [[UInt8]] =
        numbers.map { joined(big($0), [0, 0, 0, 0]) } + [
            [0xBF, 0xFF, 0xFF, 0xFF], [0x80, 0, 0x40, 0], [0xFF, 0xFF, 0xFF, 0xFF], [0x7F, 0xFF],
        ]

    private static func part(_ bytes: [UInt8]) -> [UInt8] {
        joined([UInt8(bytes.count >> 8), UInt8(bytes.count & 0xFF)], bytes)
    }

    /// A value in DER; its length as `announced`, or as it is.
    private static func der(_ tag: UInt8, _ content: [UInt8], announced: UInt64? = nil) -> [UInt8] {
        guard let announced else {
            return content.count < 128
                ? joined([tag, UInt8(content.count)], content)
                : joined([tag, 0x82, UInt8(content.count >> 8), UInt8(content.count & 0xFF)], content)
        }
        return joined([tag, 0x88], big(announced), content)
    }

    static let credentials: [[UInt8]] = {
        let key = many(7, 32)
        var seeds: [[UInt8]] = []
        // As much of a certificate as the numbers stand in: version, serial number, time, and the path's length.
        func certificate(_ number: [UInt8], _ time: String, _ announced: UInt64? = nil) -> [UInt8] {
            let algorithm = der(0x30, der(0x06, [0x2B, 0x65, 0x70]))
            let name = der(0x30, der(0x31, der(0x30, der(0x06, [0x55, 4, 3]) + der(0x0C, text("a")))))
            let times = der(0x30, der(0x18, text(time)) + der(0x17, text("491231235959Z")))
            let info = der(0x30, algorithm + der(0x03, [0] + key))
            let basic = der(0x30, der(0x01, [255]) + der(0x02, number))
            let own = der(0x30, der(0x06, [0x55, 0x1D, 0x13]) + der(0x01, [255]) + der(0x04, basic))
            // An identifier whose second number no integer holds.
            let far = der(0x30, der(0x06, [0x55] + many(0xFF, 10) + [0x7F]) + der(0x04, []))
            let signed = der(
                0x30,
                joined(
                    der(0xA0, der(0x02, [2])), der(0x02, number), algorithm, name, times, name, info,
                    der(0xA3, der(0x30, own + far))), announced: announced)
            return der(0x30, joined(signed, algorithm, der(0x03, [0] + many(9, 64))))
        }
        for number in numbers {
            let chain = [
                certificate([0] + big(number), "20000101000000Z"), certificate(big(number), "99991231235959Z"),
                certificate([1], "00000101000000Z", number),
            ]
            for last in chain {
                seeds.append(joined([1], big(number), part(key), part(chain[0]), part(last)))
            }
        }
        for time in ["99999999999999Z", "20000230000000Z", "20001301250000Z", "-0001010000000Z"] {
            seeds.append(joined([1], big(0), part(key), part(certificate([1], time))))
        }
        let deep = (0..<400).reduce(into: [UInt8]()) { bytes, _ in bytes = der(0x30, bytes) }
        return seeds + [joined([1], big(0), part(key), part(deep))]
    }()

    static let deliveries: [[UInt8]] = {
        var seeds: [[UInt8]] = []
        for message in mls {
            for kind in 1...5 as ClosedRange<UInt8> {
                let record = joined([kind, 1, 65], message)
                seeds.append(
                    joined(part(record), part(joined([kind, 1, 65, 4], message.prefix(4) + [])), part(record)))
            }
        }
        return seeds
    }()

    // MARK: - What is looked at

    static let sequences: [[UInt8]] = {
        let numbers = [
            "2147483648", "9223372036854775808", "18446744073709551616", "99999999999999999999999",
            "65535;65535;65535",
        ]
        var seeds: [[UInt8]] = []
        for number in numbers {
            for marker in ["", "?", ">"] {
                var seed: [UInt8] = [80, 24, 7]
                for final in UInt8(ascii: "@")...UInt8(ascii: "z") {
                    seed += joined(text("\u{1B}[\(marker)\(number)"), [final])
                }
                seeds.append(seed)
            }
        }
        return seeds
    }()

    static let pictures: [[UInt8]] = {
        let sides: [UInt64] = [0, 1, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF]
        var seeds: [[UInt8]] = []
        for side in sides {
            let (four, two) = (Array(big(side).suffix(4)), Array(big(side).suffix(2)))
            seeds.append(
                joined(
                    [0x89], text("PNG\r\n\u{1A}\n"), [0, 0, 0, 13], text("IHDR"), four, four,
                    [16, 6, 0, 0, 1, 0, 0, 0, 0], four, text("IDAT")))
            seeds.append(
                joined(
                    text("GIF89a"), two, two, [0x80, 0, 0, 0, 0, 0, 9, 9, 9, 0x2C], two, two, two, two,
                    [0, 8, 1, 0]))
            seeds.append(
                joined([0xFF, 0xD8, 0xFF, 0xC2, 0, 11, 8], two, two, [1, 1, 0x44, 0, 0xFF, 0xDA], two))
        }
        return seeds
    }()

    // MARK: - Files

    private static func frames(_ frames: [TransferFrame], after options: [UInt8]) -> [UInt8] {
        frames.reduce(into: options) { bytes, frame in
            guard (try? frame.append(to: &bytes)) != nil else { preconditionFailure("A frame can be written") }
        }
    }

    private static func attributes(_ name: String, _ number: UInt64) -> TransferFrame.Attributes {
        TransferFrame.Attributes(
            name: Array(name.utf8), mode: UInt32(truncatingIfNeeded: number), seconds: Int64(bitPattern: number),
            nanoseconds: UInt32(truncatingIfNeeded: number), identity: number)
    }

    static let transfers: [[UInt8]] = {
        var seeds: [[UInt8]] = []
        for number in numbers {
            let contents: [TransferFrame] = [
                .hole(number), .data([0, 0, 0]), .hole(number), .fileEnd(root: many(0, 32)),
            ]
            seeds.append(
                frames([.file(attributes("a", number), size: number, .sparse)] + contents, after: [0, 255]))
            seeds.append(
                frames(
                    [
                        .file(attributes("a", 1), size: 9, .sparse), .hole(1 << 63 - 4_096),
                        .data(many(0, 1_024)[...]), .hole(number),
                    ], after: [0, 255]))
            // Nothing arrives of what is only planned, and its sizes are added up.
            seeds.append(
                frames(
                    [
                        .total(bytes: number, files: number), .total(bytes: number, files: number),
                        .file(attributes("a", number), size: number, .linked),
                        .file(attributes("b", number), size: number, []),
                        .file(attributes("c", number), size: number, []),
                        .hardLink(name: [100], to: number), .end(isComplete: true),
                    ], after: [1, 255]))
            seeds.append(
                frames(
                    [
                        .folder(attributes("f", number)), .link(attributes("l", number), target: [120]),
                        .folderEnd(isComplete: true), .file(attributes("a", number), size: 3, []),
                        .kept(leaves: number),
                    ], after: [0, 255]))
            seeds.append(
                frames(
                    [.file(attributes("a", 1), size: 3, []), .copied(offset: number, length: number)], after: [0, 0]))
        }
        return seeds
    }()

    static let answers: [[UInt8]] = {
        var seeds: [[UInt8]] = []
        for number in numbers {
            let summary = Files.Summary(
                bytes: number, sent: number, wire: number, files: number, unchanged: number, folders: number,
                links: number, deleted: number, skipped: number)
            let chunk = joined(Array(big(number).suffix(4)), many(1, 16))
            seeds.append(frames([.send(files: number)], after: []))
            seeds.append(frames([.notNeeded(files: number)], after: []))
            seeds.append(frames([.taken(number), .send(files: 3), .acknowledgement(summary)], after: []))
            seeds.append(
                frames(
                    [
                        .notNeeded(files: 1), .chunks(exponent: 13, joined(chunk, chunk)[...]),
                        .leaves(many(7, 64)[...]), .sendDifference, .send(files: 1), .acknowledgement(summary),
                    ], after: []))
        }
        return seeds
    }()

    // MARK: - Shells and forwarding

    static let shells: [[UInt8]] = {
        let output = ShellFrame.output(many(65, 3_000)).encoded
        var seeds: [[UInt8]] = []
        for number in varints {
            seeds.append(joined([60], ShellFrame.jump(number).encoded, output, output, output, output))
            let two = joined(varint(number), varint(number))
            seeds.append(
                joined(
                    [7], ShellFrame.taken(number).encoded, ShellFrame.received(number).encoded,
                    ShellFrame.agent(number, [1]).encoded, [0x17], count(two), two))
            let status = joined([0], varint(number))
            seeds.append(joined([3, 0x13], count(status), status))
        }
        for name in ["2147483647", "-2147483648", "64", "0"] {
            let end = joined([1, 1], text(name))
            seeds.append(joined([5, 0x13], count(end), end))
        }
        return seeds
    }()

    static let callers: [[UInt8]] = {
        let size = Shell.Size(columns: .max, rows: .max, pixelWidth: .max, pixelHeight: .max)
        let none = Shell.Size(columns: 0, rows: 0, pixelWidth: 0, pixelHeight: 0)
        let typed = ShellFrame.input(many(65, 3_000)).encoded
        let ends = [ShellFrame.endOfInput.encoded, ShellFrame.signal(.hangUp).encoded]
        var seeds: [[UInt8]] = []
        for number in [0, 1, 2_999, 1 << 32, 1 << 61, 1 << 62 - 1] as [UInt64] {
            for flags in [0, 1, 3, 5, 13] as [UInt8] {
                seeds.append(
                    joined(
                        [flags, 80], ShellFrame.resize(size).encoded, typed, ShellFrame.received(number).encoded,
                        ShellFrame.agent(number, [1]).encoded, ShellFrame.resize(none).encoded, typed, ends[0]))
            }
        }
        for frame in ends + [ShellFrame.output([1]).encoded, [0x03, 0], [0x05, 0], [0x04, 1, 65], [0x07, 1, 2]] {
            seeds.append(joined([1, 0], frame, typed))
        }
        for shape in shapes where shape.name == "shell.open" {
            for number in encoded { seeds.append(joined([128, 0], shape.shape.cbor(number))) }
        }
        return seeds
    }()

    static let datagrams: [[UInt8]] =
        varints.map { joined([9], varint($0), [0, 1, 2]) } + [
            [0, 8, 4, 255, 255, 255, 255, 255, 255, 1], joined([60, 19, 6], many(255, 18)),
            [60, 5, 3, 255, 97, 0, 0], [60, 5, 3, 1, 97, 255, 255],
        ]

    static let proxies: [[UInt8]] = {
        var seeds: [[UInt8]] = [
            [5, 255, 0], [1, 255, 65, 255], [5, 1, 0, 3, 255, 97], [5, 1, 0, 1, 255, 255, 255, 255, 255, 255],
            joined([5, 3, 0, 4], many(255, 18)), [0, 0, 0, 3, 1, 97, 255, 255, 1],
        ]
        for number in numerals {
            seeds.append(
                joined([60], text("POST http://a:65535/ HTTP/1.1\r\nContent-Length: \(number)\r\n\r\nbody")))
            seeds.append(joined([60], text("CONNECT a:\(number) HTTP/1.1\r\n\r\n")))
        }
        for number in numbers {
            let chunk = String(number, radix: 16) + "\r\nbody"
            seeds.append(
                joined([60], text("POST http://a/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\(chunk)")))
        }
        return seeds
    }()

    // MARK: - Text

    static let rpc: [[UInt8]] = numerals.map { number in
        let lines = [
            #"{"jsonrpc":"2.0","id":NUMBER,"method":"m","params":{"timeout":NUMBER,"n":[NUMBER]}}"#,
            #"{"jsonrpc":"2.0","id":NUMBER,"error":{"code":NUMBER,"message":"m"}}"#, "NUMBER", "",
        ]
        return joined([60], text(lines.map { filled($0, number) }.joined(separator: "\n")))
    }

    private static func filled(_ template: String, _ number: String) -> String {
        template.split(separator: "NUMBER", omittingEmptySubsequences: false).joined(separator: number)
    }

    static let recordings: [[UInt8]] = {
        let templates = [
            #"{"version":2,"width":80,"height":24,"idle_time_limit":NUMBER,"timestamp":NUMBER}"#
                + "\n[0,\"o\",\"a\"]\n[31536000,\"o\",\"b\"]\n",
            #"{"version":2,"width":80,"height":24}"# + "\n[NUMBER,\"o\",\"a\"]\n[NUMBER,\"r\",\"NUMBERx1\"]\n",
            #"{"version":2,"width":NUMBER,"height":NUMBER}"# + "\n",
        ]
        return numerals.flatMap { number in templates.map { text(filled($0, number)) } }
    }()

    /// Queries with each filter, at the ends of what it takes, before the name of a file.
    static let queries: [[UInt8]] = [
        "report OR (-draft \"annual report\")\nreport.txt", "*.jpg name:?a* IMG_????\na.jpg",
        "regex:^(a|b)*c{2,3}[^\\d]\\b$\nabcc", "regex:((((((a{9}){9}){9}){9}){9}){9})\na",
        "size:18446744073709551615 size:1M..5M size:<=3KiB\nx", "modified:2024-02-29 modified:<9999999y\nx",
        "modified:9999-12-31..0001 created:>@-9223372036854775808\nx", "tag:a/b tag:=\"a b\" rating:>=4 is:untagged\nx",
        "in:~/docs in:/ path:// device:a location:\"\" note:\"a\"\"b\" content:x\nx",
        "kind:image,video ext:tar.gz,c++ sort:-size,name\nx", "((((((((((((((((-(x\nx",
        "\u{1E9E}\u{130}\u{212A}\n\u{DF}ik",
    ].map { Array($0.utf8) }

    static let patterns: [[UInt8]] = {
        let globs = [
            "[\u{0}-\u{10FFFF}]", "[z-a]", "**/**/**/a", "!\\", "[[:alpha:]-]", "[]-a]", "a/**", "***", "[^]",
            "*?*?*?\n*",
        ]
        return globs.map { text("\($0)\n[device \($0)]\nkey = \"\($0)\"\n") }
            + numerals.map { text("[copy]\nlimit = \($0)\n\($0)\n") }
    }()

    static let settings: [[UInt8]] = {
        let lines = [
            "shell laptop --env A -- ls", "shell --quiet=no -eB laptop", "--data=/x shell list lab-1", "\\\"\t",
        ]
        let file = """
            verbose = yes
            [shell] # one
            env = "A\\n\\"" # two
            [device !lab-9 lab-* l?ptop]
            device = NUMBER
            shell.quiet = NUMBER
            shell.list.data = NUMBER
            """
        return numerals.flatMap { number in lines.map { text("\($0)\n\(filled(file, number))\n") } }
    }()

    static let schemas: [[UInt8]] = {
        let schemas = [
            #"{"type": ["integer", "null"], "minimum": NUMBER, "exclusiveMaximum": NUMBER}"#,
            #"{"enum": [NUMBER, "é"], "const": NUMBER}"#,
            #"{"items": {"minimum": NUMBER}, "minItems": NUMBER, "maxItems": NUMBER, "uniqueItems": true}"#,
            #"{"prefixItems": [{"type": "string", "minLength": NUMBER, "maxLength": NUMBER}], "items": false}"#,
            """
            {"properties": {"a": {"maximum": NUMBER}}, "required": ["a"], "maxProperties": NUMBER, \
            "additionalProperties": {"type": "number"}}
            """,
            #"{"anyOf": [{"type": "null"}, {"maximum": NUMBER}], "not": {"oneOf": [{}, {"const": NUMBER}]}}"#,
            ##"{"$defs": {"a": {"items": {"$ref": "#/$defs/a"}, "allOf": [{"$ref": "#"}]}}, "$ref": "#/$defs/a"}"##,
        ]
        let values = ["NUMBER", #""\u0000é""#, "[NUMBER, NUMBER, [[]]]", #"{"a": NUMBER, "b": {"a": null}}"#]
        return numerals.flatMap { number in
            schemas.flatMap { schema in
                values.map { text("\(filled(schema, number))\n\(filled($0, number))") }
            }
        }
    }()

    // MARK: - Methods

    /// A value with numbers still to be put in.
    private indirect enum Shape {
        case number
        case text(String)
        case flag
        case list([Shape])
        case members([(String, Shape)])

        func json(_ number: String) -> String {
            switch self {
            case .number: return number
            case .text(let text): return String(decoding: JSONText.quoted(text), as: UTF8.self)
            case .flag: return "true"
            case .list(let shapes): return "[\(shapes.map { $0.json(number) }.joined(separator: ","))]"
            case .members(let members):
                let pairs = members.map { "\(Shape.text($0.0).json(number)):\($0.1.json(number))" }
                return "{\(pairs.joined(separator: ","))}"
            }
        }

        func cbor(_ number: [UInt8]) -> [UInt8] {
            switch self {
            case .number: return number
            case .text(let text): return joined(head(3, UInt64(text.utf8.count)), Array(text.utf8))
            case .flag: return [0xF5]
            case .list(let shapes):
                return joined(head(4, UInt64(shapes.count)), shapes.flatMap { $0.cbor(number) })
            case .members(let members):
                let pairs = members.map { (Shape.text($0.0).cbor([]), $0.1.cbor(number)) }
                    .sorted { $0.0.lexicographicallyPrecedes($1.0) }
                return joined(head(5, UInt64(pairs.count)), pairs.flatMap { joined($0.0, $0.1) })
            }
        }
    }

    private static func path(_ more: (String, Shape)...) -> Shape { .members([("path", .text("/a"))] + more) }

    private static func counts(_ names: String...) -> [(String, Shape)] { names.map { ($0, .number) } }

    private static let entry: Shape = .members(
        [("name", .text("a")), ("kind", .text("file"))]
            + counts(
                "size", "mode", "modified", "modifiedNanoseconds", "user", "group", "allocated", "links", "inode"))
    private static let size: Shape = .members(counts("columns", "rows", "pixelWidth", "pixelHeight"))
    private static let bounds: Shape = .members([("minimum", .number), ("maximum", .number)])
    private static let item: Shape = .members([("name", .text("a")), ("kind", .text("file")), ("size", .number)])
    private static let viewer: Shape = .members([("id", .list([.number])), ("wantsEchoes", .flag)])

    /// The name of a method, whether it is its output, and where numbers stand in it.
    private static let shapes: [(name: String, isOutput: Bool, shape: Shape)] = [
        ("files.list", false, path(("limit", .number))),
        ("files.list", true, .members([("entries", .list([entry])), ("hasMore", .flag)])),
        ("files.stat", true, entry), ("files.mkdir", false, path(("mode", .number), ("parents", .flag))),
        ("files.delete", true, .members([("count", .number)])),
        ("files.read", false, path(("offset", .number), ("length", .number))),
        ("files.write", false, path(("offset", .number), ("mode", .number), ("overwrite", .flag))),
        (
            "files.find", false,
            path(
                ("minimumDepth", .number), ("maximumDepth", .number), ("oneFileSystem", .flag),
                (
                    "filter",
                    .members([("patterns", .list([])), ("kinds", .list([])), ("size", bounds), ("age", bounds)])
                ))
        ),
        ("files.usage", false, path(("maximumDepth", .number), ("files", .flag), ("oneFileSystem", .flag))),
        (
            "files.follow", false,
            path(
                ("follows", .flag), ("waits", .flag),
                ("start", .members([("count", .number), ("isBytes", .flag), ("isFromBeginning", .flag)])))
        ),
        ("files.lane", false, .members([("token", .list([.number])), ("lane", .number)])),
        ("forward.datagrams", false, .members([("idleSeconds", .number)])),
        ("forward.accept", false, .members([("listener", .text("")), ("number", .number)])),
        ("forward.stop", false, .members([("id", .number)])), ("audit.list", false, .members([("limit", .number)])),
        (
            "invitations.create", false,
            .members([("grants", .list([])), ("lifetimeSeconds", .number), ("isAutomatic", .flag)])
        ),
        (
            "offer.send", false,
            .members([
                ("items", .list([item, item])), ("bytes", .number), ("files", .number), ("waitSeconds", .number),
            ])
        ),
        ("reach.load", false, .members([("direction", .text("up")), ("milliseconds", .number)])),
        (
            "reach.measure", false,
            .members([("device", .text("a")), ("milliseconds", .number), ("requests", .number)])
        ),
        (
            "reach.standing", true,
            .members([("grants", .list([])), ("version", .text("1")), ("time", .number)])
        ),
        (
            "shell.open", false,
            .members([
                ("terminal", .members([("size", size), ("type", .text("xterm"))])), ("environment", .members([])),
                ("keep", .number), ("sharing", .text("none")), ("forwardsAgent", .flag), ("viewer", viewer),
            ])
        ),
        (
            "shell.attach", false,
            .members([
                ("session", .text("a")), ("drives", .flag), ("size", size), ("position", .number),
                ("scrollback", .number), ("viewer", viewer),
            ])
        ),
        (
            "shell.sessions", true,
            .list([
                .members(
                    [
                        ("id", .text("a")), ("command", .text("")), ("title", .text("")), ("owner", .text("")),
                        ("isOwn", .flag), ("sharing", .text("none")), ("size", size),
                    ] + counts("process", "opened", "idle", "viewers", "drivers", "endsIn", "status"))
            ])
        ),
    ]

    /// Numbers in CBOR: one for each side of the bounds of the integers, and some that are none.
    private static let encoded: [[UInt8]] =
        [1, 1 << 32, 1 << 62 - 1, 1 << 63 - 1, 1 << 63, .max].map { head(0, $0) }
        + [0, 1 << 63 - 1, 1 << 63].map { head(1, $0) }
        + [1e300, .infinity, -1e300].map { joined([0xFB], big($0.bitPattern)) }

    static let methods: [[UInt8]] = {
        var seeds: [[UInt8]] = []
        for (name, isOutput, shape) in shapes {
            guard let index = FuzzedMethods.all.firstIndex(where: { $0.name == name }) else {
                preconditionFailure("\(name) is a method")
            }
            let form: UInt8 = isOutput ? 2 : 0
            for number in encoded { seeds.append(joined([UInt8(index), form], shape.cbor(number))) }
            for number in ["-0", "-1", "9223372036854775808", "1e18", "1e400"] {
                seeds.append(joined([UInt8(index), form | 1], text(shape.json(number))))
            }
        }
        return seeds
    }()
}
