import KithAPI
import KithForward
import KithTesting
import KithWire
import Testing

@Suite struct RuleTests {
    @Test(arguments: [
        (Forward.Rule.Option.local, "8080:db:5432", "localhost:8080", "db:5432"),
        (.local, "0:db:5432", "localhost:0", "db:5432"),
        (.local, "127.0.0.1:8080:db:5432", "127.0.0.1:8080", "db:5432"),
        (.local, ":8080:db:5432", "*:8080", "db:5432"), (.local, "*:8080:db:5432", "*:8080", "db:5432"),
        (.local, "[::1]:8080:[2001:db8::1]:80", "[::1]:8080", "[2001:db8::1]:80"),
        (.local, "8080:/run/docker.sock", "localhost:8080", "unix:/run/docker.sock"),
        (.local, "127.0.0.1:8080:/run/docker.sock", "127.0.0.1:8080", "unix:/run/docker.sock"),
        (.local, "/tmp/d.sock:/run/docker.sock", "unix:/tmp/d.sock", "unix:/run/docker.sock"),
        (.local, "/tmp/d.sock:db:5432", "unix:/tmp/d.sock", "db:5432"),
        (.local, "/tmp/a\\:b:db:5432", "unix:/tmp/a:b", "db:5432"),
        (.remote, "8080:localhost:80", "localhost:8080", "localhost:80"),
        (.remote, "0.0.0.0:8080:localhost:80", "0.0.0.0:8080", "localhost:80"),
        (.remote, "1080", "localhost:1080", ""), (.remote, "*:1080", "*:1080", ""),
        (.remote, "8080:/run/app.sock", "localhost:8080", "unix:/run/app.sock"),
        (.remote, "/run/app.sock:localhost:80", "unix:/run/app.sock", "localhost:80"),
        (.dynamic, "1080", "localhost:1080", ""), (.dynamic, "192.0.2.1:1080", "192.0.2.1:1080", ""),
        (.dynamic, "[::1]:1080", "[::1]:1080", ""), (.dynamic, "/tmp/socks", "unix:/tmp/socks", ""),
    ])
    func `a rule is written as for ssh`(
        option: Forward.Rule.Option, text: String, listen: String, target: String
    ) throws {
        let rule = try Forward.Rule(option, parsing: text)
        #expect(rule.listen.description == listen)
        #expect(rule.target?.description ?? "" == target)
        #expect(rule.direction == (option == .remote ? .remote : .local))
        #expect(rule.transport == .tcp)
        let again = try CBORDecoder().decode(Forward.Rule.self, from: CBOREncoder().encode(rule))
        #expect(again == rule)
    }

    @Test func `udp before a rule is for datagrams`() throws {
        let rule = try Forward.Rule(.local, parsing: "udp:5353:1.1.1.1:53")
        #expect(rule.transport == .udp)
        #expect(rule.listen == .name("localhost", port: 5_353))
        #expect(rule.target?.description == "1.1.1.1:53")
    }

    @Test(arguments: [
        (Forward.Rule.Option.local, ""), (.local, "8080"), (.local, "8080:db"), (.local, "a:b:c:d:e"),
        (.local, "65536:db:1"), (.local, "8080:db:0"), (.local, "8080:db:x"), (.local, "-1:db:1"),
        (.local, "8080:*:80"), (.local, "8080::80"), (.local, "[::1:8080:db:1"), (.local, "8080:[::1]"),
        (.local, "8080:büro:80"), (.local, "8080:a b:80"), (.local, "8080:db:80\\"), (.local, "/:db:80"),
        (.local, "/tmp/../x:db:80"), (.local, "/" + String(repeating: "a", count: 104) + ":db:80"),
        (.local, "8080:db:80\0"), (.local, String(repeating: "1", count: 2_000)), (.local, "udp:/tmp/x:db:80"),
        (.local, "udp:53:/tmp/x"), (.dynamic, "8080:db:80"), (.dynamic, "udp:1080"), (.dynamic, "x"),
        (.remote, "udp:1080"), (.remote, "db:80:80:80:80"), (.local, "8080:127.1:80"),
    ])
    func `what is none is refused with the right form`(option: Forward.Rule.Option, text: String) {
        do {
            _ = try Forward.Rule(option, parsing: text)
            Issue.record("\(option.rawValue) \(text) was taken")
        } catch {
            #expect(error.code == .invalid)
            #expect(error.message.contains("[BIND:]PORT"), "\(error.message)")
        }
    }

    @Test func `endpoints survive as text`() throws {
        var random = SeededRandom.fromEnvironment()
        print(random)
        for _ in 0..<2_000 {
            let port = UInt16.random(in: 0...65_535, using: &random)
            let endpoints: [Forward.Endpoint] = [
                .address(NetworkAddress(ipv4: UInt32(truncatingIfNeeded: random.next()), port: port)),
                .address(NetworkAddress(ipv6: random.next(), random.next(), port: port)),
                .name("a\(port).example", port: port), .every(port: port), .socket(path: "/run/\(port):x"),
            ]
            for endpoint in endpoints { #expect(Forward.Endpoint(endpoint.description) == endpoint) }
        }
    }

    @Test(arguments: [
        "", ":80", "a", "a:", "a:080", "a:65536", "a:1:2", "::1:80", "[a]:80", "[1.2.3.4]:80", "a b:80", "a\0:80",
        "unix:", "unix:a", "unix:/a/../b", "*.org:80", "127.1:80", "a:+1",
    ])
    func `other texts are no endpoints`(text: String) { #expect(Forward.Endpoint(text) == nil) }
}
