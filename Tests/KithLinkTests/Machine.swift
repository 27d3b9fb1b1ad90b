import Foundation
import Glibc
import Testing

/// A device: the real `kith`, in a network of its own.
struct Machine {
    let name: String
    let folder: URL
    /// Makes of a command the one that runs it in the machine's network.
    private let inside: ([String]) -> [String]
    private let interface: String

    /// A machine at an end of a link.
    init(_ link: Link, _ end: Link.End, _ name: String) throws {
        try self.init(name, interface: "link0") { link.command(at: end, $0) }
    }

    /// A machine at an end of a bridged network; `environment` is what stands before its commands.
    init(_ bridge: Bridge, _ end: Int, _ name: String, environment: [String] = []) throws {
        try self.init(name, interface: "eth0") { bridge.command(at: end, environment + $0) }
    }

    /// The machine of the internet beyond a NAT64.
    init(_ network: NAT64Network, _ name: String) throws {
        try self.init(name, interface: "eth0") { network.insideWorld($0) }
    }

    /// A machine in a place of a lab.
    init(_ lab: Lab, _ place: String, _ name: String) throws {
        let prefix = try lab.command(in: place, [])
        try self.init(name, interface: "eth0") { prefix + $0 }
    }

    private init(_ name: String, interface: String, inside: @escaping ([String]) -> [String]) throws {
        (self.name, self.interface, self.inside) = (name, interface, inside)
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("kith-\(name)-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    static let program = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
        .appendingPathComponent("kith").path

    private func output(of command: [String], errors: Bool = false) throws -> (text: String, status: Int32) {
        let process = Process()
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = inside(command)
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        if errors { process.standardError = output }
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return (text, process.terminationStatus)
    }

    /// Runs a command there and gives what it printed.
    @discardableResult func run(_ command: [String], sourceLocation: SourceLocation = #_sourceLocation) throws -> String
    {
        let (text, status) = try output(of: command)
        try #require(status == 0, "\(command): \(text)", sourceLocation: sourceLocation)
        return text
    }

    private func words(_ words: [String]) -> [String] {
        [Self.program] + words.prefix(1) + ["--data", folder.appendingPathComponent("data").path] + words.dropFirst()
    }

    @discardableResult func kith(_ words: String..., sourceLocation: SourceLocation = #_sourceLocation) throws -> String
    {
        try run(self.words(words), sourceLocation: sourceLocation)
    }

    /// The whole command that runs `kith` there, for as long as somebody wants.
    func command(_ words: String...) -> [String] { inside(self.words(words)) }

    /// What a command prints, whether it fails or not.
    func says(_ words: String...) throws -> String { try output(of: self.words(words), errors: true).text }

    /// Runs a command that may fail; gives what it printed as its error then, and nothing when it did not.
    func fails(_ words: String...) throws -> String { try fails(words) }

    func fails(_ words: [String]) throws -> String {
        let (text, status) = try output(of: self.words(words), errors: true)
        return status == 0 ? "" : text
    }

    func up(_ more: String...) throws { try up(more) }

    func up(_ more: [String]) throws {
        try run(words(["up", "--detach", "--no-invite", "--name", name] + more))
    }

    /// Gives its interface an address, or takes one away: `add`, `del`.
    func address(_ word: String, _ address: String) throws {
        // An address of IPv6 is not asked about first whether another has it: that takes a second.
        let isNew = word == "add" && address.contains(":")
        try run(["ip", "address", word, address, "dev", interface] + (isNew ? ["nodad"] : []))
    }

    /// Gives it another address in place of the one it has.
    func move(from old: String, to new: String) throws {
        try address("add", new)
        try address("del", old)
    }

    private func peer() throws -> [String: Any] {
        let list = try JSONSerialization.jsonObject(with: Data(try kith("devices", "--cached", "--json").utf8))
        return try #require((list as? [[String: Any]])?.first)
    }

    /// The addresses it knows of its one paired device, best first.
    func known() throws -> [String] { try #require(try peer()["addresses"] as? [String]) }

    /// The way to its one paired device: an address, or a relay's URL.
    func path() throws -> String? { try peer()["path"] as? String }

    /// Whether it sends to its one paired device without a relay.
    func isDirect() throws -> Bool { try path().map { !$0.contains("://") } ?? false }

    /// The addresses at which it hears its one paired device on the local network.
    func heard() throws -> [String] { try peer()["localAddresses"] as? [String] ?? [] }

    private var running: pid_t? {
        // One that is down says so, in no JSON.
        guard let text = try? output(of: words(["status", "--json"])).text,
            let status = try? JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any]
        else { return nil }
        return (status["pid"] as? Int).map { pid_t($0) }
    }

    /// Its DeviceID, as text.
    func id() throws -> String {
        let status = try JSONSerialization.jsonObject(with: Data(try kith("status", "--json").utf8)) as? [String: Any]
        return try #require(status?["id"] as? String)
    }

    func pid() throws -> pid_t { try #require(running) }

    /// Takes the device down, if it is up, and removes it.
    func remove() {
        if let running { kill(running, SIGKILL) }
        try? FileManager.default.removeItem(at: folder)  // the next boot empties /tmp at the latest
    }
}
