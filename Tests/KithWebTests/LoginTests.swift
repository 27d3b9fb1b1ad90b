import Crypto
import Foundation
import Kith
import KithIdentity
import KithAPI
import KithStore
import KithTesting
import KithWire
import Synchronization
import Testing

@testable import KithWeb

@Suite(.timeLimit(.minutes(2))) struct WebLoginTests {
    @Test func `a browser that a link lets in comes back without one, as the person of the device`() async throws {
        try await ServedPage.run { served in
            let key = Curve25519.Signing.PrivateKey()
            let link = try await served.link()
            let page = try await PageClient.open(port: link.port)
            let welcome = try await page.signIn(key, name: "Chromium on Linux", secret: link.secret)
            #expect(welcome.contains(#""name":"nas""#) && welcome.contains(#""welcome""#))
            #expect(await page.call("rpc.hello", #"{"protocol":2}"#).contains("capabilities"))
            #expect(await page.call("device.status").contains(served.device.id.description))
            #expect(await page.call("web/session").contains(#""name":"nas""#))

            let again = try await PageClient.open(port: link.port)
            #expect(try await again.signIn(key).contains("welcome"))
            let browsers = try await served.device.client.call(Web.Browsers.self, Nothing()).browsers
            #expect(browsers.map(\.name) == ["Chromium on Linux"] && browsers[0].isConnected)
            #expect(browsers[0].ends == served.wallClock.now + 12 * 3_600)
            let audit = try await served.audit().filter { $0.method == "web.login" }
            #expect(audit.map(\.device) == Array(repeating: "browser “Chromium on Linux”", count: 2))
        }
    }

    @Test func `the device proves to a page that it is the device`() async throws {
        struct Answer: Decodable {
            struct Welcome: Decodable {
                var key: String
                var signature: String
            }
            var welcome: Welcome
        }
        try await ServedPage.run { served in
            let key = Curve25519.Signing.PrivateKey()
            let link = try await served.link()
            let page = try await PageClient.open(port: link.port)
            let hello = try await page.hello()
            await page.send(
                try PageClient.login(
                    key, secret: link.secret, nonce: hello.nonce, device: hello.device, origin: page.origin))
            let answer = try JSONDecoder().decode(Answer.self, from: Data((await page.message() ?? "").utf8)).welcome
            let publicKey = Base64.encodeURL(key.publicKey.rawRepresentation)
            let text =
                "kith web welcome 1\nkith web 1\n\(hello.nonce)\n\(hello.device)\n\(page.origin)\n\(publicKey)\n"
                + PageClient.challenge
            let device = try Curve25519.Signing.PublicKey(
                rawRepresentation: try #require(Base64.decodeURL(answer.key)))
            #expect(Array(device.rawRepresentation) == served.device.id.bytes)
            #expect(device.isValidSignature(try #require(Base64.decodeURL(answer.signature)), for: Array(text.utf8)))
        }
    }

    @Test func `links lead to another name each time the door opens`() async throws {
        let folder = try TemporaryFolder()
        let pages = Mutex<Set<String>>([])
        for _ in 0..<2 {
            try await ServedPage.run(in: folder) { served in
                let link = try await served.link()
                let origin = String(link.page.dropLast())
                // A browser knows that name, and the door answers to it.
                let page = try await PageClient.open(port: link.port, origin: origin)
                #expect(try await page.signIn(.init(), secret: link.secret).contains("welcome"))
            }
            try await ServedPage.run(in: folder) { served in
                let page = try await served.link().page
                pages.withLock { _ = $0.insert(page) }
            }
        }
        #expect(pages.withLock(\.count) == 2)
    }

    @Test func `an old link takes nothing from a browser that may come in`() async throws {
        try await ServedPage.run { served in
            let key = Curve25519.Signing.PrivateKey()
            let link = try await served.link()
            for _ in 0..<3 {
                let page = try await PageClient.open(port: link.port)
                #expect(try await page.signIn(key, secret: link.secret).contains("welcome"))
            }
        }
    }

    @Test func `a browser more than there may be is told so`() async throws {
        try await ServedPage.run { served in
            try served.device.withStore { store throws(KithError) in
                for number in 0..<Store.browserLimit {
                    _ = try store.addBrowser(
                        key: [UInt8](repeating: UInt8(number), count: 32), name: "\(number)", ends: .max,
                        latestEnd: .max, now: served.wallClock.now)
                }
            }
            let link = try await served.link()
            let page = try await PageClient.open(port: link.port)
            #expect(try await page.signIn(.init(), secret: link.secret).contains("kith web forget"))
        }
    }

    @Test func `a browser is forgotten by its name, however it is written, or the beginning of it`() async throws {
        try await ServedPage.run { served in
            for name in ["Firefox on Linux", "Chromium on Linux"] { _ = try await served.signedIn(as: name) }
            let gone = try await served.device.client.call(Web.Forget.self, .init(browser: "firefox"))
            #expect(gone.browsers.map(\.name) == ["Firefox on Linux"])
        }
    }

    @Test func `nothing is said before a login but a nonce, the device's key and the version`() async throws {
        try await ServedPage.run { served in
            let page = try await PageClient.open(port: try await served.link().port)
            let hello = try #require(await page.message())
            let object = try #require(
                try JSONSerialization.jsonObject(with: Data(hello.utf8)) as? [String: [String: Any]])
            #expect(object.keys.sorted() == ["hello"])
            #expect(object["hello"]?.keys.sorted() == ["device", "nonce", "version"])
            #expect(Base64.decodeURL(object["hello"]?["nonce"] as? String ?? "")?.count == 32)
        }
    }

    @Test func `a link is good once`() async throws {
        try await ServedPage.run { served in
            let link = try await served.link()
            let first = try await PageClient.open(port: link.port)
            #expect(try await first.signIn(.init(), secret: link.secret).contains("welcome"))
            let second = try await PageClient.open(port: link.port)
            #expect(try await second.signIn(.init(), secret: link.secret).contains(#""code":"wrong""#))
            #expect(await second.message() == nil)
        }
    }

    @Test func `a link is good for five minutes`() async throws {
        try await ServedPage.run { served in
            let link = try await served.link()
            served.clock.advance(by: .seconds(299))
            let first = try await PageClient.open(port: link.port)
            #expect(try await first.signIn(.init(), secret: link.secret).contains("welcome"))
            let other = try await served.link()
            served.clock.advance(by: .seconds(300))
            let second = try await PageClient.open(port: other.port)
            let answer = try await second.signIn(.init(), secret: other.secret)
            #expect(answer.contains(#""code":"wrong""#) && answer.contains("kith web"))
        }
    }

    @Test func `wrong secrets get a verdict a second, and keep no right one out`() async throws {
        try await ServedPage.run { served in
            let link = try await served.link()
            var verdicts: [Bool] = []
            for _ in 0..<20 {
                let page = try await PageClient.open(port: link.port)
                let answer = try await page.signIn(.init(), secret: [UInt8](repeating: 7, count: 16))
                verdicts.append(answer.contains(#""code":"wrong""#))
                #expect(verdicts.last == true || answer.contains(#""code":"crowded""#))
            }
            #expect(verdicts == [true] + Array(repeating: false, count: 19))
            #expect(try await served.audit().count { $0.decision == "denied" } == 1)
            let page = try await PageClient.open(port: link.port)
            #expect(try await page.signIn(.init(), secret: link.secret).contains("welcome"))
            served.clock.advance(by: .seconds(1))
            let next = try await PageClient.open(port: link.port)
            #expect(try await next.signIn(.init(), secret: link.secret).contains(#""code":"wrong""#))
        }
    }

    @Test func `a login that is played again, or made for another device or origin, is wrong`() async throws {
        try await ServedPage.run { served in
            let key = Curve25519.Signing.PrivateKey()
            let link = try await served.link()
            let first = try await PageClient.open(port: link.port)
            let hello = try await first.hello()
            let login = try PageClient.login(
                key, secret: link.secret, nonce: hello.nonce, device: hello.device, origin: first.origin)
            await first.send(login)
            #expect(await first.message()?.contains("welcome") == true)

            func answer(_ make: (PageClient.Hello.Content) throws -> String) async throws -> String {
                let page = try await PageClient.open(port: link.port)
                await page.send(try make(try await page.hello()))
                return await page.message() ?? ""
            }
            let wrong = #""code":"wrong""#
            #expect(try await answer { _ in login }.contains(wrong))
            let origin = first.origin
            #expect(
                try await answer {
                    try PageClient.login(key, nonce: $0.nonce, device: "another", origin: origin)
                }.contains(wrong))
            #expect(
                try await answer {
                    try PageClient.login(
                        key, nonce: $0.nonce, device: $0.device, origin: "http://localhost:1")
                }.contains(wrong))
            #expect(
                try await answer { hello in
                    // Another's key, with this one's signature.
                    let other = Base64.encodeURL(Curve25519.Signing.PrivateKey().publicKey.rawRepresentation)
                    let own = Base64.encodeURL(key.publicKey.rawRepresentation)
                    return try PageClient.login(key, nonce: hello.nonce, device: hello.device, origin: origin)
                        .replacing(own, with: other)
                }.contains(wrong))
            for nonsense in [
                "", "{}", "[]", "null", #"{"login":{}}"#, #"{"login":{"key":"","signature":""}}"#, "\u{0}",
            ] {
                #expect(try await answer { _ in nonsense }.contains(wrong), "\(nonsense)")
            }
        }
    }

    @Test func `an unknown key is told what to do, and one whose right has ended that it has`() async throws {
        try await ServedPage.run { served in
            let key = Curve25519.Signing.PrivateKey()
            let link = try await served.link()
            let stranger = try await PageClient.open(port: link.port)
            #expect(try await stranger.signIn(key).contains(#""code":"unknown""#))
            let page = try await PageClient.open(port: link.port)
            _ = try await page.signIn(key, secret: link.secret)
            served.wallClock.advance(by: 12 * 3_600)
            let late = try await PageClient.open(port: link.port)
            #expect(try await late.signIn(key).contains(#""code":"expired""#))
            #expect(try await served.device.client.call(Web.Browsers.self, Nothing()).browsers.isEmpty)
        }
    }

    @Test func `use prolongs a browser's right, but not beyond a week`() async throws {
        try await ServedPage.run { served in
            let key = Curve25519.Signing.PrivateKey()
            _ = try await served.signedIn(key)
            let port = try await served.link().port
            for _ in 0..<16 {
                served.wallClock.advance(by: 10 * 3_600)
                let page = try await PageClient.open(port: port)
                #expect(try await page.signIn(key).contains("welcome"))
            }
            served.wallClock.advance(by: 9 * 3_600)
            let page = try await PageClient.open(port: port)
            #expect(try await page.signIn(key).contains(#""code":"expired""#))
        }
    }

    @Test func `who is forgotten is cut off, with its tickets, and comes back by a link alone`() async throws {
        try await ServedPage.run { served in
            let key = Curve25519.Signing.PrivateKey()
            let page = try await served.signedIn(as: "Firefox", key)
            let other = try await served.signedIn(as: "Other")
            try served.folder.write(Array("hello".utf8), to: "file.txt")
            let path = served.folder.path + "/file.txt"
            let download = try await page.ticket("web/download", #"{"paths":["\#(path)"]}"#)
            let upload = try await page.ticket(
                "web/upload", #"{"folder":"\#(served.folder.path)","path":"new.txt","size":3}"#)
            #expect(try await page.get(download.url)?.status == 200)

            let gone = try await served.device.client.call(Web.Forget.self, .init(browser: "Firefox"))
            #expect(gone.browsers.map(\.name) == ["Firefox"])
            #expect(await page.message() == nil)
            #expect(try await page.get(download.url)?.status == 404)
            #expect(try await page.put(upload.url, [1, 2, 3])?.status == 404)
            let back = try await PageClient.open(port: page.port)
            #expect(try await back.signIn(key).contains(#""code":"unknown""#))
            #expect(await other.call("device.status").contains("nas"))
            #expect(try await served.audit().contains { $0.method == "web.forget" && $0.device == "browser “Firefox”" })
        }
    }

    @Test func `a page that signs out is not known any more`() async throws {
        try await ServedPage.run { served in
            let key = Curve25519.Signing.PrivateKey()
            let page = try await served.signedIn(key)
            #expect(await page.call("web/logout").contains("result"))
            #expect(await page.message() == nil)
            let back = try await PageClient.open(port: page.port)
            #expect(try await back.signIn(key).contains(#""code":"unknown""#))
        }
    }

    @Test func `another port ends the right of all browsers`() async throws {
        try await ServedPage.run { served in
            let page = try await served.signedIn()
            var port = page.port
            // Other programs have ports, too.
            while port == page.port {
                let other = UInt16.random(in: 20_000..<30_000)
                if let link = try? await served.link(port: other) { port = link.port }
            }
            #expect(await page.message() == nil)
            #expect(try await served.device.client.call(Web.Browsers.self, Nothing()).browsers.isEmpty)
            #expect(try await served.link().port == port)
        }
    }

    @Test func `a browser's name shows nothing that hides, and has a number where another has it`() async throws {
        #expect(WebLogin.name("  a\u{202E}b\n\tc  ") == "abc")
        #expect(WebLogin.name("") == "browser")
        #expect(WebLogin.name(String(repeating: "x", count: 500)).count == 48)
        try await ServedPage.run { served in
            _ = try await served.signedIn(as: "Firefox")
            _ = try await served.signedIn(as: "Firefox")
            let names = try await served.device.client.call(Web.Browsers.self, Nothing()).browsers.map(\.name)
            #expect(names.sorted() == ["Firefox", "Firefox 2"])
        }
    }
}
