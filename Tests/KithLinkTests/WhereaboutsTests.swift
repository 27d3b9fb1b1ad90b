import Foundation
import Glibc
import KithTesting
import Testing

/// Two devices, each the real `kith` in a network of its own.
@Suite(.enabled(if: Link.isPossible), .timeLimit(.minutes(4))) struct WhereaboutsTests {
    /// A device at one end of a link.
    private struct Machine {
        let link: Link
        let end: Link.End
        let name: String
        let folder: URL

        init(_ link: Link, _ end: Link.End, _ name: String) throws {
            (self.link, self.end, self.name) = (link, end, name)
            folder = FileManager.default.temporaryDirectory.appendingPathComponent("kith-\(name)-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        }

        private static let program = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
            .appendingPathComponent("kith").path

        /// Runs a command at this end and gives what it printed.
        func run(_ command: [String], sourceLocation: SourceLocation = #_sourceLocation) throws -> String {
            let process = Process()
            let output = Pipe()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
            process.arguments = link.command(at: end, command)
            process.standardInput = FileHandle.nullDevice
            process.standardOutput = output
            try process.run()
            let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
            process.waitUntilExit()
            try #require(process.terminationStatus == 0, "\(command): \(text)", sourceLocation: sourceLocation)
            return text
        }

        @discardableResult func kith(_ words: String..., sourceLocation: SourceLocation = #_sourceLocation) throws
            -> String
        {
            let data = folder.appendingPathComponent("data").path
            return try run(
                [Self.program] + words.prefix(1) + ["--data", data] + words.dropFirst(), sourceLocation: sourceLocation)
        }

        func up() throws { try kith("up", "--detach", "--no-invite", "--name", name) }

        /// Gives the end another address in place of the one it has.
        func move(from old: String, to new: String) throws {
            _ = try run(["ip", "address", "add", new, "dev", "link0"])
            _ = try run(["ip", "address", "del", old, "dev", "link0"])
        }

        /// The addresses it knows of its one paired device, best first.
        func known() throws -> [String] {
            let list = try JSONSerialization.jsonObject(with: Data(try kith("devices", "--cached", "--json").utf8))
            let device = try #require((list as? [[String: Any]])?.first)
            return try #require(device["addresses"] as? [String])
        }

        func pid() throws -> pid_t {
            let status = try JSONSerialization.jsonObject(with: Data(try kith("status", "--json").utf8))
            return pid_t(try #require((status as? [String: Any])?["pid"] as? Int))
        }

        /// Takes the device down, if it is up, and removes it.
        func remove() {
            if let pid = try? pid() { kill(pid, SIGKILL) }
            try? FileManager.default.removeItem(at: folder)  // the next boot empties /tmp at the latest
        }
    }

    @Test func `devices that both moved while connected, and were both killed, find each other again`() async throws {
        try await Link.with(["delay": "5ms"]) { link in
            let (laptop, phone) = (try Machine(link, .left, "laptop"), try Machine(link, .right, "phone"))
            defer {
                laptop.remove()
                phone.remove()
            }
            for machine in [laptop, phone] {
                _ = try machine.run(["ip", "-6", "address", "flush", "dev", "link0"])
                try machine.up()
            }
            let invitation = try laptop.kith("invite", "--yes", "--text", "--grant", "shell")
            try phone.kith("pair", invitation.trimmingCharacters(in: .whitespacesAndNewlines), "--yes")
            // A connection that stays.
            try phone.kith("ping", "laptop", "--count", "1")

            // One after the other, as no two devices find each other that lose each other at once.
            try laptop.move(from: "10.7.0.1/16", to: "10.7.0.11/24")
            try await eventually { try phone.known().first?.hasPrefix("10.7.0.11:") == true }
            try phone.move(from: "10.7.0.2/16", to: "10.7.0.12/24")
            try await eventually { try laptop.known().first?.hasPrefix("10.7.0.12:") == true }

            for pid in [try laptop.pid(), try phone.pid()] { kill(pid, SIGKILL) }
            try laptop.up()
            try phone.up()
            #expect(try laptop.known().first?.hasPrefix("10.7.0.12:") == true)
            try laptop.kith("ping", "phone", "--count", "1")
            #expect(try phone.kith("shell", "laptop", "--", "echo", "found") == "found\n")
        }
    }

    @Test func `a device tells its connected ones of an address it gets besides`() async throws {
        try await Link.with(["delay": "5ms"]) { link in
            let (laptop, phone) = (try Machine(link, .left, "laptop"), try Machine(link, .right, "phone"))
            defer {
                laptop.remove()
                phone.remove()
            }
            for machine in [laptop, phone] { try machine.up() }
            let invitation = try laptop.kith("invite", "--yes", "--text")
            try phone.kith("pair", invitation.trimmingCharacters(in: .whitespacesAndNewlines), "--yes")
            try phone.kith("ping", "laptop", "--count", "1")
            // The connection does not go that way.
            _ = try laptop.run(["ip", "address", "add", "10.8.0.1/24", "dev", "link0"])
            try await eventually { try phone.known().contains(where: { $0.hasPrefix("10.8.0.1:") }) }
        }
    }
}
