import Foundation
import KithAPI
import KithTesting
import KithWire
import Testing

@testable import KithForward

/// The proxy behind `-D`, asked by curl and by hand.
@Suite struct ProxyTests {
    @Test(arguments: [
        ["--socks5-hostname"], ["--socks5"], ["--proxy"], ["--proxytunnel", "--proxy"],
    ])
    func `curl gets what it asks for`(options: [String]) async throws {
        let peer = try Peer("http")
        let carrier = try LocalCarrier("forward", names: ["inside.example": ["127.0.0.1:0"]])
        let output = try await forwarding(.dynamic, "127.0.0.1:0", carrier) { endpoint in
            // --socks5 looks the name up itself.
            let host = options == ["--socks5"] ? "127.0.0.1" : "inside.example"
            return try await curl(options + ["\(endpoint)", "http://\(host):\(peer.port)/a?b=c"])
        }
        #expect(output.status == 0, "\(output.error)")
        #expect(output.text.hasPrefix("GET /a?b=c host="), "\(output.text)")
        #expect(!output.text.contains("proxy-"), "\(output.text)")
        #expect(carrier.lookups.value == (options == ["--socks5"] ? [] : ["inside.example"]))
    }

    @Test func `curl posts, in one piece and in chunks`() async throws {
        let peer = try Peer("http")
        let scratch = try TemporaryFolder()
        let body = scratch.path + "/body"
        try Data(count: 300_000).write(to: URL(fileURLWithPath: body))
        for fields in [[], ["-H", "Transfer-Encoding: chunked"]] {
            let output = try await forwarding(.dynamic, "127.0.0.1:0", LocalCarrier("forward")) { endpoint in
                try await curl(
                    fields + ["--data-binary", "@\(body)", "--proxy", "\(endpoint)", "http://127.0.0.1:\(peer.port)/"])
            }
            #expect(output.text.hasSuffix("body=300000\n"), "\(output)")
        }
    }

    @Test func `several requests of one curl reach their hosts`() async throws {
        let (one, other) = (try Peer("http"), try Peer("http"))
        let output = try await forwarding(.dynamic, "127.0.0.1:0", LocalCarrier("forward")) { endpoint in
            try await curl([
                "--proxy", "\(endpoint)", "http://127.0.0.1:\(one.port)/1", "http://127.0.0.1:\(other.port)/2",
                "http://127.0.0.1:\(one.port)/3",
            ])
        }
        #expect(output.text.split(separator: "\n").map { $0.split(separator: " ")[1] } == ["/1", "/2", "/3"])
        #expect(output.text.contains("/2 host=127.0.0.1:\(other.port)"))
    }

    @Test(arguments: [
        ("forward", "refused", "--proxytunnel", "502"), ("forward", "nowhere.example:80", "--proxytunnel", "502"),
        ("forward:to=*:*", "127.0.0.1:1", "--proxytunnel", "403"), ("forward", "refused", "--globoff", "502"),
        ("forward:to=*:*", "127.0.0.1:1", "--globoff", "403"),
    ])
    func `what cannot be opened has its status`(
        grant: String, endpoint: String, option: String, status: String
    ) async throws {
        let endpoint = endpoint == "refused" ? "\(try closedEndpoint())" : endpoint
        let output = try await forwarding(.dynamic, "127.0.0.1:0", LocalCarrier(grant)) { proxy in
            try await curl([
                option, "--proxy", "\(proxy)", "-o", "/dev/null", "-w", "%{http_connect} %{http_code}",
                "http://\(endpoint)/",
            ])
        }
        #expect(output.text.contains(status), "\(output)")
    }

    @Test(arguments: [
        ("forward", "refused", 5 as UInt8), ("forward", "nowhere.example", 4), ("forward:to=*:*", "127.0.0.1", 2),
    ])
    func `SOCKS5 says why a connection could not be opened`(grant: String, host: String, reply: UInt8) async throws {
        let endpoint = host == "refused" ? try closedEndpoint() : try #require(Forward.Endpoint("\(host):9"))
        let answer = try await forwarding(.dynamic, "127.0.0.1:0", LocalCarrier(grant)) { proxy in
            let stream = try await dial(proxy)
            try await stream.write([5, 1, 0])
            #expect(try await stream.read(exactly: 2) == [5, 0])
            try await stream.write([5, 1, 0] + socksAddress(endpoint))
            return try await stream.readAll()
        }
        #expect(answer == [5, reply, 0, 1, 0, 0, 0, 0, 0, 0])
    }

    @Test(
        arguments: [
            ([5, 1, 1], [5, 0xFF]), ([5, 0], [5, 0xFF]), ([4, 1, 0, 80, 1, 2, 3, 4, 0], [0, 0x5B, 0, 0, 0, 0, 0, 0]),
            ([5, 1, 0, 5, 2, 0, 1, 127, 0, 0, 1, 0, 80], [5, 0, 5, 7, 0, 1, 0, 0, 0, 0, 0, 0]),
            ([5, 1, 0, 5, 9, 0, 1, 127, 0, 0, 1, 0, 80], [5, 0, 5, 7, 0, 1, 0, 0, 0, 0, 0, 0]),
            ([5, 1, 0, 5, 1, 0, 2, 127, 0, 0, 1, 0, 80], [5, 0, 5, 8, 0, 1, 0, 0, 0, 0, 0, 0]),
            ([5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, 0, 0], [5, 0, 5, 4, 0, 1, 0, 0, 0, 0, 0, 0]),
            ([5, 1, 0, 5, 1, 0, 3, 3, 97, 0, 98, 0, 80], [5, 0, 5, 4, 0, 1, 0, 0, 0, 0, 0, 0]),
            ([5, 1, 0, 5, 1, 0, 3, 0, 0, 80], [5, 0, 5, 4, 0, 1, 0, 0, 0, 0, 0, 0]),
            ([5, 1, 0, 5, 1, 0, 1, 0, 0, 0, 0, 0, 80], [5, 0, 5, 1, 0, 1, 0, 0, 0, 0, 0, 0]),
        ] as [([UInt8], [UInt8])])
    func `SOCKS that is not offered is refused as the standard says`(bytes: [UInt8], answer: [UInt8]) async throws {
        let told = try await forwarding(.dynamic, "127.0.0.1:0", LocalCarrier("forward")) { endpoint in
            let stream = try await dial(endpoint)
            try await stream.write(bytes)
            return try await stream.readAll()
        }
        #expect(told == answer)
    }

    @Test func `a byte at a time is understood as well`() async throws {
        let peer = try Peer("echo")
        let told = try await forwarding(.dynamic, "127.0.0.1:0", LocalCarrier("forward")) { endpoint in
            let stream = try await dial(endpoint)
            let port = [UInt8(peer.port >> 8), UInt8(peer.port & 0xFF)]
            for byte in [5, 1, 0, 5, 1, 0, 3, 9] + Array("localhost".utf8) + port + Array("hello".utf8) {
                try await stream.write([byte])
            }
            try await stream.finish()
            return try await stream.readAll()
        }
        #expect(told == [5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0] + Array("hello".utf8))
    }

    @Test func `a proxy with a password is for those who know it`() async throws {
        let peer = try Peer("http")
        let carrier = try LocalCarrier("forward")
        let url = "http://127.0.0.1:\(peer.port)/"
        try await forwarding(.dynamic, "127.0.0.1:0", carrier, credentials: "kith:secret") { endpoint in
            for proxy in ["socks5h://kith:secret@\(endpoint)", "http://kith:secret@\(endpoint)"] {
                #expect(try await curl(["--proxy", proxy, url]).text.hasPrefix("GET /"))
            }
            for proxy in ["socks5h://\(endpoint)", "socks5h://kith:wrong@\(endpoint)"] {
                #expect(try await curl(["--proxy", proxy, url]).status != 0)
            }
            for proxy in ["http://\(endpoint)", "http://kith:wrong@\(endpoint)", "http://kith:secretx@\(endpoint)"] {
                let answer = try await curl(["--proxy", proxy, "-o", "/dev/null", "-w", "%{http_code}", url])
                #expect(answer.text == "407")
            }
            let list = try await Client(carrier).call(Forward.List.self, Nothing())
            #expect(list.running.first?.rules.first?.rule.credentials == "…")
        }
    }

    @Test func `the far side may listen for a proxy of this side`() async throws {
        let peer = try Peer("http")
        let output = try await forwarding(.remote, "127.0.0.1:0", LocalCarrier("forward")) { endpoint in
            try await curl(["--socks5-hostname", "\(endpoint)", "http://localhost:\(peer.port)/back"])
        }
        #expect(output.text.hasPrefix("GET /back"), "\(output)")
    }

    @Test(arguments: [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET https://a/ HTTP/1.1\r\n\r\n", "CONNECT a HTTP/1.1\r\n\r\n",
        "CONNECT a:0 HTTP/1.1\r\n\r\n", "CONNECT *:80 HTTP/1.1\r\n\r\n", "CONNECT unix:/a HTTP/1.1\r\n\r\n",
        "CONNECT a:80 HTTP/2.0\r\n\r\n", "GET http://a/ HTTP/1.1\r\nA : b\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\n folded\r\n\r\n", "GET http://user@a/ HTTP/1.1\r\n\r\n",
        "POST http://a/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "POST http://a/ HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "POST http://a/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST http://a/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "GET http://a/\rb HTTP/1.1\r\n\r\n", "GET http://a\0/ HTTP/1.1\r\n\r\n", "GET  http://a/ HTTP/1.1\r\n\r\n",
        "GET http://[::1/ HTTP/1.1\r\n\r\n", "GET http:/// HTTP/1.1\r\n\r\n",
    ])
    func `a request that could mean two things means nothing`(text: String) async throws {
        let carrier = try LocalCarrier("forward")
        let told = try await forwarding(.dynamic, "127.0.0.1:0", carrier) { endpoint in
            let stream = try await dial(endpoint)
            try await stream.write(Array(text.utf8))
            return try await stream.readText()
        }
        #expect(told.hasPrefix("HTTP/1.1 400 "), "\(told)")
        #expect(carrier.lookups.value.isEmpty)
    }

    @Test func `what ends at the proxy is not passed on`() throws {
        let request = try HTTPProxyRequest(
            parsing: Array(
                """
                POST http://Example.org:8080?q#f HTTP/1.1\r
                Host: other\r
                Proxy-Authorization: Basic a2l0aDpzZWNyZXQ=\r
                Proxy-Connection: keep-alive\r
                Connection: keep-alive, X-Hop , content-length\r
                Keep-Alive: 5\r
                X-Hop: 1\r
                X-End: 2\r
                Content-Length: 3\r
                \r\n
                """.utf8))
        #expect(request.endpoint == .name("example.org", port: 8_080))
        #expect(request.credentials == "a2l0aDpzZWNyZXQ=")
        #expect(request.body == .length(3))
        #expect(
            String(decoding: request.head, as: UTF8.self) == """
                POST /?q HTTP/1.1\r
                Host: Example.org:8080\r
                X-End: 2\r
                Content-Length: 3\r
                Connection: close\r
                \r\n
                """)
    }

    @Test func `the end of a body is found however it is cut`() throws {
        var random = SeededRandom.fromEnvironment()
        print(random)
        for _ in 0..<500 {
            var body: [UInt8] = []
            for _ in 0..<Int.random(in: 0...5, using: &random) {
                let size = Int.random(in: 1...300, using: &random)
                body += Array("\(String(size, radix: 16))\(random.chance(0.3) ? ";x=1" : "")\r\n".utf8)
                body += random.bytes(size) + [13, 10]
            }
            body += Array("0\r\n\(random.chance(0.3) ? "Trailer: 1\r\n" : "")\r\n".utf8)
            let sent = body + Array("GET http://next/".utf8)
            var meter = HTTPBodyMeter(.chunked)
            var taken = 0
            var start = 0
            while start < sent.count {
                let end = min(sent.count, start + Int.random(in: 1...100, using: &random))
                taken += try meter.take(Array(sent[start..<end]))
                start = end
            }
            #expect(taken == body.count, "\(random)")
            #expect(meter.hasEnded)
        }
    }

    @Test func `random bytes never do more than fail`() {
        var random = SeededRandom.fromEnvironment()
        print(random)
        for _ in 0..<3_000 {
            let bytes =
                [5, UInt8.random(in: 0...3, using: &random)] + random.bytes(Int.random(in: 0...300, using: &random))
            if let (_, count) = try? SOCKS.request(bytes) { #expect(count <= bytes.count, "\(random)") }
            if let (_, count) = try? SOCKS.greeting(bytes) { #expect(count <= bytes.count, "\(random)") }
            if let (_, payload) = SOCKS.datagram(bytes) { #expect(payload.count < bytes.count, "\(random)") }
            _ = try? HTTPProxyRequest(parsing: bytes)
            var meter = HTTPBodyMeter(.chunked)
            _ = try? meter.take(bytes)
        }
    }
}

private func socksAddress(_ endpoint: Forward.Endpoint) -> [UInt8] {
    switch endpoint {
    case .address(let address): [1] + address.ip + [UInt8(address.port >> 8), UInt8(address.port & 0xFF)]
    case .name(let name, let port): [3, UInt8(name.utf8.count)] + Array(name.utf8) + [0, UInt8(port)]
    default: []
    }
}

/// Runs curl; it shows no progress, and takes no settings of this machine's.
func curl(_ arguments: [String]) async throws -> (status: Int32, text: String, error: String) {
    let process = try ChildProcess(
        "/usr/bin/env", ["curl", "-q", "-sS", "--noproxy", "", "--max-time", "60"] + arguments,
        output: .connected, errors: .connected)
    return await onThread {
        let text = process.output?.readDataToEndOfFile() ?? Data()
        let message = process.errors?.readDataToEndOfFile() ?? Data()
        return (
            process.waitUntilExit(), String(decoding: text, as: UTF8.self), String(decoding: message, as: UTF8.self)
        )
    }
}
