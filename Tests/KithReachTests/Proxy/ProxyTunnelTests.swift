import KithReach
import Testing

@Suite("A tunnel through a proxy") struct ProxyTunnelTests {
    private func answer(_ text: String, by url: String = "http://p:1") throws -> ProxyTunnel.Action {
        var tunnel = ProxyTunnel(by: try ProxyServer(url), to: try #require(RelayAddress("https://relay.example.org")))
        return tunnel.received(Array(text.utf8))
    }

    private func reason(_ text: String, by url: String = "http://p:1") throws -> String? {
        switch try answer(text, by: url) {
        case .refused(let reason), .signInRefused(let reason): reason
        case .wait, .open, .captive: nil
        }
    }

    @Test func `it opens with any answer of success, however that is cut, and keeps what follows`() throws {
        let text = Array("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 Connection established\r\nVia: x\r\n\r\nrest".utf8)
        for cut in 0...(text.count - 4) {
            var tunnel = ProxyTunnel(by: try ProxyServer("p:1"), to: try #require(RelayAddress("http://r.example")))
            let first = tunnel.received(Array(text[..<cut]))
            guard cut < text.count - 4 else {
                #expect(first == .open([]))
                continue
            }
            #expect(first == .wait)
            #expect(tunnel.received(Array(text[cut...])) == .open(Array("rest".utf8)))
        }
    }

    @Test func `each refusal says what it is`() throws {
        #expect(
            try reason("HTTP/1.1 403 No\r\n\r\n")?.contains("does not allow connections to relay.example.org:443")
                == true)
        #expect(try reason("HTTP/1.1 502 No\r\n\r\n")?.contains("does not reach relay.example.org:443") == true)
        #expect(try reason("HTTP/1.1 418 No\r\n\r\n")?.contains("status 418") == true)
        #expect(try reason("SSH-2.0-OpenSSH\r\n")?.contains("is none") == true)
        #expect(try reason("\u{5}")?.contains("is none") == true)
    }

    @Test func `a sign-in that is refused says where to set it, and never the password`() throws {
        let basic = "HTTP/1.1 407 No\r\nProxy-Authenticate: NTLM\r\nproxy-authenticate: basic realm=x\r\n\r\n"
        #expect(
            try reason(basic)
                == "the proxy http://p:1 wants a name and a password (in HTTPS_PROXY, or by kith up --proxy)")
        let wrong = try #require(try reason(basic, by: "http://who:secret@p:1"))
        #expect(wrong.contains("does not accept") && !wrong.contains("secret") && !wrong.contains("who:"))
        #expect(
            try reason("HTTP/1.1 407 No\r\nProxy-Authenticate: NTLM\r\n\r\n")?.contains("another kind than Basic")
                == true)
    }

    @Test func `an answer has bounds`() throws {
        let long = "HTTP/1.1 200 OK\r\nX: " + String(repeating: "x", count: ProxyTunnel.maxLength)
        #expect(try reason(long)?.contains("has no end") == true)
        #expect(try reason(long + "\r\n\r\n")?.contains("has no end") == true)
        let lines = "HTTP/1.1 200 OK\r\n" + String(repeating: "X: 1\r\n", count: 200)
        #expect(try reason(lines + "\r\n")?.contains("has no end") == true)
        // Interim answers that never end do so, too.
        let interim = String(repeating: "HTTP/1.1 100 Continue\r\n\r\n", count: 3)
        var tunnel = ProxyTunnel(by: try ProxyServer("p"), to: try #require(RelayAddress("https://relay.example.org")))
        var actions: Set<ProxyTunnel.Action> = []
        for _ in 0..<(ProxyTunnel.maxLength / interim.utf8.count + 2) {
            actions.insert(tunnel.received(Array(interim.utf8)))
        }
        #expect(actions.count == 2 && actions.contains(.wait))
    }

    @Test func `a portal in the proxy's place is one`() throws {
        guard case .captive(let portal) = try answer("HTTP/1.1 302 Found\r\nLocation: http://login.test/x\r\n\r\n")
        else {
            throw ProxyTunnelFailure()
        }
        #expect(portal.url == "http://login.test/x")
    }

    private struct ProxyTunnelFailure: Error {}
}

@Suite("A captive portal") struct CaptivePortalTests {
    private func portal(_ text: String) throws -> String? {
        CaptivePortal(
            answer: try HTTPAnswerHead(Array("HTTP/1.1 \(text)\r\n\r\n".utf8)), from: "relay.example.org",
            challenge: "abc"
        )?.url
    }

    @Test func `only a relay gives the answer to the challenge`() throws {
        #expect(try portal("204 No Content\r\nX-Iroh-Response: response abc") == nil)
        let usual = "http://relay.example.org/"
        #expect(try portal("204 No Content") == usual)
        #expect(try portal("204 No Content\r\nX-Iroh-Response: response abd") == usual)
        #expect(try portal("200 OK") == usual)
        #expect(try portal("511 Network Authentication Required") == usual)
    }

    @Test func `a redirection elsewhere is shown, and nothing that is not a URL`() throws {
        #expect(try portal("302 Found\r\nLocation: https://login.test/a?b=c#d") == "https://login.test/a?b=c#d")
        let usual = "http://relay.example.org/"
        for place in [
            "", "login", "javascript:alert(1)", "http://a b/", "http://\u{1B}[2Jx/", "file:///etc/passwd",
            "//login.test/",
            "http://user@login.test/", "http://login.test/" + String(repeating: "x", count: 300),
            "http://login.test/\u{202E}",
        ] {
            #expect(try portal("302 Found\r\nLocation: \(place)") == usual, "\(place)")
        }
        #expect(try portal("307 Found") == usual)
    }

    @Test func `the web server of a relay that is down is no portal`() throws {
        for answer in [
            "404 Not Found", "403 Forbidden", "502 Bad Gateway",
            "301 Moved\r\nLocation: https://relay.example.org/generate_204",
            "301 Moved\r\nLocation: https://RELAY.example.org:8443/", "301 Moved\r\nLocation: /generate_204/",
        ] {
            #expect(try portal(answer) == nil, "\(answer)")
        }
    }

    @Test func `the question is one that a relay answers`() {
        var random = SystemRandomNumberGenerator()
        let challenge = CaptivePortal.challenge(using: &random)
        #expect(challenge.utf8.count == 32 && challenge != CaptivePortal.challenge(using: &random))
        #expect(
            String(decoding: CaptivePortal.request(to: "2001:db8::1", port: 81, challenge: "abc"), as: UTF8.self)
                == "GET /generate_204 HTTP/1.1\r\nHost: [2001:db8::1]:81\r\nX-Iroh-Challenge: abc\r\nConnection: close\r\n\r\n"
        )
    }
}
