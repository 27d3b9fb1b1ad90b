import KithReach
import Testing

@Suite("Proxy settings") struct ProxySettingsTests {
    private static let relay = "https://relay.example.org"

    private func settings(_ environment: [String: String]) -> ProxySettings {
        ProxySettings { environment[$0] }
    }

    /// The proxy by which a relay is reached, `direct`, or what is wrong.
    private func way(_ environment: [String: String], to url: String = relay) throws -> String {
        switch settings(environment).route(to: try #require(RelayAddress(url))) {
        case .direct: "direct"
        case .through(let proxy): "\(proxy)"
        case .impossible(let problem): "\(problem)"
        @unknown default: "?"
        }
    }

    @Test func `variables count in curl's order, and empty ones do not`() throws {
        #expect(try way([:]) == "direct")
        #expect(try way(["HTTPS_PROXY": "http://one:3128"]) == "http://one:3128")
        #expect(try way(["https_proxy": "two:8080", "HTTPS_PROXY": "http://one:3128"]) == "http://two:8080")
        #expect(try way(["https_proxy": "", "HTTPS_PROXY": "one:1"]) == "http://one:1")
        #expect(try way(["ALL_PROXY": "one:1", "all_proxy": "two:1"]) == "http://two:1")
        #expect(try way(["ALL_PROXY": "one:1", "HTTPS_PROXY": "two:1"]) == "http://two:1")
        #expect(try way(["http_proxy": "one:1", "HTTP_PROXY": "one:1"]) == "direct")
    }

    @Test func `a relay without TLS has the lower-case variable only`() throws {
        let plain = "http://relay.example.org"
        #expect(try way(["http_proxy": "one:1"], to: plain) == "http://one:1")
        #expect(try way(["HTTP_PROXY": "one:1"], to: plain) == "direct")
        #expect(try way(["HTTPS_PROXY": "one:1"], to: plain) == "direct")
        #expect(try way(["HTTP_PROXY": "one:1", "ALL_PROXY": "two:1"], to: plain) == "http://two:1")
    }

    @Test(arguments: ["https://127.0.0.1:8443", "http://[::1]:80", "https://localhost", "https://a.localhost"])
    func `a relay on this machine is reached without, unless asked otherwise`(url: String) throws {
        let environment = ["ALL_PROXY": "proxy:3128"]
        #expect(try way(environment, to: url) == "direct")
        var settings = settings(environment)
        settings.includesLoopback = true
        #expect(settings.route(to: try #require(RelayAddress(url))) == .through(try ProxyServer("proxy:3128")))
    }

    @Test(arguments: [
        ("*", true), ("relay.example.org", true), ("RELAY.Example.org.", true), (".example.org", true),
        ("example.org", true), ("*.example.org", true), ("a.test, org", true), ("a.test b.test example.org", true),
        ("elay.example.org", false), ("other.relay.example.org", false), ("example.com", false), ("", false),
        ("relay.example.org:443", false), ("192.168.0.0/16", false), ("<local>;,,::", false),
    ])
    func `names are excepted as curl does it`(list: String, isDirect: Bool) throws {
        #expect(try (way(["HTTPS_PROXY": "p:1", "NO_PROXY": list]) == "direct") == isDirect)
        #expect(
            try (way(["HTTPS_PROXY": "p:1", "no_proxy": list, "NO_PROXY": "*"]) == "direct")
                == (isDirect || list.isEmpty))
    }

    @Test(arguments: [
        ("10.1.2.3", "10.1.2.3", true), ("10.1.2.4", "10.1.2.3", false), ("10.0.0.0/8", "10.1.2.3", true),
        ("10.1.2.0/23", "10.1.3.255", true), ("10.1.2.0/23", "10.1.4.0", false), ("0.0.0.0/0", "203.0.113.1", true),
        ("0.0.0.0/0", "[2001:db8::1]", false), ("2001:db8::/32", "[2001:db8:ffff::1]", true),
        ("2001:db8::/32", "[2001:db9::1]", false), ("[2001:db8::1]", "[2001:db8::1]", true),
        ("2001:db8::8/125", "[2001:db8::f]", true), ("2001:db8::8/125", "[2001:db8::10]", false),
        ("10.0.0.0/33", "10.0.0.0", false), ("10.0.0.0/-1", "10.0.0.0", false), ("10.0.0.0/", "10.0.0.0", false),
        ("::/0", "[2001:db8::1]", true), ("1.2.3", "10.1.2.3", false),
    ])
    func `networks and addresses are excepted`(list: String, host: String, isDirect: Bool) throws {
        #expect(try (way(["HTTPS_PROXY": "p:1", "NO_PROXY": list], to: "https://\(host)") == "direct") == isDirect)
    }

    @Test(arguments: [
        ("http://proxy.example.org:3128", "http://proxy.example.org:3128"), ("proxy", "http://proxy:1080"),
        ("HTTP://Proxy.Example.org./path?x", "http://proxy.example.org:1080"),
        (" http://192.0.2.1:80 ", "http://192.0.2.1:80"), ("[2001:db8::1]:8080", "http://[2001:db8::1]:8080"),
        ("http://user:secret@proxy:1/", "http://proxy:1"), ("us%40er:s@cret@proxy:1", "http://proxy:1"),
    ])
    func `a URL is read, and shown without its password`(url: String, shown: String) throws {
        let proxy = try ProxyServer(url)
        #expect("\(proxy)" == shown && String(reflecting: proxy) == shown)
        #expect(proxy.hasPassword == url.contains("@"))
        #expect(try ProxyServer(proxy.urlWithPassword) == proxy)
        var dumped = ""
        dump(ProxySettings(proxy), to: &dumped)
        dump(ProxyChoice.server(proxy), to: &dumped)
        for text in [dumped, "\(ProxySettings(proxy))", "\(ProxyChoice.server(proxy))", "\(Optional(proxy) as Any)"] {
            #expect(!text.contains("secret") && !text.contains("cret"), "\(text)")
        }
    }

    @Test(arguments: [
        ("user:pass@proxy", "dXNlcjpwYXNz"), ("Aladdin:open%20sesame@p", "QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
        ("user@p", "dXNlcjo="), ("u:a:b%2f%25@p", "dTphOmIvJQ=="), ("test:123%C2%A3@p", "dGVzdDoxMjPCow=="),
    ])
    func `name and password are decoded, and sent as Basic`(url: String, encoded: String) throws {
        let relay = try #require(RelayAddress("https://[2001:db8::1]"))
        let request = String(decoding: ProxyTunnel(by: try ProxyServer(url), to: relay).request, as: UTF8.self)
        #expect(
            request == """
                CONNECT [2001:db8::1]:443 HTTP/1.1\r
                Host: [2001:db8::1]:443\r
                Proxy-Authorization: Basic \(encoded)\r
                \r

                """)
    }

    @Test(arguments: [
        "http://secret@", "http://:secret@:80", "secret:99999", "http://se cret", "ftp://secret",
        "socks5://secret:1080",
        "https://secret:3128", "http://u:sec/ret@proxy:1", "http://u:%zzsecret@proxy:1", "http://u:secret%@proxy",
        "http://u:%ffsecret@proxy:1", "http://u:%0d%0asecret@proxy:1", "http://a%3asecret@proxy:1", "http://[secret]:1",
        "http://proxy:0#secret", "secret\u{0}", "http://p\r\nX-Secret: 1",
    ])
    func `what names no proxy is one clear problem that quotes nothing, and no direct way`(text: String) throws {
        let problem = try way(["HTTPS_PROXY": text])
        #expect(problem.hasPrefix("HTTPS_PROXY names no proxy: ") && !problem.lowercased().contains("secret"))
        #expect(try way(["ALL_PROXY": text], to: "http://relay.example.org").hasPrefix("ALL_PROXY names no proxy: "))
        // Who is excepted does not need it.
        #expect(try way(["HTTPS_PROXY": text, "NO_PROXY": "example.org"]) == "direct")
        #expect(throws: ProxyProblem.self) { try ProxyChoice(text) }
    }

    @Test func `a choice is kept as text, and overrules the environment but for its exceptions`() throws {
        let relay = try #require(RelayAddress(Self.relay))
        let environment = ["HTTPS_PROXY": "one:1", "NO_PROXY": "example.com"]
        func route(_ text: String, _ more: [String: String] = [:]) throws -> ProxySettings.Route {
            let choice = try ProxyChoice(text)
            #expect(try ProxyChoice(choice.textWithPassword) == choice)
            return choice.settings { environment.merging(more) { $1 }[$0] }.route(to: relay)
        }
        #expect(try route("environment") == .through(try ProxyServer("one:1")))
        #expect(try route("none") == .direct)
        #expect(try route("http://a%20b:c@two:2") == .through(try ProxyServer("http://a%20b:c@two:2")))
        #expect(try route("two:2", ["NO_PROXY": "example.org"]) == .direct)
    }
}
