import Foundation
import Glibc

/// Two network namespaces, each with one Ethernet interface, joined by a bridge in a third: a local network.
///
/// What goes to a group reaches both, as it does on a network of cables; `kith-link` carries packets between two ends.
final class Bridge {
    private let name: String
    private var ends: [String] = []

    /// Why there can be none here, or nil.
    static let obstacle: String? = {
        guard geteuid() == 0 else { return "namespaces joined by a bridge need root" }
        do {
            try Bridge().remove()
            return nil
        } catch {
            return "this system makes no namespaces joined by a bridge: \(error)"
        }
    }()

    /// Whether there can be one; says so if not.
    static let isPossible: Bool = {
        if let obstacle { print("skipped: \(obstacle)") }
        return obstacle == nil
    }()

    /// Makes a network with two ends.
    init() throws {
        name = "kith-\(getpid())-\(UInt16.random(in: 0 ... .max))"
        do {
            try Self.ip("netns", "add", name)
            try Self.ip("-n", name, "link", "add", "switch", "type", "bridge")
            try Self.ip("-n", name, "link", "set", "switch", "up")
            for number in 1...2 { try addEnd(number) }
        } catch {
            remove()
            throw error
        }
    }

    private func addEnd(_ number: Int) throws {
        let end = "\(name)-\(number)"
        try Self.ip("netns", "add", end)
        ends.append(end)
        try Self.ip("-n", name, "link", "add", "port\(number)", "type", "veth", "peer", "name", "eth0", "netns", end)
        try Self.ip("-n", name, "link", "set", "port\(number)", "master", "switch", "up")
        try Self.ip("-n", end, "link", "set", "lo", "up")
        try Self.ip("-n", end, "link", "set", "eth0", "up")
    }

    /// The command that runs `command` inside an end, 0 or 1.
    func command(at end: Int, _ command: [String]) -> [String] { ["ip", "netns", "exec", ends[end]] + command }

    /// Runs a command inside an end, 0 or 1.
    func run(at end: Int, _ command: String...) throws {
        guard Program.succeeds(self.command(at: end, command)) else {
            throw LinkError("\(command.joined(separator: " ")) failed")
        }
    }

    /// The file that stands for an end, 0 or 1.
    func path(of end: Int) -> String { "/run/netns/\(ends[end])" }

    /// Removes the network.
    func remove() {
        // What is left of it when one of these fails ends with the machine.
        for end in ends + [name] { try? Self.ip("netns", "delete", end) }
        ends = []
    }

    private static func ip(_ words: String...) throws {
        guard Program.succeeds(["ip"] + words) else { throw LinkError("ip \(words.joined(separator: " ")) failed") }
    }
}
