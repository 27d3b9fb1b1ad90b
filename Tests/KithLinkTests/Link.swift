import Foundation
import KithIO
import KithIdentity
import KithNet
import KithTesting
import KithWire
import Logging

/// Two network namespaces joined by a link that misbehaves as it is told: a running `kith-link`.
final class Link: Sendable {
    /// One end of the link.
    enum End: Sendable {
        case left, right

        var ipv4: (UInt8, UInt8, UInt8, UInt8) { (10, 7, 0, self == .left ? 1 : 2) }

        /// The end's address with `port`.
        func address(ipv6: Bool = false, port: UInt16) -> NetworkAddress {
            ipv6
                ? NetworkAddress(ipv6: 0xFD07 << 48, self == .left ? 1 : 2, port: port)
                : NetworkAddress(ipv4: ipv4, port: port)
        }

        /// The address the left end may move to.
        func otherAddress(ipv6: Bool) -> NetworkAddress {
            precondition(self == .left, "the right end has one address")
            return ipv6
                ? NetworkAddress(ipv6: 0xFD07 << 48, 3, port: 0) : NetworkAddress(ipv4: (10, 7, 0, 3), port: 0)
        }
    }

    /// What the link did with what one end sent.
    struct Direction: Decodable, Sendable {
        var packets, bytes, payload: Int
        var delivered, deliveredBytes, deliveredPayload: Int
        var lost, overflowed, blackholed, tooLarge, unbound, refused: Int
        var reordered, duplicated, corrupted, marked, bleached: Int
        var longestWaitMilliseconds: Double
    }

    /// What the link did.
    struct Statistics: Decodable, Sendable {
        /// What the left end sent.
        var up: Direction
        /// What the right end sent.
        var down: Direction
    }

    private struct Ends: Decodable {
        var left, right: String
    }

    private struct Answer: Decodable {
        var error: String?
    }

    private let program: Program
    private let ends: Ends
    private let left: Namespace
    private let right: Namespace
    /// One question and its answer after the other.
    private let asking = AsyncMutex()
    /// Where the packets of both ends are recorded, once the link has ended.
    let capture: Capture

    private init(program: Program, ends: Ends, capture: Capture) throws {
        self.program = program
        self.ends = ends
        self.capture = capture
        left = try Namespace(path: ends.left)
        right = try Namespace(path: ends.right)
    }

    /// Why no link can be made here, or nil.
    static let obstacle: String? = {
        guard geteuid() == 0 else { return "an emulated link needs root" }
        guard access("/dev/net/tun", R_OK | W_OK) == 0 else { return "an emulated link needs /dev/net/tun" }
        guard Program.succeeds([path, "--left", "true"]) else { return "this system lets nobody make a namespace" }
        return nil
    }()

    /// Whether a link can be made; says so if not.
    static let isPossible: Bool = {
        if let obstacle { print("skipped: \(obstacle)") }
        return obstacle == nil
    }()

    /// The `kith-link` built beside this test bundle.
    static let path: String = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
        .appendingPathComponent("kith-link").path

    /// Makes a link with `options` (`["rate": "10mbit"]`, see `kith-link --help`) for as long as `body` runs.
    static func with<Result>(
        _ options: [String: String], _ body: (Link) async throws -> Result
    ) async throws -> Result {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("kith-link-\(UUID().uuidString).pcap")
        defer { try? FileManager.default.removeItem(at: file) }  // of no use to anybody afterwards
        let arguments = options.sorted { $0.key < $1.key }.flatMap { ["--\($0.key)", $0.value] }
        return try await Program.run([path, "--capture", file.path] + arguments) { program in
            let link = try Link(program: program, ends: try await program.next(), capture: Capture(file))
            defer {
                link.left.end()
                link.right.end()
            }
            return try await body(link)
        }
    }

    /// Changes the link: `"rebind=port"`, `"up-loss=3%"`.
    func set(_ change: String) async throws {
        let answer = try await ask(change, as: Answer.self)
        if let error = answer.error { throw LinkError("\(change): \(error)") }
    }

    /// What the link did until now.
    func statistics() async throws -> Statistics { try await ask("stats", as: Statistics.self) }

    private func ask<Line: Decodable & Sendable>(_ line: String, as type: Line.Type) async throws -> Line {
        try await asking.withLock {
            try self.program.say(line)
            return try await self.program.next(type)
        }
    }

    /// Waits until the link has carried `count` more packets from the left end, or from the right one.
    func carried(_ count: Int, from end: End) async throws {
        func delivered() async throws -> Int {
            let statistics = try await self.statistics()
            return end == .left ? statistics.up.delivered : statistics.down.delivered
        }
        let start = try await delivered()
        try await eventually { try await delivered() >= start + count }
    }

    /// Ends the link, so that everything it recorded is on the disk.
    func end() async throws { try await program.finish() }

    /// Runs `body` on a thread inside `end`; the sockets and threads it makes stay there.
    func inside<Result: Sendable>(
        _ end: End, _ body: @concurrent @Sendable () async throws -> Result
    ) async throws -> Result {
        try await withTaskExecutorPreference(end == .left ? left : right, operation: body)
    }

    /// The command that runs `command` inside `end`.
    func command(at end: End, _ command: [String]) -> [String] {
        ["nsenter", "--net=\(end == .left ? ends.left : ends.right)"] + command
    }

    /// Opens an endpoint at `end`, runs `body`, and shuts it down.
    func withEndpoint<Result>(
        at end: End, ipv6: Bool = false, key: DeviceKey = DeviceKey(), _ options: Endpoint.Options,
        _ body: (Endpoint) async throws -> Result
    ) async throws -> Result {
        var options = options
        options.bindAddresses = [end.address(ipv6: ipv6, port: 0)]
        let endpoint = try await inside(end) { [options] in
            try await Endpoint.bind(key: key, options: options, logger: Logger(label: "link"))
        }
        do {
            let result = try await body(endpoint)
            await endpoint.shutdown()
            return result
        } catch {
            await endpoint.shutdown()
            throw error
        }
    }
}
