import KithTesting
import KithWire
import Testing

@testable import KithIdentity

@Suite struct ForwardPatternTests {
    @Test(arguments: [
        "forward", "forward:to=*:*", "forward:to=db.example.org:5432", "forward:to=*.example.org:443",
        "forward:to=10.0.0.0/8:*", "forward:to=192.0.2.1:8000-8099", "forward:to=[2001:db8::/32]:443",
        "forward:to=[2001:db8::1]:80", "forward:to=localhost:80", "forward:to=unix:/run/docker.sock",
        "forward:to=unix:/tmp/a:b=c", "forward:to=0.0.0.0/0:*", "forward:to=_sip.example.org:1-2",
        "forward:listen=*:8080", "forward:listen=localhost:*", "forward:listen=192.0.2.1:22",
        "forward:listen=unix:/tmp/x",
    ])
    func `the text form survives`(text: String) throws {
        let grant = try Grant(parsing: text)
        #expect(grant.description == text)
        #expect(try CBORDecoder().decode(Grant.self, from: CBOREncoder().encode(grant)) == grant)
    }

    @Test(arguments: [
        ("forward:to=DB.Example.ORG.:1-65535", "forward:to=db.example.org:*"),
        ("forward:to=LOCALHOST:80-80", "forward:to=localhost:80"),
        ("forward:to=192.0.2.1/32:1", "forward:to=192.0.2.1:1"),
        ("forward:to=[2001:DB8:0:0::1/128]:1", "forward:to=[2001:db8::1]:1"),
    ])
    func `several texts of one meaning become one`(text: String, plain: String) throws {
        #expect(try Grant(parsing: text).description == plain)
    }

    @Test(arguments: [
        ("forward:", "forward:to="), ("forward:to", "forward:to="), ("forward:from=*:1", "forward:to="),
        ("forward:to=", "port"), ("forward:to=host", "port"), ("forward:to=[::1]", "port"),
        ("forward:to=host:", "port"), ("forward:to=host:0", "port"), ("forward:to=host:080", "port"),
        ("forward:to=host:65536", "port"), ("forward:to=host:9-8", "port"), ("forward:to=host:1-", "port"),
        ("forward:to=host:1-2-3", "port"), ("forward:to=host:+1", "port"), ("forward:to=host:٣", "port"),
        ("forward:to=:80", "host"), ("forward:to=**:80", "host"), ("forward:to=a.*.org:80", "host"),
        ("forward:to=*.:80", "host"), ("forward:to=*.1:80", "host"), ("forward:to=büro.example:80", "xn--"),
        ("forward:to=-a:80", "host"), ("forward:to=a..b:80", "host"), ("forward:to=a\0b:80", "host"),
        ("forward:to=127.1:80", "host"), ("forward:to=0x7f.1:80", "host"), ("forward:to=2130706433:80", "host"),
        ("forward:to=1.2.3.4.5:80", "host"), ("forward:to=10.0.0.1/8:80", "first address"),
        ("forward:to=10.0.0.0/33:80", "bits"), ("forward:to=10.0.0.0/08:80", "bits"),
        ("forward:to=::1:80", "[2001:db8::1]"), ("forward:to=[::1/64]:80", "first address"),
        ("forward:to=[10.0.0.1]:80", "address"), ("forward:to=[::ffff:10.0.0.1]:80", "cannot be granted"),
        ("forward:to=[fe80::1%2]:80", "cannot be granted"), ("forward:to=[*]:80", "address"),
        ("forward:to=unix:run", "socket"), ("forward:to=unix:/", "socket"), ("forward:to=unix:/a/../b", "socket"),
        ("forward:to=unix:/" + String(repeating: "a", count: 108), "socket"),
        ("forward:to=" + String(repeating: "a", count: 254) + ":1", "host"),
        ("forward:to=" + String(repeating: "a", count: 1_000) + ":1", "port"),
        ("forward:listen=example.org:80", "address"), ("forward:listen=*.example.org:80", "address"),
        ("shel", "There are: shell"),
    ])
    func `a text that is none is refused with what would be right`(text: String, teaches: String) {
        #expect(Grant(text) == nil)
        do {
            _ = try Grant(parsing: text)
        } catch {
            #expect(error.code == .invalid)
            #expect(error.message.contains(teaches), "\(error.message)")
            #expect(error.message.utf8.count < 600)
        }
    }

    @Test(arguments: [
        // What is held, the name asked for, the address it stands for, whether that is allowed.
        ("forward", nil, "127.0.0.1:22", true), ("forward", nil, "169.254.169.254:80", true),
        ("forward:to=*:*", "example.org", "93.184.215.14:443", true), ("forward:to=*:*", nil, "10.1.2.3:22", true),
        ("forward:to=*:*", nil, "[2001:db8::1]:22", true),
        ("forward:to=*:443", nil, "10.1.2.3:22", false),
        ("forward:to=*:*", nil, "127.0.0.1:22", false), ("forward:to=*:*", nil, "127.8.8.8:22", false),
        ("forward:to=*:*", "localhost", "127.0.0.1:22", false), ("forward:to=*:*", "evil.org", "127.0.0.1:22", false),
        ("forward:to=*:*", nil, "[::1]:22", false), ("forward:to=*:*", nil, "0.0.0.0:22", false),
        ("forward:to=*:*", nil, "0.1.2.3:22", false), ("forward:to=*:*", nil, "[::]:22", false),
        ("forward:to=*:*", nil, "169.254.169.254:80", false), ("forward:to=*:*", "a.org", "169.254.1.1:80", false),
        ("forward:to=*:*", nil, "[fe80::1]:80", false), ("forward:to=*:*", nil, "[fd00:ec2::254]:80", false),
        ("forward:to=*:*", nil, "100.100.100.200:80", false), ("forward:to=*:*", nil, "168.63.129.16:80", false),
        ("forward:to=*:*", nil, "224.0.0.251:5353", false), ("forward:to=*:*", nil, "255.255.255.255:67", false),
        ("forward:to=*:*", nil, "[ff02::fb]:5353", false), ("forward:to=*:*", nil, "240.0.0.1:1", false),
        ("forward:to=*:*", nil, "[::127.0.0.1]:22", false), ("forward:to=*:*", nil, "[64:ff9b::7f00:1]:22", false),
        ("forward:to=*:*", nil, "[64:ff9b::a9fe:a9fe]:80", false),
        ("forward:to=*:*", nil, "[64:ff9b::a01:203]:80", true),
        ("forward:to=*:*", nil, "[2002:7f00:1::]:22", false),
        ("forward:to=db.example.org:5432", "db.example.org", "10.1.2.3:5432", true),
        ("forward:to=db.example.org:5432", nil, "10.1.2.3:5432", false),
        ("forward:to=db.example.org:5432", "db.example.org", "127.0.0.1:5432", false),
        ("forward:to=db.example.org:5432", "xdb.example.org", "10.1.2.3:5432", false),
        ("forward:to=*.example.org:443", "a.b.example.org", "10.1.2.3:443", true),
        ("forward:to=*.example.org:443", "example.org", "10.1.2.3:443", false),
        ("forward:to=*.example.org:443", "badexample.org", "10.1.2.3:443", false),
        ("forward:to=*.example.org:443", "a.example.org", "169.254.169.254:443", false),
        ("forward:to=10.0.0.0/8:*", "anything.at.all", "10.255.0.1:9", true),
        ("forward:to=10.0.0.0/8:*", "anything.at.all", "11.0.0.1:9", false),
        ("forward:to=10.0.0.0/8:*", nil, "[64:ff9b::a00:1]:9", false),
        ("forward:to=169.254.169.254:80", nil, "169.254.169.254:80", true),
        ("forward:to=127.0.0.0/8:80", "evil.org", "127.0.0.1:80", true),
        ("forward:to=[2001:db8::/32]:443", nil, "[2001:db8:1::]:443", true),
        ("forward:to=[2001:db8::/32]:443", nil, "[2001:db9::]:443", false),
        ("forward:to=localhost:80", "localhost", "127.0.0.1:80", true),
        ("forward:to=localhost:80", nil, "[::1]:80", true), ("forward:to=localhost:80", nil, "10.0.0.1:80", false),
        ("forward:listen=*:*", nil, "10.0.0.1:80", false), ("shell", nil, "10.0.0.1:80", false),
    ])
    func `a connection is allowed by what it turns out to be`(
        held: String, name: String?, address: String, isAllowed: Bool
    ) throws {
        let grants = [try Grant(parsing: held)]
        let address = try #require(NetworkAddress(address))
        #expect(grants.allowForwarding(to: address, name: name, isOwn: false) == isAllowed)
    }

    @Test func `the device's own addresses are granted by address only`() throws {
        let own = try #require(NetworkAddress("192.0.2.7:22"))
        for (held, isAllowed) in [
            ("forward:to=*:*", false), ("forward:to=me.example.org:22", false), ("forward:to=192.0.2.7:22", true),
            ("forward:to=192.0.2.0/24:*", true), ("forward", true),
        ] {
            #expect(
                [try Grant(parsing: held)].allowForwarding(to: own, name: "me.example.org", isOwn: true) == isAllowed)
        }
    }

    @Test(arguments: [
        ("forward", "127.0.0.1:0", true), ("forward", "[::1]:80", true), ("forward", "0.0.0.0:80", false),
        ("forward", "192.0.2.1:80", false), ("forward:listen=*:8080", "0.0.0.0:8080", true),
        ("forward:listen=*:8080", "[::]:8080", true), ("forward:listen=*:8080", "0.0.0.0:8081", false),
        ("forward:listen=*:8080", "0.0.0.0:0", false), ("forward:listen=*:*", "0.0.0.0:0", true),
        ("forward:listen=localhost:*", "127.0.0.1:0", true), ("forward:listen=localhost:*", "0.0.0.0:1", false),
        ("forward:listen=192.0.2.1:80", "192.0.2.1:80", true), ("forward:listen=192.0.2.1:80", "0.0.0.0:80", false),
        ("forward:to=*:*", "127.0.0.1:80", false),
    ])
    func `listening is for loopback unless a grant says otherwise`(
        held: String, address: String, isAllowed: Bool
    ) throws {
        let address = try #require(NetworkAddress(address))
        #expect([try Grant(parsing: held)].allowListening(at: address) == isAllowed)
    }

    @Test func `a Unix socket is listened at only where a grant names it`() throws {
        #expect(![Grant.forward].allowListening(atSocket: "/tmp/x"))
        #expect([try Grant(parsing: "forward:listen=unix:/tmp/x")].allowListening(atSocket: "/tmp/x"))
        #expect(![try Grant(parsing: "forward:listen=unix:/tmp/x")].allowListening(atSocket: "/tmp/y"))
        #expect([Grant.forward].allowForwarding(toSocket: "/tmp/x"))
        #expect(![try Grant(parsing: "forward:to=*:*")].allowForwarding(toSocket: "/tmp/x"))
        #expect([try Grant(parsing: "forward:to=unix:/tmp/x")].allowForwarding(toSocket: "/tmp/x"))
    }

    @Test func `only a name a grant might allow is looked up`() throws {
        func might(_ held: String, _ name: String, _ port: UInt16) throws -> Bool {
            [try Grant(parsing: held)].mightAllowForwarding(toName: name, port: port)
        }
        #expect(try might("forward:to=db.example.org:1", "db.example.org", 1))
        #expect(try !might("forward:to=db.example.org:1", "db.example.org", 2))
        #expect(try !might("forward:to=db.example.org:1", "secret.attacker.org", 1))
        #expect(try might("forward:to=10.0.0.0/8:1", "any.name", 1))
        #expect(try !might("forward:to=localhost:1", "any.name", 1))
        #expect(try !might("forward:to=unix:/a", "any.name", 1))
        #expect(try !might("forward:listen=*:1", "any.name", 1))
    }

    @Test(arguments: [
        ("forward", "forward:to=*:*", true), ("forward:to=*:*", "forward", false),
        ("forward", "forward:listen=localhost:80", true), ("forward", "forward:listen=*:80", false),
        ("forward:to=*:*", "forward:to=db:1", true), ("forward:to=*:*", "forward:to=10.0.0.1:1", false),
        ("forward:to=10.0.0.0/8:*", "forward:to=10.1.0.0/16:5-6", true),
        ("forward:to=10.1.0.0/16:*", "forward:to=10.0.0.0/8:1", false),
        ("forward:to=*.org:*", "forward:to=*.example.org:1", true),
        ("forward:to=*.example.org:*", "forward:to=*.org:1", false),
        ("forward:to=a:1-9", "forward:to=a:5-10", false), ("forward:listen=*:*", "forward:listen=localhost:1", false),
    ])
    func `a grant covers what it says and no more`(held: String, needed: String, covers: Bool) throws {
        #expect(try Grant(parsing: held).covers(Grant(parsing: needed)) == covers)
    }

    @Test func `random patterns survive as text, and cover themselves`() throws {
        var random = SeededRandom.fromEnvironment()
        print(random)
        for _ in 0..<5_000 {
            let pattern = Self.pattern(&random)
            let grant = Grant.forwardTo(pattern)
            let read = try Grant(parsing: grant.description)
            #expect(read == grant, "\(grant)")
            #expect(read.covers(grant))
        }
    }

    @Test func `no random text is misunderstood`() throws {
        var random = SeededRandom.fromEnvironment()
        print(random)
        let parts = [
            "forward", ":", "to=", "listen=", "*", "*.", "a", ".", "org", "10.0.0.0", "/", "8", "[", "]", "::1", "-",
            "80", "unix:", "/run", "\0", "ü", "%1", " ", "0", "999999999999999999999",
        ]
        for _ in 0..<20_000 {
            let text =
                "forward:to="
                + (0..<Int.random(in: 0..<8, using: &random)).map { _ in parts.randomElement(using: &random) ?? "" }
                .joined()
            guard let grant = Grant(text) else { continue }
            // What is taken means one thing, which its own text says.
            #expect(try Grant(parsing: grant.description) == grant, "\(text)")
        }
    }

    private static func pattern(_ random: inout SeededRandom) -> ForwardPattern {
        let ends = [UInt16.random(in: 1...65_535, using: &random), UInt16.random(in: 1...65_535, using: &random)]
            .sorted()
        let ports =
            Bool.random(using: &random)
            ? ForwardPattern.everyPort : ends[0]...ends[Int.random(in: 0...1, using: &random)]
        func name() -> String {
            (0..<Int.random(in: 1...4, using: &random)).map { _ in
                String(
                    (0..<Int.random(in: 1...12, using: &random)).map { _ in
                        "abcxyz_".randomElement(using: &random) ?? "a"
                    })
            }.joined(separator: ".")
        }
        switch Int.random(in: 0..<7, using: &random) {
        case 0: return .hosts(.any, ports: ports)
        case 1: return .hosts(.localhost, ports: ports)
        case 2: return .hosts(.name(name()), ports: ports)
        case 3: return .hosts(.beneath(name()), ports: ports)
        case 4:
            let bits = Int.random(in: 0...32, using: &random)
            let mask: UInt32 = bits == 0 ? 0 : .max << UInt32(32 - bits)
            let address = UInt32.random(in: .min ... .max, using: &random) & mask
            return .hosts(.network(NetworkAddress(ipv4: address, port: 0), bits: bits), ports: ports)
        case 5:
            let bits = Int.random(in: 1...64, using: &random)
            let high = UInt64.random(in: .min ... .max, using: &random) & (.max << UInt64(64 - bits))
            return .hosts(.network(NetworkAddress(ipv6: high, 0, port: 0), bits: bits), ports: ports)
        default: return .socket(path: "/run/\(name())")
        }
    }
}
