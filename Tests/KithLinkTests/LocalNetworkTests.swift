import Foundation
import Glibc
import KithTesting
import Testing

/// Two devices, each the real `kith`, on a local network: namespaces joined by a bridge.
@Suite(.enabled(if: Bridge.isPossible), .timeLimit(.minutes(4))) struct LocalNetworkTests {
    @Test(arguments: [false, true]) func `devices that were both killed, and moved, find each other again`(
        isIPv6: Bool
    ) async throws {
        let bridge = try Bridge()
        defer { bridge.remove() }
        let (laptop, phone) = (try Machine(bridge, 0, "laptop"), try Machine(bridge, 1, "phone"))
        defer {
            laptop.remove()
            phone.remove()
        }
        func place(_ number: Int) -> String { isIPv6 ? "fd0a::\(number)/64" : "10.9.0.\(number)/24" }
        func isAt(_ number: Int, _ heard: [String]) -> Bool {
            heard.first?.hasPrefix(isIPv6 ? "[fd0a::\(number)]:" : "10.9.0.\(number):") == true
        }
        try laptop.address("add", place(1))
        try phone.address("add", place(2))
        for machine in [laptop, phone] { try machine.up() }
        let invitation = try laptop.kith("invite", "--yes", "--text", "--grant", "shell")
        try phone.kith("pair", invitation.trimmingCharacters(in: .whitespacesAndNewlines), "--yes")
        try await eventually { try isAt(1, phone.heard()) && isAt(2, laptop.heard()) }

        // Both are switched off without a word, and come back elsewhere: no address that either knows is right.
        for pid in [try laptop.pid(), try phone.pid()] { kill(pid, SIGKILL) }
        for (machine, old, new) in [(laptop, 1, 11), (phone, 2, 12)] {
            try machine.address("del", place(old))
            try machine.address("add", place(new))
            try machine.up()
        }
        try await eventually { try isAt(11, phone.heard()) && isAt(12, laptop.heard()) }
        #expect(try phone.kith("shell", "laptop", "--", "echo", "found") == "found\n")
        #expect(try phone.kith("devices", "--cached").contains("  lan "))

        // An address that comes while it runs is announced by itself.
        try laptop.address("add", place(21))
        try await eventually {
            try phone.heard().contains { $0.hasPrefix(isIPv6 ? "[fd0a::21]:" : "10.9.0.21:") }
        }
        // It says goodbye, and is gone at once.
        try laptop.kith("down")
        try await eventually { try phone.heard().isEmpty }
    }

    @Test func `an interface that comes later is used, and one device that announces nothing is not found`()
        async throws
    {
        let bridge = try Bridge()
        defer { bridge.remove() }
        let (laptop, phone) = (try Machine(bridge, 0, "laptop"), try Machine(bridge, 1, "phone"))
        defer {
            laptop.remove()
            phone.remove()
        }
        try laptop.address("add", "10.9.0.1/24")
        try phone.address("add", "10.9.0.2/24")
        try laptop.up()
        try phone.up("--no-discovery")
        let invitation = try laptop.kith("invite", "--yes", "--text")
        try phone.kith("pair", invitation.trimmingCharacters(in: .whitespacesAndNewlines), "--yes")
        #expect(try phone.heard().isEmpty && laptop.heard().isEmpty)
        #expect(try phone.kith("doctor").contains("not looked for there"))
        try phone.kith("down")
        // Up before its network is.
        try phone.address("del", "10.9.0.2/24")
        try phone.run(["ip", "link", "set", "eth0", "down"])
        try phone.up()
        try phone.run(["ip", "link", "set", "eth0", "up"])
        try phone.address("add", "10.9.0.3/24")
        try await eventually { try laptop.heard().first?.hasPrefix("10.9.0.3:") == true && !phone.heard().isEmpty }
        #expect(try phone.kith("doctor").contains("heard: laptop"))
    }

    @Test func `without a network requests fail at once and say why, with one again the devices are connected`()
        async throws
    {
        let bridge = try Bridge()
        defer { bridge.remove() }
        let (laptop, phone) = (try Machine(bridge, 0, "laptop"), try Machine(bridge, 1, "phone"))
        defer {
            laptop.remove()
            phone.remove()
        }
        try laptop.address("add", "10.9.0.1/24")
        try phone.address("add", "10.9.0.2/24")
        for machine in [laptop, phone] { try machine.up() }
        let invitation = try laptop.kith("invite", "--yes", "--text")
        try phone.kith("pair", invitation.trimmingCharacters(in: .whitespacesAndNewlines), "--yes")
        try phone.kith("ping", "laptop", "--count", "1")
        try phone.run(["ip", "link", "set", "eth0", "down"])
        // The connection stands, and is not asked; whoever asks does not wait for it to be found dead.
        try await eventually { try phone.fails("ping", "laptop", "--count", "1").contains("on no network now") }
        // Another address, so that nothing goes on as it was.
        try phone.run(["ip", "address", "flush", "dev", "eth0"])
        try phone.address("add", "10.9.0.3/24")
        try phone.run(["ip", "link", "set", "eth0", "up"])
        try await eventually { try phone.fails("ping", "laptop", "--count", "1").isEmpty }
        try await eventually { try laptop.heard().first?.hasPrefix("10.9.0.3:") == true }
    }
}
