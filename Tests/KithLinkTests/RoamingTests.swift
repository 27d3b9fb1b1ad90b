import Foundation
import Glibc
import KithTesting
import Synchronization
import Testing

/// A copy that changes its way four times, with a shell beside it.
@Suite("Roaming", .enabled(if: Lab.isPossible), .timeLimit(.minutes(10))) struct RoamingTests {
    /// How much is copied: 26 MB, or `KITH_ROAMING` bytes.
    private static let size = ProcessInfo.processInfo.environment["KITH_ROAMING"].flatMap { Int($0) } ?? 26_000_000

    @Test func `by the relay, directly, by the relay again and by the standby, a copy arrives whole`() async throws {
        try await Lab.with("port-restricted", "port-restricted") { lab in
            // Both have the first for their home, as it is the nearer one.
            try await lab.change("distance relay2 10")
            let folder = try TemporaryFolder()
            try await relay("relay1", of: lab) { first in
                try await relay("relay2", of: lab) { _ in
                    let (laptop, phone) = (try Machine(lab, "c1", "laptop"), try Machine(lab, "c2", "phone"))
                    defer {
                        laptop.remove()
                        phone.remove()
                    }
                    try await pair(laptop, phone, in: lab, writing: folder.path)
                    try await roam(lab, laptop, phone, first, folder)
                }
            }
        }
    }

    @Test func `a network that lets UDP pass after a while is noticed, though nothing tells`() async throws {
        try await Lab.with("port-restricted", "port-restricted") { lab in
            try await relay("relay1", of: lab) { _ in
                try await relay("relay2", of: lab) { _ in
                    let (laptop, phone) = (try Machine(lab, "c1", "laptop"), try Machine(lab, "c2", "phone"))
                    defer {
                        laptop.remove()
                        phone.remove()
                    }
                    try await pair(laptop, phone, in: lab, writing: "/nowhere")
                    // Real time: until every question of the start has been given up.
                    try await Task.sleep(for: .seconds(12))
                    #expect(try !laptop.isDirect() && !phone.isDirect())
                    try await lab.change("pass 1 udp")
                    try await eventually(within: .seconds(90)) { try laptop.isDirect() && phone.isDirect() }
                }
            }
        }
    }

    private func relay(_ place: String, of lab: Lab, _ body: (Program) async throws -> Void) async throws {
        let data = try TemporaryFolder()
        let command = try lab.command(
            in: place,
            [Machine.program, "relay", "--data", data.path, "--no-tls", "--listen", try lab.text(of: place) + ":3340"])
        try await Program.run(command, isQuiet: true, body)
    }

    /// Has them paired where nothing but the relays' TCP passes between them.
    private func pair(_ laptop: Machine, _ phone: Machine, in lab: Lab, writing folder: String) async throws {
        try await lab.change("drop 1 udp")
        var options = ["--no-discovery", "--no-port-mapping"]
        try phone.up(options)
        for place in ["relay1", "relay2"] { options += ["--use-relay", "http://\(try lab.text(of: place)):3340"] }
        try laptop.up(options)
        let invitation = try laptop.kith("invite", "--yes", "--text").trimmingCharacters(in: .whitespacesAndNewlines)
        try phone.kith("pair", invitation, "--yes", "--grant", "shell", "--grant", "files:write=\(folder)")
        // Both are told where the other is to be found, and have the standby at hand.
        try await eventually(within: .seconds(180)) { try laptop.path() != nil && phone.path() != nil }
        let relays = try lab.text(of: "relay1")
        try await eventually(within: .seconds(180)) { try laptop.path()?.contains(relays) == true }
    }

    private func roam(
        _ lab: Lab, _ laptop: Machine, _ phone: Machine, _ home: Program, _ folder: TemporaryFolder
    ) async throws {
        let (source, target) = ("\(folder.path)/source", "\(folder.path)/target")
        try #require(
            Program.succeeds(["sh", "-c", "head -c \(Self.size) /dev/urandom > \(source)"]), "a file of random bytes")
        let relays = try ["relay1", "relay2"].map { try lab.text(of: $0) }
        let count = #"i=0; while :; do echo "{\"number\": $i}"; i=$((i+1)); sleep 0.05; done"#
        let shell = Progress(), copy = Progress()
        try await Program.run(laptop.command("shell", "phone", "--", count)) { counting in
            // At the limit it takes forty seconds: longer than all that changes meanwhile.
            let limit = "\(Self.size / 40)"
            let words = laptop.command("cp", "--json", "--limit", limit, source, "phone:\(target)")
            try await Program.run(words) { copying in
                let reader = Task { try await shell.follow(counting) { (line: Counted) in line.number } }
                let writer = Task { try await copy.follow(copying) { (line: Copied) in line.bytes } }
                defer {
                    reader.cancel()
                    writer.cancel()
                }
                // What the stage copied, and how long the shell was silent since the stage began.
                func stage(
                    _ name: String, _ change: () async throws -> Void, isThere: (String) -> Bool
                ) async throws {
                    let (began, before) = (ContinuousClock.now, copy.last)
                    try await change()
                    try await eventually(within: .seconds(180)) {
                        try [laptop, phone].allSatisfy { try $0.path().map(isThere) == true }
                    }
                    let reached = ContinuousClock.now - began
                    let (bytes, number) = (copy.last, shell.last)
                    // It goes on by that way, both of them do.
                    try await eventually(within: .seconds(180)) {
                        copy.last > bytes + Self.size / 40 && shell.last > number + 20
                    }
                    let took = reached.formatted(.units(allowed: [.seconds], fractionalPart: .show(length: 2)))
                    let silent = shell.longestPause(since: began)
                        .formatted(.units(allowed: [.seconds], fractionalPart: .show(length: 2)))
                    print("roaming, \(name): after \(took), \((copy.last - before) / 1_000) kB, silent for \(silent)")
                    #expect(!copy.isOver, "the copy is over before it has gone everywhere")
                }
                try await stage("by the relay") {
                } isThere: {
                    $0.contains(relays[0])
                }
                try await stage("directly") {
                    try await lab.change("pass 1 udp")
                } isThere: {
                    !$0.contains("://")
                }
                try await stage("by the relay again") {
                    try await lab.change("drop 1 udp")
                } isThere: {
                    $0.contains(relays[0])
                }
                try await stage("by the standby") {
                    home.kill()
                } isThere: {
                    $0.contains(relays[1])
                }
                try await writer.value
                #expect(copy.last == Self.size)
                reader.cancel()
            }
        }
        #expect(Program.succeeds(["cmp", source, target]), "it arrived as it was sent")
    }

    private struct Counted: Decodable { var number: Int }
    private struct Copied: Decodable { var bytes: Int }

    /// How far a program is, by the lines that it prints.
    private final class Progress: Sendable {
        private struct State {
            var last = 0
            var isOver = false
            var times: [ContinuousClock.Instant] = []
        }
        private let state = Mutex(State())

        var last: Int { state.withLock { $0.last } }
        var isOver: Bool { state.withLock { $0.isOver } }

        /// Reads the lines until the program ends; none may go back or, of a count, be left out.
        func follow<Line: Decodable>(_ program: Program, _ value: @Sendable (Line) -> Int) async throws {
            for await text in program.lines {
                let line = try JSONDecoder().decode(Line.self, from: Data(text.utf8))
                let value = value(line)
                state.withLock { state in
                    if line is Counted { #expect(value == state.last + (state.times.isEmpty ? 0 : 1)) }
                    #expect(value >= state.last)
                    state.last = value
                    state.times.append(.now)
                }
            }
            state.withLock { $0.isOver = true }
        }

        /// The longest time between two lines since a moment.
        func longestPause(since moment: ContinuousClock.Instant) -> Duration {
            state.withLock { state in
                let first = state.times.lastIndex { $0 < moment } ?? 0
                let times = state.times[min(first, state.times.count)...]
                return zip(times.dropFirst(), times).map { $0 - $1 }.max() ?? .zero
            }
        }
    }
}
