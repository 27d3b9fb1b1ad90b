import Crypto
import Foundation
import KithTesting
import KithWire
import Testing

@testable import KithRelayServer

/// An authority as RFC 8555 describes it, without a network: it checks what it is sent.
private struct ScriptedAuthority {
    typealias Response = ACMEIssuance.Response

    static let base = "https://ca.example.org"
    static let names = ["relay.example.org", "203.0.113.5"]

    struct Envelope: Decodable {
        var protected: String
        var payload: String
        var signature: String
    }

    struct Header: Decodable {
        struct Key: Decodable {
            var crv: String
            var kty: String
            var x: String
            var y: String
        }

        var alg: String
        var nonce: String
        var url: String
        var kid: String?
        var jwk: Key?
    }

    /// What it answers to a path in place of what it would; the last again and again.
    var instead: [String: [Response]] = [:]
    var meta = #"{"termsOfService": "https://ca.example.org/terms-7"}"#
    /// The paths that were asked for, and the payloads.
    var log: [(path: String, payload: String)] = []
    private var nonces: Set<String> = []
    private var count = 0
    private var proven: Set<Int> = []
    private var isFinalized = false

    var paths: [String] { log.map(\.path) }

    private mutating func nonce() -> String {
        count += 1
        nonces.insert("nonce-\(count)")
        return "nonce-\(count)"
    }

    /// Checks the signature, and returns the header and the payload.
    private mutating func open(
        _ request: ACMEIssuance.Request, by account: ACMEAccount
    ) throws -> (header: Header, payload: String) {
        let envelope = try JSONDecoder().decode(Envelope.self, from: Data(request.body))
        let header = try JSONDecoder().decode(
            Header.self, from: Data(try #require(Base64.decodeURL(envelope.protected))))
        #expect(header.alg == "ES256" && header.url == request.url.description)
        #expect(nonces.remove(header.nonce) != nil, "a nonce of its own")
        let key = account.key.publicKey
        if let jwk = header.jwk {
            #expect(header.kid == nil && jwk.crv == "P-256" && jwk.kty == "EC")
            #expect((Base64.decodeURL(jwk.x) ?? []) + (Base64.decodeURL(jwk.y) ?? []) == Array(key.rawRepresentation))
        } else {
            #expect(header.kid == "\(Self.base)/account/1")
        }
        let signature = try P256.Signing.ECDSASignature(
            rawRepresentation: try #require(Base64.decodeURL(envelope.signature)))
        #expect(key.isValidSignature(signature, for: Data("\(envelope.protected).\(envelope.payload)".utf8)))
        let payload = String(decoding: try #require(Base64.decodeURL(envelope.payload)), as: UTF8.self)
        return (header, payload)
    }

    mutating func answer(_ request: ACMEIssuance.Request, by account: ACMEAccount) throws -> Response {
        let path = request.url.target
        if request.method == .post {
            log.append((path, try open(request, by: account).payload))
        } else {
            #expect(request.body.isEmpty)
            log.append((path, ""))
        }
        var response: Response
        if var scripted = instead[path], let first = scripted.first {
            if scripted.count > 1 { scripted.removeFirst() }
            instead[path] = scripted
            response = first
            if response.nonce == "fresh" { response.nonce = nonce() }
            return response
        }
        response = try usual(path)
        response.nonce = path == "/dir" ? nil : nonce()
        return response
    }

    private mutating func usual(_ path: String) throws -> Response {
        func json(_ text: String, _ status: Int = 200, location: String? = nil) -> Response {
            Response(status: status, location: location.map { Self.base + $0 }, body: Array(text.utf8))
        }
        let parts = path.split(separator: "/")
        let number = parts.last.flatMap { Int($0) } ?? 0
        switch parts.first {
        case "dir":
            return json(
                """
                {"newNonce": "\(Self.base)/nonce", "newAccount": "\(Self.base)/account", "keyChange": 7,
                "newOrder": "\(Self.base)/order", "meta": \(meta)}
                """)
        case "nonce": return Response(status: 200)
        case "account" where parts.count == 1: return json("{}", 201, location: "/account/1")
        case "account": return json("{}")
        case "order":
            let status = isFinalized ? "valid" : proven.count == Self.names.count ? "ready" : "pending"
            let certificate = isFinalized ? #", "certificate": "\#(Self.base)/certificate""# : ""
            return json(
                """
                {"status": "\(status)", "finalize": "\(Self.base)/finalize",
                "authorizations": ["\(Self.base)/authorization/0", "\(Self.base)/authorization/1"]\(certificate)}
                """, 201, location: "/order/1")
        case "authorization":
            return json(
                """
                {"identifier": {"type": "x", "value": "\(Self.names[number])"},
                "status": "\(proven.contains(number) ? "valid" : "pending")", "challenges": [{"type": "dns-01"},
                {"type": "http-01", "url": "\(Self.base)/challenge/\(number)", "token": "token-\(number)"}]}
                """)
        case "challenge":
            proven.insert(number)
            return json("{}")
        case "finalize":
            isFinalized = true
            return json(
                #"{"status": "processing", "authorizations": [], "finalize": "\#(Self.base)/finalize"}"#)
        case "certificate": return json("the chain")
        default: throw KithError(.notFound, "nobody asks for \(path)")
        }
    }
}

@Suite struct ACMEIssuanceTests {
    private typealias Response = ACMEIssuance.Response

    /// What came of it, and what happened meanwhile.
    private struct Outcome {
        var chain: [UInt8]?
        var failure: ACMEFailure?
        var published: [ACMEIssuance.Challenge] = []
        var waits: [Int] = []
        var account: ACMEAccount
    }

    private func settings(agrees: Bool = true, email: String? = nil) throws -> ACMEIssuance.Settings {
        let names = try ScriptedAuthority.names.map { try #require(ACMEIdentifier($0)) }
        return ACMEIssuance.Settings(
            directory: try #require(ACMEURL("https://ca.example.org/dir")), identifiers: names, email: email,
            agreesToTerms: agrees, request: [1, 2, 3])
    }

    private func run(
        _ authority: inout ScriptedAuthority, _ settings: ACMEIssuance.Settings, account: ACMEAccount = ACMEAccount(),
        now: Int64 = 1_445_412_000
    ) throws -> Outcome {
        var issuance = ACMEIssuance(settings, account: account)
        var (outcome, action) = (Outcome(account: account), issuance.start())
        for _ in 0..<1_000 {
            switch action {
            case .send(let request):
                let answer = try authority.answer(request, by: issuance.account)
                action = issuance.received(answer, at: now)
            case .publish(let challenge):
                outcome.published.append(challenge)
                action = issuance.published()
            case .wait(let seconds):
                outcome.waits.append(seconds)
                action = issuance.waited()
            case .finish(let chain):
                outcome.chain = chain
                outcome.account = issuance.account
                return outcome
            case .fail(let failure):
                outcome.failure = failure
                outcome.account = issuance.account
                return outcome
            }
        }
        throw KithError(.timedOut, "It does not end.")
    }

    @Test func `a certificate is obtained with a new account, every name proven`() throws {
        var authority = ScriptedAuthority()
        let outcome = try run(&authority, try settings(email: "me@example.org"))
        #expect(outcome.chain == Array("the chain".utf8))
        #expect(
            authority.paths == [
                "/dir", "/nonce", "/account", "/order", "/authorization/0", "/challenge/0", "/authorization/0",
                "/authorization/1", "/challenge/1", "/authorization/1", "/order/1", "/finalize", "/order/1",
                "/certificate",
            ])
        let account = outcome.account
        #expect(
            outcome.published
                == [0, 1].map {
                    ACMEIssuance.Challenge(token: "token-\($0)", answer: "token-\($0).\(account.thumbprint)")
                })
        #expect(account.url?.description == "https://ca.example.org/account/1")
        #expect(account.terms == "https://ca.example.org/terms-7" && account.email == "me@example.org")
        let payloads = Dictionary(authority.log.map { ($0.path, $0.payload) }) { first, _ in first }
        #expect(payloads["/account"] == #"{"contact":["mailto:me@example.org"],"termsOfServiceAgreed":true}"#)
        #expect(
            payloads["/order"]
                == #"{"identifiers":[{"type":"dns","value":"relay.example.org"},{"type":"ip","value":"203.0.113.5"}]}"#)
        #expect(payloads["/challenge/0"] == "{}" && payloads["/authorization/0"] == "")
        #expect(payloads["/finalize"] == #"{"csr":"AQID"}"#)
    }

    @Test func `the thumbprint is that of the key's canonical JSON`() {
        let account = ACMEAccount()
        let raw = account.key.publicKey.rawRepresentation
        let (x, y) = (Base64.encodeURL(raw.prefix(32)), Base64.encodeURL(raw.suffix(32)))
        let json = #"{"crv":"P-256","kty":"EC","x":"\#(x)","y":"\#(y)"}"#
        #expect(account.thumbprint == Base64.encodeURL(SHA256.hash(data: Data(json.utf8))))
    }

    @Test func `an account survives being kept, and what is damaged is none`() throws {
        var account = ACMEAccount()
        account.url = ACMEURL("https://ca.example.org/account/1")
        (account.terms, account.email) = ("https://ca.example.org/terms-7", "me@example.org")
        #expect(ACMEAccount(bytes: account.bytes) == account)
        for damaged in [[], Array(account.bytes.dropLast(3)), Array("{}".utf8), [0xFF]] {
            #expect(ACMEAccount(bytes: damaged) == nil)
        }
    }

    @Test func `a known account is used again, and told a new address of mail`() throws {
        var authority = ScriptedAuthority()
        let account = try run(&authority, try settings()).account
        var second = ScriptedAuthority()
        #expect(try run(&second, try settings(agrees: false), account: account).chain != nil)
        #expect(!second.paths.contains("/account"))
        var third = ScriptedAuthority()
        let outcome = try run(&third, try settings(agrees: false, email: "you@example.org"), account: account)
        #expect(outcome.account.email == "you@example.org")
        #expect(third.log.contains { $0 == ("/account/1", #"{"contact":["mailto:you@example.org"]}"#) })
    }

    @Test func `terms are shown and not agreed to by themselves`() throws {
        var authority = ScriptedAuthority()
        let outcome = try run(&authority, try settings(agrees: false))
        #expect(outcome.failure?.error.code == .denied && authority.paths == ["/dir"])
        #expect(outcome.failure?.error.message.contains("https://ca.example.org/terms-7") == true)
        #expect(outcome.failure?.error.message.contains("--agree-to-terms") == true)
        #expect(outcome.account.terms == nil)
        // An authority without terms needs no agreement.
        authority = ScriptedAuthority()
        authority.meta = "{}"
        #expect(try run(&authority, try settings(agrees: false)).chain != nil)
        #expect(authority.log.contains { $0 == ("/account", "{}") })
    }

    @Test func `short-lived certificates are asked for where an address wants one and the authority has them`() throws {
        var authority = ScriptedAuthority()
        authority.meta = #"{"profiles": {"classic": "a", "shortlived": "b"}}"#
        _ = try run(&authority, try settings())
        #expect(authority.log.contains { $0.path == "/order" && $0.payload.contains(#""profile":"shortlived""#) })
        var settings = try settings()
        settings.identifiers.removeLast()
        authority.log = []
        authority.instead["/order"] = [Response(status: 500)]
        _ = try run(&authority, settings)
        #expect(authority.log.contains { $0.path == "/order" && !$0.payload.contains("profile") })
    }

    private func problem(
        _ kind: String, _ status: Int = 400, nonce: String? = "fresh", detail: String = "because", retry: String? = nil
    ) -> Response {
        Response(
            status: status, nonce: nonce, retryAfter: retry,
            body: Array(#"{"type": "urn:ietf:params:acme:error:\#(kind)", "detail": "\#(detail)"}"#.utf8))
    }

    @Test func `a refused nonce is replaced, with the one that came or a fetched one, but not for ever`() throws {
        var authority = ScriptedAuthority()
        authority.instead["/account"] = [
            problem("badNonce"), problem("badNonce", nonce: nil), problem("badNonce", nonce: "not\"one"),
            Response(status: 201, nonce: "fresh", location: "https://ca.example.org/account/1"),
        ]
        #expect(try run(&authority, try settings()).chain != nil)
        #expect(
            authority.paths.prefix(9)
                == [
                    "/dir", "/nonce", "/account", "/account", "/nonce", "/account", "/nonce", "/account", "/order",
                ][...])
        authority = ScriptedAuthority()
        authority.instead["/account"] = [problem("badNonce")]
        let outcome = try run(&authority, try settings())
        #expect(outcome.failure != nil)
        #expect(authority.paths.filter { $0 == "/account" }.count == ACMEIssuance.nonceLimit + 1)
    }

    @Test func `an account that the authority has lost is made again, once`() throws {
        var first = ScriptedAuthority()
        let account = try run(&first, try settings()).account
        var authority = ScriptedAuthority()
        authority.instead["/order"] = [problem("accountDoesNotExist")]
        let outcome = try run(&authority, try settings(agrees: false), account: account)
        #expect(outcome.failure?.error.message.contains("accountDoesNotExist") == true)
        #expect(authority.paths.filter { $0 == "/account" }.count == 1)
        #expect(authority.paths.filter { $0 == "/order" }.count == 2)
        #expect(outcome.account.key.rawRepresentation == account.key.rawRepresentation)
    }

    @Test func `a limit of the authority is told with its time`() throws {
        for (retry, seconds) in [
            ("3600", 3_600), ("Wed, 21 Oct 2015 07:28:00 GMT", 480), ("99999999999", 604_800), ("soon", nil),
            ("-5", nil),
        ] as [(String, Int?)] {
            var authority = ScriptedAuthority()
            authority.instead["/order"] = [problem("rateLimited", 429, retry: retry)]
            let failure = try #require(try run(&authority, try settings()).failure)
            #expect(failure.error.code == .exhausted && failure.retryAfter == seconds, "\(retry)")
            #expect(failure.error.message.contains("because"))
        }
    }

    @Test func `questions are repeated as slowly as the authority wants, within bounds, and not for ever`() throws {
        var authority = ScriptedAuthority()
        let pending = #"""
            {"identifier": {"value": "relay.example.org"}, "status": "pending", "challenges": [{"type": "http-01",
            "url": "https://ca.example.org/challenge/0", "token": "t"}]}
            """#
        authority.instead["/authorization/0"] = ["7", "0", "86400", nil].map {
            Response(status: 200, nonce: "fresh", retryAfter: $0, body: Array(pending.utf8))
        }
        let outcome = try run(&authority, try settings())
        #expect(outcome.failure?.error.code == .timedOut)
        #expect(outcome.waits.count == ACMEIssuance.pollLimit)
        // The first is the pause after the challenge, which said nothing.
        #expect(outcome.waits.prefix(3) == [1, 1, 30] && outcome.waits.allSatisfy { (1...30).contains($0) })
    }

    @Test func `a name that is not proven is told with the authority's reason, and what to see to`() throws {
        var authority = ScriptedAuthority()
        let invalid = #"""
            {"identifier": {"value": "relay.example.org"}, "status": "invalid", "challenges": [{"type": "http-01",
            "error": {"type": "urn:ietf:params:acme:error:connection", "detail": "Connection\n  \u001b[31mrefused."}}]}
            """#
        authority.instead["/authorization/0"] = [
            try authorityAnswer("/authorization/0"), Response(status: 200, nonce: "fresh", body: Array(invalid.utf8)),
        ]
        let error = try #require(try run(&authority, try settings()).failure?.error)
        #expect(error.code == .denied)
        for part in ["relay.example.org", "Connection", "refused (connection)", "port 80"] {
            #expect(error.message.contains(part), "\(error.message)")
        }
        #expect(!error.message.contains("\u{1B}") && !error.message.contains("\n"))
    }

    /// What the authority would answer to a path, with a nonce.
    private func authorityAnswer(_ path: String) throws -> Response {
        let body = """
            {"identifier": {"value": "relay.example.org"}, "status": "pending", "challenges": [{"type": "http-01",
            "url": "https://ca.example.org/challenge/0", "token": "token-0"}]}
            """
        return Response(status: 200, nonce: "fresh", body: Array(body.utf8))
    }

    @Test func `refusals say what to do`() throws {
        for (kind, code, part) in [
            ("externalAccountRequired", .unsupported, "--acme-directory"), ("invalidContact", .invalid, "--email"),
            ("rejectedIdentifier", .invalid, "relay.example.org"), ("caa", .denied, "CAA"),
            ("userActionRequired", .denied, "new terms"), ("malformed", .denied, "because (malformed)"),
        ] as [(String, KithError.Code, String)] {
            var authority = ScriptedAuthority()
            authority.instead["/order"] = [problem(kind)]
            let error = try #require(try run(&authority, try settings()).failure?.error)
            #expect(error.code == code && error.message.contains(part), "\(error.message)")
            #expect(error.message.contains("ca.example.org") && error.message.contains("because"))
        }
        var authority = ScriptedAuthority()
        authority.meta = #"{"externalAccountRequired": true}"#
        #expect(try run(&authority, try settings()).failure?.error.code == .unsupported)
    }

    @Test func `an authority that does not keep to the rules is left, whatever it answers`() throws {
        func ok(_ text: String, location: String? = nil) -> Response {
            Response(status: 200, nonce: "fresh", location: location, body: Array(text.utf8))
        }
        let huge = Response(
            status: 200, nonce: "fresh", body: [UInt8](repeating: 0x20, count: ACMEIssuance.Response.maxBody + 1))
        let deep = ok(String(repeating: "[", count: 100_000))
        let order = "https://ca.example.org/order/1"
        let token = #"{"type": "http-01", "url": "https://ca.example.org/challenge/0", "token": "#
        func authorization(_ name: String, _ token: String) -> Response {
            ok(#"{"identifier": {"value": "\#(name)"}, "status": "pending", "challenges": [\#(token)}]}"#)
        }
        func orderAnswer(_ authorizations: String, finalize: String = "https://ca.example.org/f") -> Response {
            ok(
                #"{"status": "pending", "finalize": "\#(finalize)", "authorizations": [\#(authorizations)]}"#,
                location: order)
        }
        let many = Array(repeating: #""https://ca.example.org/a""#, count: 21).joined(separator: ",")
        let cases: [(path: String, answer: Response, code: KithError.Code)] = [
            ("/dir", ok("{}"), .corrupt), ("/dir", ok("[]"), .corrupt), ("/dir", huge, .corrupt),
            ("/dir", deep, .corrupt), ("/dir", Response(status: 301, location: order), .corrupt),
            ("/dir", ok(#"{"newNonce": 1, "newAccount": 2, "newOrder": 3}"#), .corrupt),
            ("/dir", ok(#"{"newNonce": "http://a/", "newAccount": "https://a/", "newOrder": "https://a/"}"#), .corrupt),
            ("/dir", ok(#"{"newNonce": "file:///a", "newAccount": "https://a/", "newOrder": "https://a/"}"#), .corrupt),
            (
                "/dir", ok(#"{"newNonce": "https://a/\r\nX", "newAccount": "https://a", "newOrder": "https://a"}"#),
                .corrupt
            ),
            ("/dir", Response(status: 503), .exhausted), ("/dir", Response(status: 500), .unreachable),
            ("/dir", Response(status: 404), .denied), ("/dir", problem("badNonce"), .denied),
            ("/nonce", Response(status: 200), .corrupt), ("/nonce", Response(status: 200, nonce: ""), .corrupt),
            ("/nonce", Response(status: 200, nonce: "a b"), .corrupt),
            ("/nonce", Response(status: 200, nonce: String(repeating: "a", count: 257)), .corrupt),
            ("/nonce", Response(status: 403), .denied),
            ("/account", Response(status: 201, nonce: "fresh"), .corrupt),
            ("/account", Response(status: 201, nonce: "fresh", location: "/account/1"), .corrupt),
            ("/account", Response(status: 307, nonce: "fresh", location: order), .corrupt),
            ("/order", ok("{}", location: order), .corrupt), ("/order", orderAnswer(""), .corrupt),
            ("/order", orderAnswer(many), .corrupt), ("/order", orderAnswer(#""ftp://a""#), .corrupt),
            ("/order", orderAnswer(#""https://ca.example.org/a""#, finalize: "x"), .corrupt),
            ("/order", huge, .corrupt),
            ("/authorization/0", authorization("other.example.org", token + #""t""#), .corrupt),
            ("/authorization/0", authorization("relay.example.org", token + #""../../etc""#), .corrupt),
            ("/authorization/0", authorization("relay.example.org", token + #""""#), .corrupt),
            ("/authorization/0", authorization("relay.example.org", #"{"type": "dns-01""#), .unsupported),
            (
                "/authorization/0",
                authorization("relay.example.org", token + "\"\(String(repeating: "a", count: 257))\""), .corrupt
            ),
            ("/authorization/0", ok(#"{"identifier": {"value": "relay.example.org"}, "status": 3}"#), .corrupt),
            ("/order/1", ok("null"), .corrupt),
            ("/finalize", ok(#"{"status": "great", "finalize": "https://a/", "authorizations": []}"#), .corrupt),
            ("/finalize", ok(#"{"status": "valid", "finalize": "https://a/", "authorizations": []}"#), .corrupt),
            ("/finalize", ok(#"{"status": "pending", "finalize": "https://a/", "authorizations": []}"#), .corrupt),
            ("/finalize", ok(#"{"status": "invalid", "finalize": "https://a/", "authorizations": []}"#), .denied),
            ("/certificate", huge, .corrupt), ("/certificate", Response(status: 302, nonce: "fresh"), .corrupt),
        ]
        for (path, answer, code) in cases {
            var authority = ScriptedAuthority()
            authority.instead[path] = [answer]
            let outcome = try run(&authority, try settings())
            let description = "\(path) \(answer.status) \(String(decoding: answer.body.prefix(80), as: UTF8.self))"
            #expect(outcome.failure?.error.code == code, "\(description): \(String(describing: outcome.failure))")
            #expect((outcome.failure?.error.message.utf8.count ?? 0) < 1_000)
        }
    }

    @Test func `a reason without end is shown in part`() throws {
        var authority = ScriptedAuthority()
        authority.instead["/order"] = [problem("malformed", detail: String(repeating: "é", count: 20_000))]
        let message = try #require(try run(&authority, try settings()).failure?.error.message)
        #expect(message.utf8.count < 1_000 && message.contains("éé"))
    }

    @Test func `only HTTPS, and nothing that would end a line, is a URL of an authority`() {
        for good in ["https://a.example/dir?x=1&y=2", "https://a.example", "https://[2001:db8::1]:14000/a~b%20c"] {
            #expect(ACMEURL(good)?.description == good)
        }
        for bad in [
            "http://a.example/", "https:///a", "https://", "https://a.example/ b", "https://a.example/\r\nHost: b",
            "https://user@a.example/", "https://a.example:0/", "https://a.example#f", "https://a.example/é",
            "https://a.example/" + String(repeating: "a", count: 2_048),
        ] {
            #expect(ACMEURL(bad) == nil, "\(bad)")
        }
    }

    @Test func `names and addresses are read, and what no certificate is for is not`() {
        #expect(ACMEIdentifier("Relay.Example.ORG.")?.value == "relay.example.org")
        #expect(ACMEIdentifier("2001:DB8:0::1")?.value == "2001:db8::1")
        #expect(ACMEIdentifier("203.0.113.5")?.isAddress == true)
        for bad in [
            "*.example.org", "", "a b", "0.0.0.0", "224.0.0.1", "fe80::1%2", "a_b.example", "bücher.example",
            "-a.example",
            "../a", "a/b", "1.2.3",
        ] {
            #expect(ACMEIdentifier(bad) == nil, "\(bad)")
        }
    }
}
