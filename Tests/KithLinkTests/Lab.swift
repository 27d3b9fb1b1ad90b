import Foundation
import Glibc

/// Two devices behind NATs, an internet and servers: a running `kith-lab`.
final class Lab: Sendable {
    private struct Ends: Decodable {
        var namespaces: [String: String]
        var addresses: [String: String]
    }

    private struct Answer: Decodable {
        var error: String?
    }

    private let program: Program
    private let ends: Ends

    /// Why there can be none here, or nil.
    static let obstacle: String? = {
        if let obstacle = Bridge.obstacle { return obstacle }
        guard Program.succeeds(["nft", "--version"]) else { return "a lab needs nft: scripts/bootstrap --test" }
        return nil
    }()

    /// Whether there can be one; says so if not.
    static let isPossible: Bool = {
        if let obstacle { print("skipped: \(obstacle)") }
        return obstacle == nil
    }()

    private static let path = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
        .appendingPathComponent("kith-lab").path

    private init(program: Program, ends: Ends) {
        self.program = program
        self.ends = ends
    }

    /// Makes a network for as long as `body` runs.
    static func with(_ first: String, _ second: String, _ body: (Lab) async throws -> Void) async throws {
        try await Program.run([path, "pair", first, second, "--json"]) { program in
            let lab = Lab(program: program, ends: try await program.next())
            let outcome: Result<Void, any Error>
            do { outcome = .success(try await body(lab)) } catch { outcome = .failure(error) }
            // It removes its namespaces, and then ends.
            try await program.finish()
            try outcome.get()
        }
    }

    /// Changes it: `"nat 1 symmetric"`.
    func change(_ line: String) async throws {
        try program.say(line)
        if let error = try await program.next(Answer.self).error { throw LinkError("\(line): \(error)") }
    }

    /// An address by the name of who has it, as a number.
    func address(of name: String) throws -> UInt32 {
        guard let text = ends.addresses[name] else { throw LinkError("nobody there is called \(name)") }
        return text.split(separator: ".").compactMap { UInt32($0) }.reduce(0) { $0 << 8 | $1 }
    }

    /// The command that runs `command` in a place.
    func command(in place: String, _ command: [String]) throws -> [String] {
        guard let path = ends.namespaces[place] else { throw LinkError("no place there is called \(place)") }
        return ["nsenter", "--net=\(path)"] + command
    }

    /// The address of who has a name, as text.
    func text(of name: String) throws -> String {
        guard let text = ends.addresses[name] else { throw LinkError("nobody there is called \(name)") }
        return text
    }

    /// Does something on a thread in that place.
    func inside<Result: Sendable>(_ place: String, _ body: @Sendable () throws -> Result) async throws -> Result {
        guard let path = ends.namespaces[place] else { throw LinkError("no place there is called \(place)") }
        let namespace = try Namespace(path: path)
        defer { namespace.end() }
        return try await withTaskExecutorPreference(namespace) { try body() }
    }

    /// Opens a UDP socket there, at the address that has the name, or at any.
    func socket(in place: String, at name: String? = nil, port: UInt16 = 0) async throws -> Socket {
        guard let path = ends.namespaces[place] else { throw LinkError("no place there is called \(place)") }
        let namespace = try Namespace(path: path)
        defer { namespace.end() }
        let address = try name.map { try self.address(of: $0) } ?? 0
        return try await withTaskExecutorPreference(namespace) { try Socket(ipv4: address, port: port) }
    }
}
