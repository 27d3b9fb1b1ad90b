import Foundation
import Kith
import KithIdentity
import KithAPI
import KithTesting
import KithWire
import Testing

@testable import KithWeb

/// Files that come and go by tickets.
@Suite(.timeLimit(.minutes(2))) struct WebTransferTests {
    @Test func `a file comes whole, in parts, and as a head alone, and is nothing that runs`() async throws {
        try await ServedPage.run { served in
            let page = try await served.signedIn()
            let bytes = (0..<1_000_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
            try served.folder.write(bytes, to: "a \"b\" é.bin")
            let path = served.folder.path + #"/a \"b\" é.bin"#
            let ticket = try await page.ticket("web.download", #"{"paths":["\#(path)"],"form":"file"}"#)
            #expect(ticket.size == 1_000_000)
            let whole = try #require(try await page.get(ticket.url))
            #expect(whole.status == 200 && whole.body == bytes)
            #expect(whole.headers["content-type"] == "application/octet-stream")
            #expect(whole.headers["content-security-policy"] == "sandbox; default-src 'none'")
            #expect(
                whole.headers["cache-control"] == "no-store" && whole.headers["x-content-type-options"] == "nosniff")
            #expect(
                whole.headers["content-disposition"]
                    == "attachment; filename=\"a _b_ _.bin\"; filename*=UTF-8''a%20%22b%22%20%C3%A9.bin")
            let part = try #require(try await page.get(ticket.url, "Range: bytes=10-19\n"))
            #expect(part.status == 206 && part.body == Array(bytes[10..<20]))
            #expect(part.headers["content-range"] == "bytes 10-19/1000000")
            let last = try #require(try await page.get(ticket.url, "Range: bytes=-5\n"))
            #expect(last.status == 206 && last.body == Array(bytes.suffix(5)))
            let beyond = try #require(try await page.get(ticket.url, "Range: bytes=1000000-\n"))
            #expect(beyond.status == 416 && beyond.headers["content-range"] == "bytes */1000000" && beyond.body.isEmpty)
            let head = try #require(try await page.get(ticket.url, "Range: bytes=0-0\n", method: "HEAD"))
            #expect(head.status == 206 && head.headers["content-length"] == "1")
            let tag = try #require(whole.headers["etag"])
            #expect(try await page.get(ticket.url, "Range: bytes=0-0\nIf-Range: \(tag)\n")?.status == 206)
            #expect(try await page.get(ticket.url, "Range: bytes=0-0\nIf-Range: \"other\"\n")?.status == 200)
            // A file that has changed is sent as it is now.
            try served.folder.write([1, 2, 3], to: "a \"b\" é.bin")
            let now = try #require(try await page.get(ticket.url))
            #expect(now.body == [1, 2, 3] && now.headers["etag"] != tag)
        }
    }

    @Test(arguments: [
        ("a.png", "image/png"), ("a.mp4", "video/mp4"), ("a.MP3", "audio/mpeg"), ("notes", "text/plain; charset=utf-8"),
        ("a.js", "text/plain; charset=utf-8"), ("a.svg", nil), ("a.html", nil), ("a.xml", nil), ("a.pdf", nil),
        ("a.xhtml", nil), ("a.htm", nil), ("a.svgz", nil), ("a.png.html", nil),
    ])
    func `only what cannot run is shown where it is`(_ name: String, _ type: String?) async throws {
        try await ServedPage.run { served in
            let page = try await served.signedIn()
            try served.folder.write(Array("<script>alert(1)</script>".utf8), to: name)
            let params = #"{"paths":["\#(served.folder.path)/\#(name)"],"inline":true}"#
            let answer = try #require(try await page.get(try await page.ticket("web/download", params).url))
            #expect(answer.headers["content-type"] == type ?? "application/octet-stream")
            #expect(answer.headers["content-disposition"]?.hasPrefix(type == nil ? "attachment;" : "inline;") == true)
            #expect(answer.headers["content-security-policy"]?.contains("sandbox") == true)
        }
    }

    @Test func `what cannot be had is said when the ticket is asked for`() async throws {
        try await ServedPage.run { served in
            let page = try await served.signedIn()
            #expect(await page.call("web/download", #"{"paths":["/no/such"]}"#).contains("-32001"))
            #expect(await page.call("web/download", #"{"paths":["/etc"]}"#).contains("form zip"))
            #expect(await page.call("web/download", #"{"paths":[]}"#).contains("-32602"))
            #expect(await page.call("web/download", #"{"paths":["/etc/../etc/passwd"]}"#).contains("-32602"))
            #expect(await page.call("web/download", #"{"paths":["/etc/passwd"],"on":"nobody"}"#).contains("-32001"))
            #expect(await page.call("web/download", "7").contains("-32602"))
            // The device's own key is nobody's to take.
            let key = served.folder.path + "/identity.sealed"
            #expect(
                await page.call("files.stat", #"{"path":"\#(key)"}"#).contains("error")
                    == (await page.call("web/download", #"{"paths":["\#(key)"]}"#).contains("error")))
        }
    }

    @Test func `a ticket is good for an hour, for what it was made for`() async throws {
        try await ServedPage.run { served in
            let page = try await served.signedIn()
            try served.folder.write([1], to: "a.bin")
            let download = try await page.ticket("web/download", #"{"paths":["\#(served.folder.path)/a.bin"]}"#).url
            let upload = try await page.ticket(
                "web/upload", #"{"folder":"\#(served.folder.path)","path":"b.bin","size":1}"#
            ).url
            #expect(try await page.get(upload.replacing("/u/", with: "/d/"))?.status == 404)
            #expect(try await page.put(download.replacing("/d/", with: "/u/"), [1])?.status == 404)
            #expect(try await page.get(download, "Sec-Fetch-Site: cross-site\n")?.status == 403)
            #expect(try await page.get(download, "Origin: http://evil.example\n")?.status == 403)
            #expect(try await page.get(download, "Sec-Fetch-Site: same-origin\n")?.status == 200)
            served.clock.advance(by: .seconds(3_599))
            #expect(try await page.get(download)?.status == 200)
            served.clock.advance(by: .seconds(1))
            #expect(try await page.get(download)?.status == 404)
            #expect(try await page.put(upload, [1])?.status == 404)
        }
    }

    @Test func `a file is sent in one piece or several, and is there when it is whole`() async throws {
        try await ServedPage.run { served in
            let page = try await served.signedIn()
            let bytes = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 13) }
            let params =
                #"{"folder":"\#(served.folder.path)","path":"new/deep/é.bin","size":300000,"conflict":"refuse","key":"k"}"#
            let first = try await page.ticket("web/upload", params)
            #expect(first.offset == 0)
            // The browser is gone in the middle.
            let web = try RawWeb(port: page.port)
            await web.send("PUT \(first.url) HTTP/1.1\nHost: localhost:\(page.port)\nContent-Length: 300000\n\n")
            await web.send(Array(bytes[..<100_000]))
            let part = served.folder.path + "/new/deep"
            func parts() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: part) }
            try await eventually { try size(of: part + "/" + (try parts()[0])) == 100_000 }
            web.endSending()
            _ = await web.rest()
            #expect(try parts().count == 1 && !(try parts().contains("é.bin")))

            let second = try await page.ticket("web/upload", params)
            #expect(second.offset == 100_000)
            #expect(try await page.put(second.url, [1], offset: 0)?.status == 409)
            let middle = try await page.put(second.url, Array(bytes[100_000..<200_000]), offset: 100_000)
            #expect(middle?.status == 200 && middle?.text == #"{"offset":200000,"size":300000}"#)
            #expect(!(try parts().contains("é.bin")))
            let last = try await page.put(second.url, Array(bytes[200_000...]), offset: 200_000)
            #expect(last?.status == 200 && last?.text == #"{"path":"\#(part)/é.bin","size":300000}"#)
            #expect(try parts() == ["é.bin"])
            #expect(try served.folder.bytes("new/deep/é.bin") == bytes)
        }
    }

    @Test func `of two who send one upload at once, one is refused`() async throws {
        try await ServedPage.run { served in
            let page = try await served.signedIn()
            let params = #"{"folder":"\#(served.folder.path)","path":"f","size":4,"key":"k"}"#
            let (first, second) = (
                try await page.ticket("web/upload", params), try await page.ticket("web/upload", params)
            )
            let web = try RawWeb(port: page.port)
            await web.send(
                Array(
                    "PUT \(first.url) HTTP/1.1\r\nHost: localhost:\(page.port)\r\nContent-Length: 4\r\n\r\nAA".utf8))
            // Until its first bytes are there.
            while try await page.ticket("web/upload", params).offset != 2 {}
            #expect(try await page.put(second.url, [0x42, 0x42], offset: 2)?.status == 409)
            await web.send(Array("AA".utf8))
            #expect(await web.answer()?.status == 200)
            #expect(try served.folder.bytes("f") == Array("AAAA".utf8))
        }
    }

    private func size(of path: String) throws -> Int {
        (try FileManager.default.attributesOfItem(atPath: path)[.size] as? NSNumber)?.intValue ?? 0
    }

    @Test func `a file that is in the way stays, is replaced, or gets a neighbour`() async throws {
        try await ServedPage.run { served in
            let page = try await served.signedIn()
            try served.folder.write([1], to: "a.tar.gz")
            func send(_ conflict: String, _ byte: UInt8) async throws -> RawWeb.Answer? {
                let params =
                    #"{"folder":"\#(served.folder.path)","path":"a.tar.gz","size":1,"conflict":"\#(conflict)","key":"\#(conflict)"}"#
                return try await page.put(try await page.ticket("web/upload", params).url, [byte])
            }
            await #expect(throws: KithError.self) { try await send("refuse", 2) }
            #expect(try served.folder.bytes("a.tar.gz") == [1])
            #expect(try await send("keep both", 3)?.text.contains("a.tar (2).gz") == true)
            #expect(try await send("keep both", 4)?.text.contains("a.tar (3).gz") == true)
            #expect(try served.folder.bytes("a.tar.gz") == [1] && served.folder.bytes("a.tar (3).gz") == [4])
            #expect(try await send("replace", 5)?.status == 200)
            #expect(try served.folder.bytes("a.tar.gz") == [5])
            // One that came while another was on its way.
            let params = #"{"folder":"\#(served.folder.path)","path":"late","size":1}"#
            let ticket = try await page.ticket("web/upload", params)
            try served.folder.write([7], to: "late")
            let answer = try await page.put(ticket.url, [8])
            #expect(answer?.status == 409 && answer?.text.contains("-32002") == true)
            #expect(try served.folder.bytes("late") == [7])
        }
    }

    @Test func `an empty file is a file, and one that is longer than was said is none`() async throws {
        try await ServedPage.run { served in
            let page = try await served.signedIn()
            let empty = try await page.ticket(
                "web/upload", #"{"folder":"\#(served.folder.path)","path":"empty","size":0}"#)
            #expect(try await page.put(empty.url, [])?.status == 200)
            #expect(try served.folder.bytes("empty").isEmpty)
            let long = try await page.ticket(
                "web/upload", #"{"folder":"\#(served.folder.path)","path":"long","size":3}"#)
            #expect(try await page.put(long.url, [1, 2, 3, 4])?.status == 400)
            #expect(throws: (any Error).self) { try served.folder.bytes("long") }
        }
    }

    @Test(arguments: ["../x", "a/../x", "/x", "", "a//b", "a/", ".", "..", "a/./b", "a\\u0000b"])
    func `a file is put nowhere but below its folder`(_ path: String) async throws {
        try await ServedPage.run { served in
            let page = try await served.signedIn()
            let answer = await page.call(
                "web/upload", #"{"folder":"\#(served.folder.path)","path":"\#(path)","size":1}"#)
            #expect(answer.contains("-32602"), "\(answer)")
        }
    }

    @Test func `another browser's upload of the same file is another one`() async throws {
        try await ServedPage.run { served in
            let (one, two) = (try await served.signedIn(), try await served.signedIn())
            let params = #"{"folder":"\#(served.folder.path)","path":"f","size":2,"key":"k"}"#
            let first = try await one.ticket("web/upload", params)
            #expect(try await one.put(first.url, [1])?.status == 200)
            #expect(try await one.ticket("web/upload", params).offset == 1)
            #expect(try await two.ticket("web/upload", params).offset == 0)
        }
    }
}

@Suite struct ByteRangeTests {
    @Test(
        arguments: [
            ([], 10, ByteRange.whole), (["bytes=0-"], 10, .part(0..<10)), (["bytes=0-0"], 10, .part(0..<1)),
            (["bytes=3-7"], 10, .part(3..<8)), (["bytes=3-700"], 10, .part(3..<10)), (["bytes=-3"], 10, .part(7..<10)),
            (["bytes=-30"], 10, .part(0..<10)), (["bytes=10-"], 10, .unsatisfiable), (["bytes=-0"], 10, .unsatisfiable),
            (["bytes=0-"], 0, .unsatisfiable), (["bytes=-1"], 0, .unsatisfiable), (["bytes=7-3"], 10, .whole),
            (["bytes=0-1,3-4"], 10, .whole), (["bytes=0-1", "bytes=3-4"], 10, .whole), (["lines=0-1"], 10, .whole),
            (["bytes=a-b"], 10, .whole), (["bytes=-"], 10, .whole), (["bytes=+1-2"], 10, .whole),
            (["BYTES=0-1"], 10, .part(0..<2)),
            (["bytes=0-99999999999999999999999"], 10, .part(0..<10)),
            (["bytes=99999999999999999999999-"], 10, .unsatisfiable),
            (["bytes=0-18446744073709551615"], UInt64.max, .part(0..<UInt64.max)),
        ] as [([String], UInt64, ByteRange)])
    func `a range is read as the RFC says`(_ fields: [String], _ size: UInt64, _ range: ByteRange) {
        #expect(ByteRange(fields, size: size) == range)
    }
}

@Suite struct DispositionTests {
    @Test(arguments: [
        ("a.txt", "attachment; filename=\"a.txt\""),
        ("100%.txt", "attachment; filename=\"100_.txt\"; filename*=UTF-8''100%25.txt"),
        ("a\r\nSet-Cookie: x=1", "attachment; filename=\"a__Set-Cookie: x=1\""),
        ("../../etc/passwd", "attachment; filename=\".._.._etc_passwd\""), ("..", "attachment; filename=\"file\""),
        ("photo\u{202E}gpj.exe", "attachment; filename=\"photo_gpj.exe\""),
        ("日本.txt", "attachment; filename=\"__.txt\"; filename*=UTF-8''%E6%97%A5%E6%9C%AC.txt"),
    ])
    func `a name is written so that it is one everywhere`(_ name: String, _ field: String) {
        #expect(WebHeaders.disposition(name, isInline: false) == field)
    }
}
