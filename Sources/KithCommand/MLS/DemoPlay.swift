import ArgumentParser
import Foundation
import KithWire

/// The course of the demonstration.
struct DemoPlay {
    let folder: URL
    let report: (String, String) -> Void
    private var members: [String: DemoProcess] = [:]
    private var reported: Set<String> = []
    /// The messages each has received, by the numbers of its events: a repeated event has the same number.
    private var heard: [String: [UInt64: String]] = [:]
    private var kills = 0

    init(folder: URL, report: @escaping (String, String) -> Void) {
        self.folder = folder
        self.report = report
    }

    static let names = ["anna", "ben", "cleo"]

    mutating func run(rounds: Int) throws -> DemoResult {
        for name in Self.names { try start(name) }
        for name in Self.names { try ask(name, "publish") }
        try ask("anna", "create")
        let made = try ask("anna", "add ben cleo")
        report("anna", "made a group and added ben and cleo: epoch \(made.epoch ?? 0)")
        for name in Self.names {
            try ask(name, "sync")
            try ask(name, "say \(name) greets")
        }
        for name in Self.names { try ask(name, "sync") }
        report("all", "said hello")
        try kill("cleo", "is away (kill -9)")
        for round in 1...rounds { try self.round(round) }
        try start("cleo")
        let before = heard["cleo", default: [:]].count
        let back = try ask("cleo", "sync")
        let waited = heard["cleo", default: [:]].count - before
        report("cleo", "is back: \(waited) messages waited for her, and now she is in epoch \(back.epoch ?? 0)")
        try ask("cleo", "say cleo is back")
        try ask("cleo", "commit")
        for _ in 0..<2 { for name in Self.names { try ask(name, "sync") } }
        return try finish(waited)
    }

    /// Anna and Ben talk and commit at once, each until killed, and start again.
    private mutating func round(_ round: Int) throws {
        for name in ["anna", "ben"] { try members[name]?.write("talk \(name)-\(round)") }
        for name in ["anna", "ben"].shuffled() {
            let count = Int.random(in: 1...12)
            var seen = 0
            while seen < count {
                let line = try read(name)
                if line.sent != nil { seen += 1 }
            }
            usleep(UInt32.random(in: 0...30_000))
            try kill(name, "was killed in the middle of talking (kill -9), round \(round)")
        }
        for name in ["anna", "ben"] {
            try start(name)
            let state = try ask(name, "sync")
            report(name, "goes on in epoch \(state.epoch ?? 0)")
        }
    }

    private mutating func finish(_ waited: Int) throws -> DemoResult {
        let states = try Self.names.map { try ask($0, "check") }
        let agrees =
            Set(states.map(\.exporter)).count == 1 && Set(states.map(\.epoch)).count == 1 && states[0].exporter != nil
        var lost: [String] = []
        var doubled: [String] = []
        for name in Self.names {
            let texts = heard[name, default: [:]].values
            let counts = Dictionary(texts.map { ($0, 1) }, uniquingKeysWith: +)
            for (text, count) in counts where count > 1 { doubled.append("\(text) (\(name))") }
            for text in reported where !text.hasPrefix(name) && counts[text] == nil { lost.append("\(text) (\(name))") }
        }
        let result = DemoResult(
            members: Self.names.count, kills: kills, epoch: states[0].epoch ?? 0, sent: reported.count,
            lost: lost.sorted(),
            doubled: doubled.sorted(), waited: waited, agrees: agrees)
        report("all", agrees ? "are in epoch \(result.epoch) with the same secrets" : "do NOT agree")
        report(
            "all",
            "\(reported.count) messages were reported as sent, with \(kills) kills: \(lost.count) lost, \(doubled.count) doubled"
        )
        return result
    }

    private mutating func start(_ name: String) throws {
        members[name] = try DemoProcess(name, folder: folder)
        try ask(name, "open")
    }

    private mutating func kill(_ name: String, _ text: String) throws {
        guard let process = members.removeValue(forKey: name) else { return }
        // What it said before it died counts.
        for line in process.end() { note(line, from: name) }
        kills += 1
        report(name, text)
    }

    /// Tells a member what to do, and waits until it is done.
    @discardableResult
    private mutating func ask(_ name: String, _ command: String) throws -> DemoLine {
        try members[name]?.write(command)
        while true {
            let line = try read(name)
            if line.isDone == true { return line }
        }
    }

    private mutating func read(_ name: String) throws -> DemoLine {
        guard let line = try members[name]?.read() else {
            throw KithError(.closed, "The process of \(name) ended.")
        }
        if let error = line.error { throw KithError(.internal, "\(name) failed: \(error)") }
        note(line, from: name)
        return line
    }

    private mutating func note(_ line: DemoLine, from name: String) {
        if let text = line.sent { reported.insert(text) }
        if let text = line.heard, let number = line.number { heard[name, default: [:]][number] = text }
    }

    mutating func end() {
        for process in members.values { _ = process.end() }
        members = [:]
    }
}
