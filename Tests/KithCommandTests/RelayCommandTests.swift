import Foundation
import KithNet
import KithReach
import KithTesting
import KithWire
import Testing

/// `kith relay`, and devices that use it.
@Suite(.timeLimit(.minutes(4))) struct RelayCommandTests {
    /// Runs a relay of this machine's own while `body` does.
    private func withRelay(_ options: String..., body: (_ url: String) async throws -> Void) async throws {
        struct Announcement: Decodable {
            var url: String
            var isOpen: Bool
        }
        let machine = try Machine("relay")
        let running = try machine.start(
            ["relay", "--plain", "--listen", "127.0.0.1:0", "--stun", "none", "--json"] + options)
        do {
            try await eventually { running.soFar.contains("}") || !running.process.isRunning }
            let said = try JSONDecoder().decode(Announcement.self, from: Data(running.soFar.utf8))
            #expect(said.isOpen == !options.contains("--token"))
            try await body(said.url)
            running.process.terminate()
            #expect(try await running.outcome(seconds: 30).status == 0)
        } catch {
            running.process.terminate()
            await machine.remove()
            throw error
        }
        await machine.remove()
    }

    @Test(.enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/openssl")))
    func `a certificate in files is read again on SIGHUP, and the one before stays where it is no good`() async throws {
        let machine = try Machine("relay")
        let (chain, key) = (machine.path("chain.pem"), machine.path("key.pem"))
        func make() async throws {
            _ = try await Pebble.output(
                "openssl",
                [
                    "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
                    key,
                    "-out", chain, "-days", "2", "-subj", "/CN=localhost",
                ])
        }
        try await make()
        let running = try machine.start([
            "relay", "--cert", chain, "--key", key, "--listen", "127.0.0.1:0", "--listen-quic", "none", "--stun",
            "none",
        ])
        defer { running.process.terminate() }
        try await eventually { running.soFar.contains("URL") }
        try Data("no certificate".utf8).write(to: URL(fileURLWithPath: chain))
        kill(running.process.processIdentifier, SIGHUP)
        try await eventually { running.errorSoFar.contains("The one before stays in use.") }
        try await make()
        kill(running.process.processIdentifier, SIGHUP)
        try await eventually { running.errorSoFar.contains("There is a new certificate in \(chain).") }
        running.process.terminate()
        #expect(try await running.outcome(seconds: 30).status == 0)
        await machine.remove()
    }

    private func network(_ machine: Machine) async throws -> String {
        try await machine.kith(["doctor", "--network"]).output
    }

    @Test func `a device keeps its relay, and those it invites are found there, too`() async throws {
        try await withRelay { url in
            let (laptop, phone) = (try Machine("laptop"), try Machine("phone"))
            do {
                try await laptop.up("--no-discovery", "--no-port-mapping", "--use-relay", url)
                try await phone.up("--no-discovery", "--no-port-mapping")
                #expect(try await network(phone).contains("relays: None"))
                try await eventually { try await network(laptop).contains("relay \(url): Connected") }
                try await laptop.invite(phone, "shell")
                try await eventually { try await network(phone).contains("relay \(url): Connected") }
                #expect(try await phone.expect("devices").contains("  lan "))
                // Kept over a restart at both ends, until its person says otherwise.
                for machine in [laptop, phone] {
                    try await machine.expect("down")
                    try await machine.up("--no-discovery", "--no-port-mapping")
                    try await eventually { try await network(machine).contains("relay \(url): Connected") }
                }
                try await laptop.expect("down")
                try await laptop.up("--no-discovery", "--use-relay", "none")
                #expect(try await network(laptop).contains("relays: None"))
                #expect(try await laptop.expect("doctor").contains("relays: None"))
            } catch {
                await laptop.remove()
                await phone.remove()
                throw error
            }
            await laptop.remove()
            await phone.remove()
        }
    }

    @Test func `a relay that wants a token lets nobody in without it, and says what to do`() async throws {
        try await withRelay("--token", "open-sesame") { url in
            let laptop = try Machine("laptop")
            do {
                try await laptop.up("--no-discovery", "--no-port-mapping", "--use-relay", url)
                try await eventually { try await network(laptop).contains("does not let this device in") }
                #expect(try await network(laptop).contains("--relay-token"))
                let problem = try await laptop.kith(["doctor", "--network"])
                #expect(
                    problem.status == 1 && problem.output.contains("\nNot well: It does not let this"), "\(problem)")
                try await laptop.expect("down")
                try write("open-sesame\n", to: laptop.path("token"))
                try await laptop.up(
                    "--no-discovery", "--no-port-mapping", "--use-relay", url, "--relay-token",
                    "@" + laptop.path("token"))
                try await eventually { try await network(laptop).contains("relay \(url): Connected") }
                let status = try await laptop.expect("status", "--json")
                #expect(!status.contains("open-sesame"))
                // Given as it is, it is not among what every user of the machine sees.
                try await laptop.expect("down")
                try await laptop.up(
                    "--no-discovery", "--no-port-mapping", "--use-relay", url, "--relay-token", "open-sesame")
                try await eventually { try await network(laptop).contains("relay \(url): Connected") }
                struct Status: Decodable { var pid: Int }
                let pid = try JSONDecoder().decode(
                    Status.self, from: Data(try await laptop.expect("status", "--json").utf8)
                ).pid
                let arguments = try String(contentsOfFile: "/proc/\(pid)/cmdline", encoding: .utf8)
                #expect(arguments.contains("--relay-token") && !arguments.contains("open-sesame"))
                let left = try FileManager.default.contentsOfDirectory(atPath: laptop.data)
                #expect(!left.contains { $0.contains("relay-token") })
            } catch {
                await laptop.remove()
                throw error
            }
            await laptop.remove()
        }
    }

    @Test func `a relay that proves another key than its URL names is an error, whatever plain TCP says`() async throws
    {
        try await withRelay { url in
            let laptop = try Machine("laptop")
            do {
                let (place, expected) = (url.prefix { $0 != "#" }, DeviceKey().id)
                try await laptop.up("--no-discovery", "--no-port-mapping", "--use-relay", "\(place)#\(expected)")
                let found = "it proved the key \(url.dropFirst(place.count + 1)), not the expected \(expected)"
                try await eventually { try await network(laptop).contains("Not connected: \(found)") }
                let outcome = try await laptop.kith(["doctor", "--network"])
                #expect(outcome.status == 1 && outcome.output.contains("\nNot well: Not connected: \(found)"))
                #expect(outcome.output.contains("its URL is the one it prints, with its key"))
            } catch {
                await laptop.remove()
                throw error
            }
            await laptop.remove()
        }
    }

    @Test func `a relay that comes by plain TCP alone has not proven the key of its URL, and that is said`()
        async throws
    {
        try await withRelay("--listen-quic", "none") { url in
            let laptop = try Machine("laptop")
            do {
                try await laptop.up("--no-discovery", "--no-port-mapping", "--use-relay", "\(url)#\(DeviceKey().id)")
                try await eventually { try await network(laptop).contains("It has not proven its key") }
                #expect(try await laptop.kith(["doctor", "--network"]).status == 0)
            } catch {
                await laptop.remove()
                throw error
            }
            await laptop.remove()
        }
    }

    @Test(arguments: [
        (["--use-relay", "https://127.0.0.1:1"], "Not connected: nothing listens there. It is tried again."),
        (
            ["--use-relay", "https://relay.example", "--proxy", "http://127.0.0.1:1"],
            "Not connected: the proxy http://127.0.0.1:1 cannot be reached: nothing listens there."
        ),
    ])
    func `a device without a working relay is not well, in plain words`(words: [String], reason: String) async throws {
        let laptop = try Machine("laptop")
        do {
            try await laptop.up(["--no-discovery", "--no-port-mapping"] + words)
            try await eventually { try await network(laptop).contains("\nNot well: \(reason)") }
            let outcome = try await laptop.kith(["doctor", "--network"])
            #expect(outcome.status == 1 && outcome.output.contains(" Next: "), "\(outcome)")
            #expect(!outcome.output.contains("errno"), "\(outcome)")
        } catch {
            await laptop.remove()
            throw error
        }
        await laptop.remove()
    }

    @Test func `a device whose relay is gone is said to be silent, with the ways that were tried`() async throws {
        let (machine, laptop, phone) = (try Machine("relay"), try Machine("laptop"), try Machine("phone"))
        do {
            _ = try await runRelay(machine, "--plain") { relay in
                try await laptop.up("--no-discovery", "--no-port-mapping", "--use-relay", relay.url)
                try await phone.up("--no-discovery", "--no-port-mapping", "--use-relay", relay.url)
                try await laptop.invite(phone)
                try await phone.expect("path", "laptop", "relay")
                try await phone.expect("ping", "laptop", "--count", "1")
            }
            let outcome = try await phone.kith(["ping", "laptop", "--count", "1"])
            #expect(outcome.status != 0 && !outcome.error.contains("not done in time"), "\(outcome)")
            #expect(outcome.error.contains("relay") && outcome.error.contains("http://127.0.0.1:"), "\(outcome)")
        } catch {
            for machine in [machine, laptop, phone] { await machine.remove() }
            throw error
        }
        for machine in [machine, laptop, phone] { await machine.remove() }
    }

    @Test func `a way that no relay serves is named, with what helps`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone)
            let held = try await phone.kith(["ping", "laptop", "--path", "relay", "--count", "1"])
            #expect(held.status != 0 && held.error.contains("without --path relay it is reached directly"), "\(held)")
            try await phone.expect("path", "laptop", "relay")
            let kept = try await phone.kith(["ping", "laptop", "--count", "1"])
            #expect(kept.status != 0 && kept.error.contains("No relay leads to laptop"), "\(kept)")
            #expect(kept.error.contains("`kith path laptop auto` lets it be reached directly"), "\(kept)")
        }
    }

    @Test(
        .enabled(
            if: NetworkInterface.all.contains { interface in
                interface.leadsElsewhere && interface.addresses.contains { !$0.isLoopback && !$0.isLinkLocal }
            }, "this machine has no address but its loopback's"))
    func `a relay at every address prints addresses, which others know, and not the machine's name`() async throws {
        let machine = try Machine("relay")
        let relay = try await runRelay(machine, "--plain", "--listen", "0")
        let host = try #require(RelayAddress(relay.url)).host
        let own = NetworkInterface.all.flatMap(\.addresses).map { "\($0)" }
        #expect(own.contains { $0.contains(host) }, "\(relay.url)")
        await machine.remove()
    }

    @Test func `a relay at an address of a local network is used, but said to be unknown elsewhere`() async throws {
        let laptop = try Machine("laptop")
        for (host, isLocal) in [("10.255.255.1", true), ("relay.example", false)] {
            let words = ["--no-invite", "--no-discovery", "--no-port-mapping", "--use-relay", "http://\(host):1"]
            let up = try await laptop.kith(["up", "--detach"] + words)
            #expect(up.status == 0 && up.error.contains("\(host) is an address of a local network") == isLocal, "\(up)")
            let said = "devices on other networks do not reach it there"
            #expect(try await network(laptop).contains(said) == isLocal)
            try await laptop.expect("down")
        }
        await laptop.remove()
    }

    @Test func `a relay keeps its token while others are used, until all are forgotten`() async throws {
        try await withRelay("--token", "open-sesame") { url in
            let laptop = try Machine("laptop")
            do {
                func use(_ words: String...) async throws {
                    try await laptop.up(["--no-discovery", "--no-port-mapping", "--use-relay"] + words)
                }
                try await use(url, "--relay-token", "open-sesame")
                try await laptop.expect("down")
                try await use("https://127.0.0.1:1", "--relay-token", "another")
                try await laptop.expect("down")
                try await use(url)
                try await eventually { try await network(laptop).contains("relay \(url): Connected") }
                try await laptop.expect("down")
                try await use("none")
                try await laptop.expect("down")
                try await use(url)
                try await eventually { try await network(laptop).contains("does not let this device in") }
            } catch {
                await laptop.remove()
                throw error
            }
            await laptop.remove()
        }
    }

    @Test func `a relay that is named with its key and without is one, and keeps the key`() async throws {
        struct Status: Decodable { var relays: [String]? }
        let laptop = try Machine("laptop")
        do {
            let relay = "https://127.0.0.1:1"
            let keyed = "\(relay)#\(DeviceKey().id)"
            let other = "\(relay)#\(DeviceKey().id)"
            for (given, expected) in [
                ([relay, keyed], [keyed]), ([relay], [keyed]), ([other], [other]), ([relay], [other]),
            ] {
                try await laptop.up(["--no-discovery", "--no-port-mapping"] + given.flatMap { ["--use-relay", $0] })
                let status = try await laptop.expect("status", "--json")
                #expect(try JSONDecoder().decode(Status.self, from: Data(status.utf8)).relays == expected)
                try await laptop.expect("down")
            }
        } catch {
            await laptop.remove()
            throw error
        }
        await laptop.remove()
    }

    @Test(
        .enabled(
            if: NetworkInterface.all.contains { interface in
                interface.leadsElsewhere && interface.addresses.contains { !$0.isLoopback && !$0.isLinkLocal }
            }, "this machine has no address but its loopback's"))
    func `a device is reached through the relay or directly, as its person wants it`() async throws {
        try await withRelay { url in
            let (laptop, phone) = (try Machine("laptop"), try Machine("phone"))
            do {
                try await laptop.up("--no-discovery", "--no-port-mapping", "--use-relay", url)
                try await phone.up("--no-discovery", "--no-port-mapping")
                try await laptop.invite(phone, "shell")
                for machine in [laptop, phone] {
                    try await eventually { try await network(machine).contains("relay \(url): Connected") }
                }
                let ping = try await phone.expect("ping", "laptop", "--path", "relay", "--count", "2")
                #expect(ping.contains("through the relay \(url)") && ping.contains("2 of 2"))
                let direct = try await phone.expect("ping", "laptop", "--path", "direct", "--count", "1")
                #expect(direct.contains("reached at"))
                #expect(try await phone.expect("path") == "all devices  auto\n")
                #expect(try await phone.expect("path", "lap", "relay") == "laptop  relay\n")
                try await phone.expect("ping", "laptop", "--count", "1")
                // The host is enough for a table; the key stands where there is more about one device.
                let host = url.dropFirst("http://".count).prefix { $0 != "#" }
                #expect(try await phone.expect("devices").contains("  relay \(host) by QUIC ("))
                #expect(try await phone.expect("devices", "--json").contains("\"relayCarrier\""))
                #expect(try await phone.expect("devices", "laptop").contains("relay \(url) by QUIC ("))
                // Kept over a restart.
                try await phone.expect("down")
                try await phone.up("--no-discovery", "--no-port-mapping")
                try await phone.expect("ping", "laptop", "--count", "1")
                #expect(try await phone.expect("devices").contains("  relay "))
                #expect(try await phone.expect("path", "laptop", "auto") == "laptop  auto\n")
                try await eventually { try await phone.expect("devices").contains("  lan ") }
                let refused = try await phone.kith(["path", "laptop", "sideways"])
                #expect(refused.status == 64 && refused.error.contains("auto, direct, relay or local"))
            } catch {
                for machine in [laptop, phone] { await machine.remove() }
                throw error
            }
            for machine in [laptop, phone] { await machine.remove() }
        }
    }

    #if os(Linux)
    @Test func `a relay inside a device serves those it is paired with, as long as they are, and nobody else`()
        async throws
    {
        let (laptop, phone, other) = (try Machine("laptop"), try Machine("phone"), try Machine("other"))
        let host = NetworkAddress.ownLoopback().ipv4Text
        do {
            let up = try await laptop.kith([
                "up", "--detach", "--no-invite", "--name", "laptop", "--no-discovery", "--no-port-mapping", "--relay",
                "--relay-address", host, "--relay-listen", "\(host):3340", "--relay-stun", "none",
            ])
            #expect(up.status == 0 && up.error.contains("stands behind a NAT"), "\(up)")
            struct Status: Decodable {
                var id: String
                var relays: [String]?
            }
            func status(_ machine: Machine) async throws -> Status {
                try JSONDecoder().decode(Status.self, from: Data(try await machine.expect("status", "--json").utf8))
            }
            let url = try #require(try await status(laptop).relays?.first)
            #expect(url.hasPrefix("https://\(host):3340#"))
            try await eventually { try await network(laptop).contains("relay \(url): Connected") }
            try await phone.up("--no-discovery", "--no-port-mapping")
            try await laptop.invite(phone, "shell")
            try await eventually { try await network(phone).contains("relay \(url): Connected") }
            // Whoever is not paired does not get in, and whoever takes another key for its own does not connect.
            try await other.up("--no-discovery", "--no-port-mapping", "--use-relay", url)
            try await eventually { try await network(other).contains("for the devices of its owner") }
            try await other.expect("down")
            let forged = url.prefix { $0 != "#" } + "#" + (try await status(other).id)
            try await other.up("--no-discovery", "--no-port-mapping", "--use-relay", String(forged))
            try await eventually { try await network(other).contains("Not connected: ") }
            // Forgotten, a device is off the relay within half a minute.
            try await laptop.expect("forget", "phone")
            try await eventually { try await network(phone).contains("for the devices of its owner") }
        } catch {
            for machine in [laptop, phone, other] { await machine.remove() }
            throw error
        }
        for machine in [laptop, phone, other] { await machine.remove() }
    }
    #endif

    @Test func `devices that moved find each other by a directory`() async throws {
        try await withRelay { url in
            let (laptop, phone, server) = (try Machine("laptop"), try Machine("phone"), try Machine("directory"))
            let running = try server.start(
                ["directory", "--data", server.data, "--listen", "127.0.0.1:0", "--json"])
            do {
                struct Announcement: Decodable { var directory: String }
                try await eventually { running.soFar.contains("}") || !running.process.isRunning }
                let directory = try JSONDecoder().decode(Announcement.self, from: Data(running.soFar.utf8)).directory
                for machine in [laptop, phone] {
                    try await machine.up("--no-discovery", "--no-port-mapping", "--directory", directory)
                }
                try await laptop.invite(phone, "shell")
                for machine in [laptop, phone] { try await machine.expect("down") }
                // Each at another port than before, and at a relay that neither has heard of from the other.
                for machine in [laptop, phone] {
                    try await machine.up("--no-discovery", "--no-port-mapping", "--port", "0", "--use-relay", url)
                    try await eventually { try await network(machine).contains("relay \(url): Connected") }
                }
                try await eventually { try await phone.kith(["ping", "laptop", "--count", "1"]).status == 0 }
                let keeps = "directory \(directory): It keeps this device's record."
                try await eventually { try await network(phone).contains("\(keeps) It answered the last question.") }
                #expect(
                    try await phone.expect("status").contains(
                        "  directory  \(directory)  keeps this device's record, answered the last question\n"))
                // The name of its record is there to be read.
                struct Status: Decodable { var zBase32: String }
                let status = try await laptop.expect("status", "--json")
                let name = try JSONDecoder().decode(Status.self, from: Data(status.utf8)).zBase32
                #expect(try await laptop.expect("status").contains("  z-base-32  \(name)\n"))
                let record = try await laptop.bash("curl -q -sS --noproxy '' '\(directory)/\(name)' | strings")
                #expect(record.output.contains("relay=\(url)"), "\(record)")
            } catch {
                running.process.terminate()
                for machine in [laptop, phone, server] { await machine.remove() }
                throw error
            }
            running.process.terminate()
            for machine in [laptop, phone, server] { await machine.remove() }
        }
    }

    /// Starts a device whose relay is at a name that only a proxy knows.
    private func up(_ machine: Machine, _ more: String..., environment: [String: String] = [:]) async throws {
        let words = ["--no-invite", "--no-discovery", "--no-port-mapping", "--use-relay", "http://relay.example"]
        let running = try machine.start(["up", "--detach"] + words + more, environment: environment)
        let outcome = try await running.outcome(seconds: 60)
        #expect(outcome.status == 0, "\(outcome)")
    }

    @Test(.enabled(if: PythonPeer.isInstalled("asyncio")))
    func `a device reaches its relay through a proxy, whose password nobody sees`() async throws {
        struct Line: Decodable { var port: UInt16? }
        let laptop = try Machine("laptop")
        do {
            try await withRelay("--listen-quic", "none") { url in
                let arguments = ["proxy", String(url.dropFirst("http://".count)), "who:s3cr3t"]
                try await PythonPeer.run("hostile_network.py", arguments) { peer in
                    let proxy = "127.0.0.1:\(try #require(try await peer.next(Line.self).port))"
                    let connected = "relay http://relay.example: Connected through the proxy http://\(proxy)"
                    try await up(laptop, "--proxy", "http://who:s3cr3t@\(proxy)")
                    try await eventually { try await network(laptop).contains(connected) }
                    #expect(
                        try await network(laptop).contains(
                            "proxy: Relays are reached through http://\(proxy), with a name and a password."))
                    let pid = try await laptop.daemonPID()
                    for text in [
                        try await network(laptop), try await laptop.expect("doctor", "--network", "--json"),
                        try await laptop.expect("status", "--json"),
                        try String(contentsOfFile: "/proc/\(pid)/cmdline", encoding: .utf8),
                        try String(contentsOfFile: laptop.data + "/kith.log", encoding: .utf8),
                    ] { #expect(!text.contains("s3cr3t")) }
                    let left = try FileManager.default.contentsOfDirectory(atPath: laptop.data)
                    #expect(!left.contains { $0.contains("proxy") })
                    // Kept, until its person says otherwise.
                    try await laptop.expect("down")
                    try await up(laptop)
                    try await eventually { try await network(laptop).contains(connected) }
                    try await laptop.expect("down")
                    try await up(laptop, "--proxy", "none", environment: ["http_proxy": "who:s3cr3t@\(proxy)"])
                    try await eventually { try await network(laptop).contains("relay.example: Not connected: ") }
                    #expect(try await !network(laptop).contains("proxy"))
                    try await laptop.expect("down")
                    try await up(laptop, "--proxy", "environment", environment: ["http_proxy": "who:wrong@\(proxy)"])
                    try await eventually {
                        try await network(laptop).contains(
                            "the proxy http://\(proxy) does not accept the name and password it is given")
                    }
                    try await laptop.expect("down")
                    try await up(laptop, environment: ["http_proxy": "socks5://s3cr3t"])
                    try await eventually { try await network(laptop).contains("http_proxy names no proxy: ") }
                    #expect(try await !network(laptop).contains("s3cr3t"))
                }
            }
        } catch {
            await laptop.remove()
            throw error
        }
        await laptop.remove()
    }

    @Test func `what is no proxy is refused before anything is kept, and not quoted`() async throws {
        let laptop = try Machine("laptop")
        for url in ["socks5://s3cr3t:1080", "http://who:s3/cr3t@proxy:1", "http://who:s3cr3t@proxy:99999"] {
            let outcome = try await laptop.kith(["up", "--detach", "--proxy", url])
            #expect(outcome.status == 64 && outcome.error.contains("--proxy takes"), "\(outcome)")
            #expect(!"\(outcome)".contains("cr3t"))
        }
        #expect(!FileManager.default.fileExists(atPath: laptop.data))
        await laptop.remove()
    }

    @Test func `what is no relay is refused before anything is kept`() async throws {
        let laptop = try Machine("laptop")
        for words in [
            ["--use-relay", "ftp://relay.example.org"], ["--use-relay", "none", "--use-relay", "https://a.example"],
            ["--relay-token", "x"],
        ] {
            let outcome = try await laptop.kith(["up", "--detach"] + words)
            #expect(outcome.status == 64 && outcome.error.contains("relay"), "\(outcome)")
        }
        #expect(!FileManager.default.fileExists(atPath: laptop.data))
        await laptop.remove()
    }

    @Test func `options that do not go together are refused, and --no-tls is still understood`() async throws {
        let machine = try Machine("relay")
        for words in [
            [], ["--cert", "a"], ["--no-tls", "--domain", "a.example"], ["--domain", "a.example", "--cert", "a"],
            ["--plain", "--cert", "a"], ["--domain", "*.example"], ["--domain", "a.example", "--domain", "A.example"],
            ["--plain", "--agree-to-terms"], ["--cert", "a", "--key", "b", "--email", "me@example.org"],
            ["--domain", "a.example", "--email", "me"], ["--domain", "a.example", "--acme-directory", "http://a/"],
        ] {
            let outcome = try await machine.kith(["relay"] + words)
            #expect(outcome.status == 64, "\(words): \(outcome)")
        }
        #expect(!FileManager.default.fileExists(atPath: machine.data))
        // Beside a certificate --plain is not about TLS.
        let outcome = try await machine.kith(["relay", "--plain", "--cert", "a", "--key", "b"])
        #expect(outcome.status == 64 && outcome.error.contains("cannot be used"), "\(outcome)")
        let words = ["relay", "--no-tls", "--listen", "127.0.0.1:0", "--stun", "none", "--allow", "\(DeviceKey().id)"]
        let running = try machine.start(words)
        try await eventually { running.soFar.contains("1 key, 0 tokens\n") || !running.process.isRunning }
        #expect(running.soFar.contains("http://127.0.0.1:"))
        running.process.terminate()
        #expect(try await running.outcome(seconds: 30).status == 0)
        await machine.remove()
    }

    private struct OwnRelay: Decodable {
        var url: String
        var urlWithoutKey: String?
        var key: String?
        var quicAddress: String?
    }

    /// What a relay says when it is up, while `body` runs.
    private func runRelay(
        _ machine: Machine, _ options: String..., body: (OwnRelay) async throws -> Void = { _ in }
    ) async throws -> OwnRelay {
        let running = try machine.start(["relay", "--listen", "127.0.0.1:0", "--stun", "none", "--json"] + options)
        defer { running.process.terminate() }
        try await eventually { running.soFar.contains("}") || !running.process.isRunning }
        let said = try JSONDecoder().decode(OwnRelay.self, from: Data(running.soFar.utf8))
        try await body(said)
        running.process.terminate()
        #expect(try await running.outcome(seconds: 30).status == 0)
        return said
    }

    @Test func `a relay is known by a key of its own, and reached by QUIC or TCP`() async throws {
        let (machine, laptop) = (try Machine("relay"), try Machine("laptop"))
        do {
            let first = try await runRelay(machine, "--self-signed") { relay in
                try await laptop.up("--no-discovery", "--no-port-mapping", "--use-relay", relay.url)
                try await eventually { try await network(laptop).contains("relay \(relay.url): Connected by QUIC") }
                #expect(try await laptop.expect("doctor", "--network", "--json").contains("\"carrier\" : \"quic\""))
                try await laptop.expect("down")
            }
            #expect(try first.url.hasPrefix("https://127.0.0.1:") && first.url.hasSuffix("#\(#require(first.key))"))
            #expect(first.urlWithoutKey == nil && first.quicAddress?.hasPrefix("127.0.0.1:") == true)
            let file = machine.data + "/relay/key"
            let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int
            #expect(mode == 0o600)
            // The same key by whatever carrier; without QUIC it is TLS that it proves.
            let second = try await runRelay(machine, "--self-signed", "--listen-quic", "none") { relay in
                #expect(relay.key == first.key && relay.quicAddress == nil)
                try await laptop.up("--no-discovery", "--no-port-mapping", "--use-relay", relay.url)
                try await eventually { try await network(laptop).contains("relay \(relay.url): Connected by TCP") }
                try await laptop.expect("down")
            }
            #expect(second.url != first.url)
            let plain = try await runRelay(machine, "--plain")
            #expect(plain.key == first.key && plain.urlWithoutKey.map { plain.url.hasPrefix($0 + "#") } == true)
            let without = try await runRelay(machine, "--plain", "--listen-quic", "none")
            #expect(without.key == nil && !without.url.contains("#"))
            // A key that others may read is not used, nor is a damaged one.
            try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: file)
            let open = try await machine.kith(["relay", "--self-signed", "--listen", "127.0.0.1:0"])
            #expect(open.status != 0 && open.error.contains("relay/key"), "\(open)")
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file)
            try Data("00ff\n".utf8).write(to: URL(filePath: file))
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file)
            let damaged = try await machine.kith(["relay", "--self-signed", "--listen", "127.0.0.1:0"])
            #expect(damaged.status != 0 && damaged.error.contains("is damaged"), "\(damaged)")
        } catch {
            for machine in [machine, laptop] { await machine.remove() }
            throw error
        }
        for machine in [machine, laptop] { await machine.remove() }
    }
}
