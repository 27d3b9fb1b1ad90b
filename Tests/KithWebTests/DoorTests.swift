import CKithPage
import Crypto
import Foundation
import Kith
import KithIdentity
import NIOCore
import KithAPI
import KithTesting
import KithWire
import Testing

@testable import KithWeb

/// What anybody may send to the door, and what comes of it.
@Suite(.timeLimit(.minutes(2))) struct WebDoorTests {
    @Test func `the page's files come with what keeps others out of it`() async throws {
        try await ServedPage.run { served in
            let port = try await served.link().port
            let answer = try #require(try await RawWeb.ask("GET / HTTP/1.1\nHost: localhost:\(port)\n\n", port: port))
            #expect(answer.status == 200 && answer.headers["content-type"] == "text/html; charset=utf-8")
            let policy = answer.headers["content-security-policy"] ?? ""
            for part in [
                "default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'",
                "require-trusted-types-for 'script'", "trusted-types 'none'", "form-action 'none'",
            ] { #expect(policy.contains(part)) }
            #expect(!policy.contains("unsafe"))
            #expect(answer.headers["x-content-type-options"] == "nosniff")
            #expect(answer.headers["referrer-policy"] == "no-referrer")
            #expect(answer.headers["cross-origin-opener-policy"] == "same-origin")
            #expect(answer.headers["cross-origin-resource-policy"] == "same-origin")
            #expect(answer.headers["set-cookie"] == nil && answer.headers["access-control-allow-origin"] == nil)
            let tag = try #require(answer.headers["etag"])
            let again = try await RawWeb.ask(
                "GET / HTTP/1.1\nHost: localhost:\(port)\nIf-None-Match: \(tag)\n\n", port: port)
            #expect(again?.status == 304)
            let head = try await RawWeb.ask("HEAD /index.html HTTP/1.1\nHost: [::1]:\(port)\n\n", port: port)
            #expect(head?.status == 200 && head?.headers["content-length"] == String(answer.body.count))
        }
    }

    @Test func `every file of the page's list is in the program`() throws {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("Sources/CKithPage/Page")
        let listed = try String(contentsOf: folder.appendingPathComponent("FILES"), encoding: .utf8)
            .split(separator: "\n").map(String.init).filter { !$0.hasPrefix("#") }
        let files = PageFiles()
        for path in listed {
            let file = try #require(files.file(path), "\(path) is not in the program: run scripts/page")
            #expect(
                try Array(Data(contentsOf: folder.appendingPathComponent(path))) == Array(file.bytes.readableBytesView))
            #expect(MediaType.ofPage(path) != "application/octet-stream", "\(path) has a type that is not known")
        }
        #expect(kith_page_count() == listed.count && listed.contains("index.html"))
    }

    @Test func `a request for another name, for none or for two is not answered`() async throws {
        try await ServedPage.run { served in
            let port = try await served.link().port
            func status(_ hosts: String..., path: String = "/", version: String = "1.1") async throws -> Int? {
                let fields = hosts.map { "Host: \($0)\n" }.joined()
                return try await RawWeb.ask("GET \(path) HTTP/\(version)\n\(fields)\n", port: port)?.status
            }
            for host in ["localhost", "127.0.0.1", "[::1]", "nas.localhost", "LOCALHOST"] {
                #expect(try await status("\(host):\(port)") == 200, "\(host)")
            }
            #expect(try await status() == 400)
            #expect(try await status(version: "1.0") == 400)
            #expect(try await status("localhost:\(port)", version: "1.0") == 200)
            #expect(try await status("localhost:\(port)", "localhost:\(port)") == 400)
            for host in [
                "localhost", "localhost:1", "evil.example:\(port)", "localhost.evil.example:\(port)",
                "127.0.0.2:\(port)",
                "localhost.:\(port)", "laptop.localhost:\(port)", "0.0.0.0:\(port)", "localhost:0\(port)", "",
                "user@localhost:\(port)", "localhost:\(port)/", "[::ffff:127.0.0.1]:\(port)",
            ] {
                let answer = try await status(host)
                #expect(answer == 421 || answer == 400, "\(host): \(answer ?? 0)")
            }
            for path in ["/d/AAAAAAAAAAAAAAAAAAAAAA", "/ws", "/u/AAAAAAAAAAAAAAAAAAAAAA"] {
                #expect(try await status("evil.example:\(port)", path: path) == 421)
            }
        }
    }

    @Test func `a service worker that another program left is told to go`() async throws {
        try await ServedPage.run { served in
            let port = try await served.link().port
            let answer = try await RawWeb.ask(
                "GET /sw.js HTTP/1.1\nHost: localhost:\(port)\nService-Worker: script\n\n", port: port)
            #expect(answer?.status == 200 && answer?.text.contains("unregister") == true)
            #expect(answer?.headers["content-type"] == "text/javascript; charset=utf-8")
        }
    }

    @Test(arguments: [
        "GET / HTTP/1.1\nHost: localhost:PORT\nTransfer-Encoding: chunked, identity\n\nbytes of no form",
        "GET / HTTP/1.1\nHost: localhost:PORT\nContent-Length: 10\n\nabc",
        "PUT /u/AAAAAAAAAAAAAAAAAAAAAA HTTP/1.1\nHost: localhost:PORT\nContent-Length: 10\n\nabc",
    ])
    func `a request that breaks off or makes no sense ends its connection alone`(_ request: String) async throws {
        try await ServedPage.run { served in
            let port = try await served.link().port
            let text = request.replacing("PORT", with: String(port)).replacing("\n", with: "\r\n")
            let head = try #require(text.range(of: "\r\n\r\n")).upperBound
            for _ in 0..<50 {
                let web = try RawWeb(port: port)
                // What comes after the head meets the answer to it.
                await web.send(Array(text[..<head].utf8))
                await web.send(Array(text[head...].utf8))
                web.endSending()
                _ = await web.rest()
            }
            #expect(try await RawWeb.ask("GET / HTTP/1.1\nHost: localhost:\(port)\n\n", port: port)?.status == 200)
        }
    }

    @Test func `no other URL answers`() async throws {
        try await ServedPage.run { served in
            let port = try await served.link().port
            func status(_ line: String) async throws -> Int? {
                try await RawWeb.ask("\(line) HTTP/1.1\nHost: localhost:\(port)\n\n", port: port)?.status
            }
            for path in [
                "/index.html/", "//index.html", "/../index.html", "/%2e%2e/kith.sqlite", "/FILES", "/api", "/d/",
                "/d/short", "/d/AAAAAAAAAAAAAAAAAAAAAB", "/d/AAAAAAAAAAAAAAAAAAAAAA/", "/d/AAAAAAAAAAAAAAAAAAAAA+",
                "/d/AAAAAAAAAAAAAAAAAAAAAA", "/.well-known/x",
            ] {
                #expect(try await status("GET \(path)") == 404, "\(path)")
            }
            #expect(try await status("GET http://localhost:\(port)/") == 400)
            #expect(try await status("POST /") == 405)
            #expect(try await status("OPTIONS /") == 405)
            #expect(try await status("POST /d/AAAAAAAAAAAAAAAAAAAAAA") == 405)
            #expect(try await status("GET /u/AAAAAAAAAAAAAAAAAAAAAA") == 405)
            #expect(try await status("GET /ws") == 403)
        }
    }

    @Test func `a WebSocket of another page, or of nobody's, is refused before it is one`() async throws {
        try await ServedPage.run { served in
            let port = try await served.link().port
            func status(_ origin: String?, host: String? = nil) async throws -> Int? {
                try await RawWeb.ask(PageClient.request(port: port, host: host, origin: origin), port: port)?.status
            }
            #expect(try await status("http://localhost:\(port)") == 101)
            #expect(try await status("http://nas.localhost:\(port)", host: "nas.localhost:\(port)") == 101)
            for origin in [
                nil, "null", "", "http://evil.example", "http://localhost", "http://localhost:1",
                "https://localhost:\(port)", "http://localhost:\(port)/", "http://localhost:\(port).evil.example",
                "http://127.0.0.1:\(port)", "http://localhost:\(port), http://evil.example",
            ] {
                #expect(try await status(origin) == 403, "\(origin ?? "none")")
            }
            #expect(try await status("http://evil.example:\(port)", host: "evil.example:\(port)") == 421)
            let two = PageClient.request(port: port, origin: "http://localhost:\(port)\nOrigin: http://evil.example")
            #expect(try await RawWeb.ask(two, port: port)?.status == 403)
            let plain = "GET /ws HTTP/1.1\nHost: localhost:\(port)\nOrigin: http://localhost:\(port)\n\n"
            #expect(try await RawWeb.ask(plain, port: port)?.status == 426)
            let old = PageClient.request(port: port, origin: "http://localhost:\(port)").replacing(": 13", with: ": 8")
            #expect(try await RawWeb.ask(old, port: port)?.status == 426)
        }
    }

    @Test func `lengths that do not agree, and heads without end, end the connection`() async throws {
        try await ServedPage.run { served in
            let port = try await served.link().port
            let head = "Host: localhost:\(port)\n"
            for request in [
                "POST / HTTP/1.1\n\(head)Content-Length: 5\nTransfer-Encoding: chunked\n\n0\n\nGET / HTTP/1.1\n\(head)\n",
                "POST / HTTP/1.1\n\(head)Content-Length: 5\nContent-Length: 6\n\nGET / HTTP/1.1\n\(head)\n",
                "GET / HTTP/1.1\n\(head)X: \(String(repeating: "x", count: 10_000))\n\n",
                "GET / HTTP/1.1\n\(head)\((0..<100).map { "X\($0): y\n" }.joined())\n",
                "GET / HTTP/1.1\n\(head)\((0..<40).map { "X\($0): \(String(repeating: "y", count: 2_000))\n" }.joined())\n",
                "GET /\(String(repeating: "x", count: 20_000)) HTTP/1.1\n\(head)\n",
                "GET / HTTP/1.1\n\(head)X: a\u{0}b\n\n",
                "nonsense\n\n",
            ] {
                let web = try RawWeb(port: port)
                await web.send(request)
                let answers = String(decoding: await web.rest(), as: UTF8.self)
                #expect(!answers.contains("HTTP/1.1 200"), "\(request.prefix(80)): \(answers.prefix(200))")
                #expect(answers.components(separatedBy: "HTTP/1.1 ").count <= 2)
            }
        }
    }

    @Test func `of those that have proven nothing 64 are there, and whoever has signed in stays`() async throws {
        try await ServedPage.run { served in
            let page = try await served.signedIn()
            let idle = try (0..<64).map { _ in try RawWeb(port: page.port) }
            // All of them are there when the last is answered.
            await idle[63].send("GET / HTTP/1.1\nHost: localhost:\(page.port)\n\n")
            #expect(await idle[63].answer()?.status == 200)
            let next = try RawWeb(port: page.port)
            await next.send("GET / HTTP/1.1\nHost: localhost:\(page.port)\n\n")
            #expect(await next.answer()?.status == 200)
            #expect(await idle[0].rest().isEmpty)
            #expect(await page.call("device.status").contains("nas"))
        }
    }

    @Test func `a head that does not come in ten seconds is not waited for`() async throws {
        try await ServedPage.run { served in
            let port = try await served.link().port
            let (slow, begun) = (try RawWeb(port: port), ContinuousClock.now)
            await slow.send("GET / HTTP/1.1\nHost: ")
            _ = await slow.rest()
            let time = begun.duration(to: .now)
            #expect(time > .seconds(9) && time < .seconds(60), "\(time)")
        }
    }

    @Test func `a page that does not sign in is not waited for`() async throws {
        try await ServedPage.run { served in
            let page = try await PageClient.open(port: try await served.link().port)
            _ = try await page.hello()
            try await eventually { served.clock.sleeperCount > 0 }
            served.clock.advance(by: PageConnection.loginTime)
            #expect(await page.message() == nil)
        }
    }

    @Test func `the device's way out of the door is that of its service`() async throws {
        try await ServedPage.run { served in
            let page = try await served.signedIn()
            await served.service.stop()
            #expect(await page.message() == nil)
            #expect(throws: KithError.self) { try RawWeb(port: page.port) }
            #expect(try await served.link().port == page.port)
        }
    }

    @Test func `a port that another program has is named`() async throws {
        try await ServedPage.run { first in
            let port = try await first.link().port
            try await ServedPage.run { second in
                await #expect { try await second.link(port: port) } throws: { error in
                    (error as? KithError)?.code == .conflict
                        && (error as? KithError)?.message.contains("kith web --port") == true
                }
            }
        }
    }
}
