import Foundation
import KithAPI
@testable import KithCommand
import KithTesting
import KithWire
import Testing

/// `kith forward` and `kith via` between two daemons, with other people's programs at both ends.
@Suite struct ForwardTests {
    @Test func `the credentials of via are 128 bits, every byte in two digits`() {
        let drawn = (0..<100).map { _ in ViaCommand.freshCredentials() }
        for credentials in drawn {
            let secret = credentials.dropFirst("kith:".count)
            #expect(credentials.hasPrefix("kith:") && Hex.decode(secret)?.count == 16, "\(credentials)")
        }
        #expect(Set(drawn).count == drawn.count)
    }

    @Test func `a hundred megabytes arrive as they were sent, both ways at once`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "forward")
            let peer = try Counterpart("echo")
            let port = try await phone.forward("laptop", "-L", "0:127.0.0.1:\(peer.port)")
            let outcome = try await Script.run(
                """
                import hashlib, random, socket, sys, threading
                block, count = random.Random(20261121).randbytes(1 << 20), 100
                s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
                def send():
                    for _ in range(count): s.sendall(block)
                    s.shutdown(socket.SHUT_WR)
                threading.Thread(target=send).start()
                got, size = hashlib.sha256(), 0
                while data := s.recv(1 << 18):
                    got.update(data); size += len(data)
                want = hashlib.sha256()
                for _ in range(count): want.update(block)
                print(size, got.digest() == want.digest())
                """, "\(port)")
            #expect(outcome == "104857600 True\n")
            let list = try await phone.json(["forward", "--list", "--json"], as: Forward.List.Output.self)
            #expect(list.running.first?.rules.first?.sent == 104_857_600)
            #expect(list.running.first?.rules.first?.received == 104_857_600)
        }
    }

    @Test func `downloads that were paused hold up nothing else`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "forward", "shell")
            let (source, echo) = (try Counterpart("source", "2000000000"), try Counterpart("echo"))
            let paused = try await phone.forward("laptop", "-L", "0:127.0.0.1:\(source.port)")
            let live = try await phone.forward("laptop", "-L", "0:127.0.0.1:\(echo.port)")
            let outcome = try await Script.run(
                """
                import socket, sys
                socket.setdefaulttimeout(120)
                paused = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(40)]
                for s in paused: s.recv(1 << 20)
                s = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
                count = 0
                for _ in range(200):
                    s.sendall(b"x" * 50000)
                    got = 0
                    while got < 50000: got += len(s.recv(50000 - got))
                    count += got
                print(count)
                """, "\(paused)", "\(live)")
            #expect(outcome == "10000000\n")
            try await phone.expect("shell", "laptop", "--", "true")
        }
    }

    @Test func `every kind of forward carries what curl asks for`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "forward")
            let peer = try Counterpart("http")
            let url = "http://127.0.0.1:\(peer.port)/page"
            let local = try await phone.forward("laptop", "-L", "0:localhost:\(peer.port)")
            let remote = try await phone.forward("laptop", "-R", "0:localhost:\(peer.port)")
            let proxy = try await phone.forward("laptop", "-D", "0")
            for arguments in [
                ["http://127.0.0.1:\(local)/page"], ["http://127.0.0.1:\(remote)/page"],
                ["--socks5-hostname", "127.0.0.1:\(proxy)", url], ["--proxy", "127.0.0.1:\(proxy)", url],
                ["--proxytunnel", "--proxy", "127.0.0.1:\(proxy)", url],
            ] {
                let text = try await Script.command(["curl", "-q", "-sS", "--noproxy", ""] + arguments)
                #expect(text.hasPrefix("GET /page"), "\(arguments): \(text)")
            }
            let inbound = try await laptop.json(["forward", "--list", "--json"], as: Forward.List.Output.self).inbound
            #expect(inbound.map(\.device) == ["phone"])
            #expect(inbound.map(\.method) == ["forward.listen"])
        }
    }

    @Test func `a grant opens what it says, and taking it away cuts what runs`() async throws {
        try await withTwoMachines { laptop, phone in
            let (granted, other) = (try Counterpart("echo"), try Counterpart("echo"))
            try await laptop.invite(phone, "forward:to=127.0.0.1:\(granted.port)", "forward:to=10.0.0.0/8:*")
            let denied = try await phone.kith(["via", "laptop", "127.0.0.1", "\(other.port)"])
            #expect(denied.status == 5)
            #expect(denied.error.contains("kith grant phone --add forward:to=127.0.0.1:\(other.port)"), "\(denied)")

            let port = try await phone.forward("laptop", "-L", "0:127.0.0.1:\(granted.port)")
            let connection = try Script.start(
                """
                import socket, sys
                s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
                s.sendall(b"hello")
                print(s.recv(5).decode(), flush=True)
                try:
                    print("end" if s.recv(1) == b"" else "data")
                except ConnectionResetError:
                    print("reset")
                """, "\(port)")
            #expect(try await connection.line() == "hello")
            // Another forward grant stays: the connection relied on this one.
            try await laptop.expect("grant", "phone", "--remove", "forward:to=127.0.0.1:\(granted.port)")
            let ending = try await connection.rest()
            #expect(ending.hasSuffix("reset\n"))

            let audit = try await laptop.expect("audit", "--json")
            #expect(audit.contains("forward 127.0.0.1:\(granted.port)"), "\(audit)")
            #expect(audit.contains("\"denied\""))
            #expect(audit.contains("\"127.0.0.1:\(other.port)\""))
        }
    }

    @Test func `what the other device does not allow is refused at once, with what would allow it`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "forward:to=127.0.0.1:7")
            for (rule, what) in [
                (["-L", "0:127.0.0.1:80"], "127.0.0.1:80"), (["-L", "0:db.lan:5432"], "db.lan:5432"),
                (["-L", "0:/run/x.sock"], "unix:/run/x.sock"), (["-L", "udp:0:127.0.0.1:53"], "127.0.0.1:53"),
            ] {
                for command in [["forward", "laptop"] + rule, ["forward", "laptop", "--detach"] + rule] {
                    let outcome = try await phone.kith(command, seconds: 30)
                    #expect(outcome.status == 5 && outcome.output.isEmpty, "\(command): \(outcome)")
                    #expect(
                        outcome.error.contains("This needs the grant forward:to=\(what). On the other device: kith"),
                        "\(outcome)")
                }
            }
            // The same is said in the same words, whoever finds out.
            let via = try await phone.kith(["via", "laptop", "127.0.0.1", "80"], seconds: 30)
            #expect(via.status == 5, "\(via)")
            #expect(
                via.error.contains(
                    "This needs the grant forward:to=127.0.0.1:80. On the other device: kith grant phone --add forward:to="
                ),
                "\(via)")
            // The advice is a command that helps.
            let denied = try await phone.kith(["forward", "laptop", "--detach", "-L", "0:127.0.0.1:80"])
            let advice = try #require(denied.error.split(separator: "On the other device: kith ").last)
            try await laptop.kith(advice.split(whereSeparator: \.isWhitespace).map(String.init))
            _ = try await phone.forward("laptop", "-L", "0:127.0.0.1:80")
            _ = try await phone.forward("laptop", "-L", "0:127.0.0.1:7")
            // Nobody knows what a device allows that is away: what listens waits for it.
            try await laptop.expect("down")
            _ = try await phone.forward("laptop", "-L", "0:127.0.0.1:81")
        }
    }

    @Test func `a forward that is kept is up again after the daemon was killed, until it is stopped`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "forward")
            let peer = try Counterpart("http")
            func list() async throws -> [Forward.Running] {
                try await phone.json(["forward", "--list", "--json"], as: Forward.List.Output.self).running
            }
            func get(_ port: UInt16) async throws -> String {
                try await Script.command(
                    [
                        "curl", "-q", "-sS", "--noproxy", "", "--retry", "50", "--retry-all-errors", "--retry-delay",
                        "1",
                        "http://127.0.0.1:\(port)/page",
                    ])
            }
            let started = try await phone.kith(["forward", "laptop", "-L", "0:localhost:\(peer.port)", "--keep"])
            #expect(started.status == 0 && started.error.contains("whenever this device is"), "\(started)")
            let port = try #require(try await list().first?.rules.first?.listening.first?.port)
            _ = try await phone.forward("laptop", "-L", "0:localhost:\(peer.port)")
            #expect(try await get(port).hasPrefix("GET /page"))

            try await laptop.expect("rename", "phone", "telephone")
            try await phone.expect("rename", "laptop", "desk")
            try await phone.killDaemon()
            // It is listed, as down, by a command that finds no daemon.
            #expect(try await phone.expect("forward", "--list").contains("this device is down"))
            try await phone.up()
            #expect(try await list().map(\.isKept) == [true])
            #expect(try await get(port).hasPrefix("GET /page"))

            try await phone.expect("down")
            try await laptop.expect("down")
            try await phone.up()
            // The other device is away: what listens here is there.
            #expect(try await list().first?.rules.first?.listening.first?.port == port)
            try await laptop.up()
            #expect(try await get(port).hasPrefix("GET /page"))

            let id = try #require(try await list().first?.id)
            try await phone.expect("forward", "--stop", "\(id)")
            try await phone.killDaemon()
            try await phone.up()
            #expect(try await list().isEmpty)
        }
    }

    @Test func `a grant that is none is refused with what would be right`() async throws {
        let phone = try Machine("phone")
        let outcome = try await phone.kith(["grant", "laptop", "--add", "forward:to=10.0.0.1/8:22"])
        #expect(outcome.status == 64)
        #expect(outcome.error.contains("write the network's first address"), "\(outcome)")
        await phone.remove()
    }

    @Test func `what listens outlives the other device`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "forward")
            let peer = try Counterpart("http")
            let local = try await phone.forward("laptop", "-L", "0:127.0.0.1:\(peer.port)")
            let remote = try await phone.forward("laptop", "-R", "0:127.0.0.1:\(peer.port)")
            func get(_ port: UInt16) async throws -> Bool {
                try await Script.command(
                    ["curl", "-q", "-sS", "--noproxy", "", "--max-time", "20", "http://127.0.0.1:\(port)/"]
                ).hasPrefix("GET /")
            }
            #expect(try await get(local))
            #expect(try await get(remote))
            try await laptop.killDaemon()
            try await laptop.up()
            for port in [local, remote] {
                try await eventually { try await get(port) }
            }
        }
    }

    @Test func `forwards live in the daemon until stopped, or with their command`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "forward")
            _ = try await phone.forward("laptop", "-D", "0")
            let shown = try await phone.expect("forward", "--list")
            #expect(shown.contains("SOCKS5 and HTTP"))
            func running() async throws -> [Forward.Running] {
                try await phone.json(["forward", "--list", "--json"], as: Forward.List.Output.self).running
            }
            let id = try #require(try await running().first?.id)
            try await phone.expect("forward", "--stop", "\(id)")
            #expect(try await running().isEmpty)
            #expect(try await phone.kith(["forward", "--stop", "\(id)"]).status == 3)

            let foreground = try phone.start(["forward", "laptop", "-L", "0:localhost:80", "-D", "0"])
            try await eventually { try await !running().isEmpty }
            #expect(try await running().first?.rules.count == 2)
            kill(foreground.process.processIdentifier, SIGINT)
            let outcome = try await foreground.outcome(seconds: 20)
            #expect(outcome.status == 0, "\(outcome)")
            #expect(outcome.output.contains("→ localhost:80\n"), "\(outcome)")
            try await eventually { try await running().isEmpty }
            #expect(try await running().isEmpty)
        }
    }

    @Test func `a shell carries ports while its command runs, and ends with its status`() async throws {
        try await withTwoMachines { laptop, phone in
            let there = laptop.path("there")
            try await laptop.invite(phone, "shell", "forward", "forward:listen=unix:\(there)")
            let peer = try Counterpart("http")
            let rule = "\(there):127.0.0.1:\(peer.port)"
            let ask = "curl -s --unix-socket \(there) http://localhost/through-the-shell; exit 7"
            let outcome = try await phone.kith(["shell", "laptop", "-R", rule, "--", ask])
            #expect(outcome.status == 7 && outcome.output.contains("/through-the-shell"), "\(outcome)")
            try await eventually { !FileManager.default.fileExists(atPath: there) }
            #expect(!FileManager.default.fileExists(atPath: there))

            let refused = try await phone.kith(["shell", "laptop", "-R", "\(there)2:127.0.0.1:1", "--", "echo ran"])
            #expect(refused.status == 5 && refused.output.isEmpty, "\(refused)")
            #expect(refused.error.contains("forward:listen=unix:"), "\(refused)")
        }
    }

    @Test func `a command runs here and reaches the network there`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "forward")
            let peer = try Counterpart("http")
            let url = "http://127.0.0.1:\(peer.port)/via"
            for proxy in ["", "HTTP_PROXY= http_proxy= ", "ALL_PROXY= all_proxy= "] {
                let outcome = try await phone.kith(["via", "laptop", "--", "sh", "-c", "\(proxy)curl -q -sS \(url)"])
                #expect(outcome.output.hasPrefix("GET /via"), "\(proxy) \(outcome)")
            }
            #expect(try await phone.kith(["via", "laptop", "--", "sh", "-c", "exit 42"]).status == 42)
            #expect(try await phone.kith(["via", "laptop", "--", "sh", "-c", "kill -9 $$"]).status == 137)
            #expect(try await phone.kith(["via", "laptop", "--", "kith-no-such-program"]).status == 3)

            let mask = try await phone.expect("via", "laptop", "--", "grep", "SigBlk", "/proc/self/status")
            #expect(mask == "SigBlk:\t0000000000000000\n")

            let marker = phone.path("signalled")
            let trapping = try phone.start([
                "via", "laptop", "--", "sh", "-c", "trap 'exit 7' TERM; touch \(marker); while :; do sleep 0.05; done",
            ])
            try await phone.waitForFile(marker)
            kill(trapping.process.processIdentifier, SIGTERM)
            #expect(try await trapping.outcome(seconds: 20).status == 7)
        }
    }

    @Test func `standard input and output are the connection, each end for itself`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "forward")
            let drain = try Counterpart("drain")
            let outcome = try await phone.kith(["via", "laptop", "127.0.0.1:\(drain.port)"], input: Data([1, 2, 3]))
            #expect(outcome.status == 0, "\(outcome)")
            #expect(outcome.output.hasPrefix("3 0390"), "\(outcome)")
            let source = try Counterpart("source", "5000000")
            #expect(
                try await phone.kith(["via", "laptop", "localhost", "\(source.port)"], input: Data()).output.utf8.count
                    >= 5_000_000)
            let refused = try await phone.kith(["via", "laptop", "127.0.0.1", "1"])
            #expect(refused.status == 7)
            #expect(try await phone.kith(["via", "laptop", "127.0.0.1"]).status == 64)
        }
    }

    @Test func `ssh takes kith via as its ProxyCommand`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "forward:to=localhost:*")
            let script = """
                set -e
                cd "$1"; kith="$2"; export KITH_DATA="$3"
                ssh-keygen -q -t ed25519 -N '' -f host; ssh-keygen -q -t ed25519 -N '' -f user; cp user.pub allowed
                [ "$(id -u)" != 0 ] || mkdir -p /run/sshd
                port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
                "$(command -v sshd || echo /usr/sbin/sshd)" -D -e -f /dev/null -p $port -h "$PWD/host" \\
                    -o ListenAddress=127.0.0.1 -o AuthorizedKeysFile="$PWD/allowed" -o StrictModes=no \\
                    -o PidFile=none -o UsePAM=no 2>sshd.log & daemon=$!
                trap 'kill $daemon' EXIT
                for _ in $(seq 100); do grep -q listening sshd.log && break; sleep 0.1; done
                ssh -F /dev/null -i user -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=known \\
                    -o LogLevel=ERROR -o ProxyCommand="$kith via laptop %h %p" -p $port localhost 'echo "there: $(wc -c)"' < host
                """
            let text = try await Script.command([
                "bash", "-c", script, "ssh", phone.folder.path, Machine.program.path, phone.data,
            ])
            #expect(text.hasPrefix("there: "), "\(text)")
            #expect(Int(text.dropFirst(7).trimmingCharacters(in: .whitespacesAndNewlines)) ?? 0 > 100)
        }
    }
}

/// One of the counterparts in Tests/Interop/forward_peer.py.
private final class Counterpart: @unchecked Sendable {  // set up before it is shared
    private let process = Process()
    let port: UInt16

    init(_ arguments: String...) throws {
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Interop/forward_peer.py").path
        process.arguments = ["python3", script] + arguments
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let line = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self)
        port = try #require(UInt16(line.trimmingCharacters(in: .whitespacesAndNewlines)), "\(arguments) did not start")
    }

    deinit { process.end() }
}

/// A program of somebody else's, and what it prints.
private final class Script: @unchecked Sendable {  // set up before it is shared; Process and its pipes are thread-safe
    private let process = Process()
    private let output = Pipe()

    /// Runs a Python program to its end; gives what it printed.
    static func run(_ text: String, _ arguments: String...) async throws -> String {
        try await command(["python3", "-c", text] + arguments)
    }

    /// Runs a program to its end; gives what it printed.
    static func command(_ words: [String]) async throws -> String {
        let script = Script(words)
        try script.process.run()
        return try await script.rest()
    }

    /// Starts a Python program.
    static func start(_ text: String, _ arguments: String...) throws -> Script {
        let script = Script(["python3", "-c", text] + arguments)
        try script.process.run()
        return script
    }

    private init(_ words: [String]) {
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = words
        process.standardOutput = output
        process.standardInput = FileHandle.nullDevice
    }

    /// The first line it prints.
    func line() async throws -> String {
        await reading { handle in
            String(decoding: handle.availableData, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        }
    }

    /// Everything else it prints.
    func rest() async throws -> String {
        await reading { String(decoding: $0.readDataToEndOfFile(), as: UTF8.self) }
    }

    private func reading(_ body: @escaping @Sendable (FileHandle) -> String) async -> String {
        let handle = output.fileHandleForReading
        return await onThread { body(handle) }
    }
}

extension Machine {
    /// Starts a forward in the daemon; gives the port where it listens.
    fileprivate func forward(_ device: String, _ arguments: String...) async throws -> UInt16 {
        let running = try await json(
            ["forward", device] + arguments + ["--detach", "--json"], as: Forward.Running.self)
        return try #require(running.rules.first?.listening.first?.port)
    }

    fileprivate func json<Value: Decodable>(_ arguments: [String], as type: Value.Type) async throws -> Value {
        let outcome = try await kith(arguments)
        try #require(outcome.status == 0, "\(arguments): \(outcome)")
        return try JSONDecoder().decode(type, from: Data(outcome.output.utf8))
    }
}

private typealias Pipe = Foundation.Pipe
