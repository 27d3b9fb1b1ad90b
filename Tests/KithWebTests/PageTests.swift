import Foundation
import Kith
import KithIdentity
import KithAPI
import KithTesting
import KithWire
import Testing

@testable import KithWeb

/// What a page that is signed in says, and how.
@Suite(.timeLimit(.minutes(2))) struct WebPageTests {
    @Test func `a method of the table is called by name, and a stream comes and goes`() async throws {
        try await ServedPage.run { served in
            let page = try await served.signedIn()
            #expect(await page.call("files.list", #"{"path":"\#(served.folder.path)"}"#).contains("entries"))
            #expect(await page.call("no.such").contains("-32601"))
            #expect(await page.call("web/nothing").contains("-32601"))
            await page.send(
                #"{"jsonrpc":"2.0","id":"s","method":"files.find","params":{"path":"\#(served.folder.path)/"}}"#)
            var lines: [String] = []
            while let line = await page.message() {
                lines.append(line)
                if line.contains("$/end") { break }
            }
            #expect(lines.contains { $0.contains("$/message") })
        }
    }

    @Test func `line feeds in a message are white space`() async throws {
        try await ServedPage.run { served in
            let page = try await served.signedIn()
            await page.send("{\n\"jsonrpc\":\"2.0\",\r\n\"id\":7,\n\"method\":\"device.status\"\n}")
            #expect(await page.message()?.contains("\"id\":7") == true)
        }
    }

    @Test func `a raw stream is refused, and the page goes on`() async throws {
        try await ServedPage.run { served in
            let page = try await served.signedIn()
            let answer = await page.call("files.find", #"{"path":"/"}"#, more: #","raw":true"#)
            #expect(answer.contains("-32601"))
            #expect(await page.call("device.status").contains("nas"))
        }
    }

    @Test(arguments: [
        #"{"jsonrpc":"2.0","id":1,"method":"web.link"}"#, #"{"jsonrpc":"2.0","id":1,"method":"w\u0065b/link"}"#,
        #"{"jsonrpc":"2.0","id":1,"method":"files.find","params":{"path":"/"},"r\u0061w":true}"#,
        #"[{"jsonrpc":"2.0","id":1,"method":"web.link"}]"#,
        #"[{"jsonrpc":"2.0","id":1,"method":"files.find","params":{"path":"/"},"raw":true}]"#,
    ])
    func `a page lets nobody in, and has nothing raw, however it asks`(_ message: String) async throws {
        try await ServedPage.run { served in
            let page = try await served.signedIn()
            await page.send(message)
            let answer = await page.message() ?? ""
            #expect(answer.contains("error") && !answer.contains("#"), "\(answer)")
            #expect(await page.call("device.status").contains("nas"))
        }
    }

    @Test func `messages come in parts, with a ping between them, which is answered`() async throws {
        try await ServedPage.run { served in
            let page = try await served.signedIn()
            let text = Array(#"{"jsonrpc":"2.0","id":1,"method":"device.status"}"#.utf8)
            await page.web.send(PageClient.frame(Array(text[..<10]), isFinal: false))
            await page.web.send(PageClient.frame([1, 2, 3], opcode: 9))
            await page.web.send(PageClient.frame(Array(text[10...]), opcode: 0))
            let pong = try #require(await page.frame())
            #expect(pong.opcode == 10 && pong.payload == [1, 2, 3])
            #expect(await page.message()?.contains("nas") == true)
        }
    }

    @Test func `a page that does not wait for the upgrade is understood`() async throws {
        try await ServedPage.run { served in
            let port = try await served.link().port
            let web = try RawWeb(port: port)
            let request = PageClient.request(port: port, origin: "http://localhost:\(port)")
            await web.send(
                Array(request.replacing("\n", with: "\r\n").utf8) + PageClient.frame(Array("{}".utf8))
                    + PageClient.frame([], opcode: 9))
            #expect(await web.answer()?.status == 101)
            let all = String(decoding: await web.rest(), as: UTF8.self)
            #expect(all.contains("hello") && all.contains(#""code":"wrong""#))
        }
    }

    @Test(arguments: [
        ("unmasked", PageClient.frame(Array("{}".utf8), isMasked: false)),
        ("binary", PageClient.frame([1, 2, 3], opcode: 2)),
        ("reserved bits", PageClient.frame(Array("{}".utf8), reserved: 4)),
        ("no such kind", PageClient.frame([], opcode: 3)),
        ("the rest of nothing", PageClient.frame([], opcode: 0)),
        ("a message inside another", PageClient.frame([0x7B], isFinal: false) + PageClient.frame([0x7B])),
        ("not UTF-8", PageClient.frame([0x22, 0xC3, 0x28, 0x22])),
        ("a control frame in parts", PageClient.frame([], opcode: 9, isFinal: false)),
        ("a long control frame", PageClient.frame([UInt8](repeating: 0, count: 126), opcode: 9)),
        ("announced as too long", [0x81, 0xFF, 0, 0, 0, 0, 0, 0x40, 0, 1, 1, 2, 3, 4]),
        ("announced as endless", [0x81, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1, 2, 3, 4]),
    ])
    func `a frame against the rules ends the connection`(_ name: String, _ frame: [UInt8]) async throws {
        try await ServedPage.run { served in
            let page = try await served.signedIn()
            await page.web.send(frame)
            while let next = await page.frame() { #expect(next.opcode == 8, "\(name)") }
        }
    }

    @Test func `a message in endless parts ends the connection, also of empty ones`() async throws {
        try await ServedPage.run { served in
            let page = try await served.signedIn()
            await page.web.send(PageClient.frame([0x7B], isFinal: false))
            for _ in 0..<PageConnection.partLimit {
                guard await page.web.send(PageClient.frame([], opcode: 0, isFinal: false)) else { break }
            }
            while let next = await page.frame() { #expect(next.opcode == 8) }

            let large = try await served.signedIn()
            let part = PageClient.frame([UInt8](repeating: 0x20, count: 1 << 20), opcode: 0, isFinal: false)
            await large.web.send(PageClient.frame([0x7B], isFinal: false))
            for _ in 0..<5 { guard await large.web.send(part) else { break } }
            while let next = await large.frame() { #expect(next.opcode == 8) }
        }
    }

    @Test func `who has not signed in sends no more than that takes`() async throws {
        try await ServedPage.run { served in
            let page = try await PageClient.open(port: try await served.link().port)
            _ = try await page.hello()
            // The beginning of a frame that would be allowed later.
            await page.web.send([0x81, 0xFF, 0, 0, 0, 0, 0, 0x20, 0, 0, 1, 2, 3, 4])
            var isGone = false
            for _ in 0..<64 where !isGone { isGone = await !page.web.send([UInt8](repeating: 0, count: 1 << 20)) }
            #expect(isGone)
        }
    }

    @Test func `a page that does not read is not read from, and others go on`() async throws {
        try await ServedPage.run { served in
            let (page, other) = (try await served.signedIn(), try await served.signedIn())
            let call = PageClient.frame(
                Array(#"{"jsonrpc":"2.0","id":1,"method":"api.describe"}"#.utf8))
            let many = Array(repeatElement(call, count: 1_000).joined())
            // The answers would be gigabytes: long before they are made the page cannot send any more.
            let sender = Task {
                var sent = 0
                while !Task.isCancelled, await page.web.send(many) { sent += 1 }
                return sent
            }
            for _ in 0..<50 { #expect(await other.call("device.status").contains("nas")) }
            sender.cancel()
            #expect(await sender.value < 1_000)
        }
    }

    @Test func `a page that is silent is pinged, and then gone`() async throws {
        try await ServedPage.run { served in
            let page = try await served.signedIn()
            #expect(await page.call("device.status").contains("nas"))
            for _ in 0..<2 {
                try await eventually { served.clock.sleeperCount > 0 }
                served.clock.advance(by: PageConnection.pingInterval)
                #expect(await page.frame()?.opcode == 9)
            }
            try await eventually { served.clock.sleeperCount > 0 }
            served.clock.advance(by: PageConnection.pingInterval)
            #expect(await page.frame() == nil)
        }
    }

    @Test func `a page that stays open keeps its right, until that ends for good`() async throws {
        try await ServedPage.run { served in
            let page = try await served.signedIn()
            #expect(await page.call("device.status").contains("nas"))
            served.wallClock.advance(by: 7 * 86_400)
            while true {
                try await eventually { served.clock.sleeperCount > 0 }
                served.clock.advance(by: PageConnection.pingInterval)
                guard let frame = await page.frame(), frame.opcode == 9 else { break }
                await page.web.send(PageClient.frame([], opcode: 10))
                // It has come when something after it has been answered.
                #expect(await page.call("web/session") != "")
            }
            #expect(try await served.device.client.call(Web.Browsers.self, Nothing()).browsers.isEmpty)
        }
    }
}
