import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import Synchronization

/// The display of forwards that are up: a line for each, with its rates, drawn anew as they change.
final class ForwardDisplay: Sendable {
    private struct State {
        var last: (running: Forward.Running, time: ContinuousClock.Instant)?
        var drawn = 0
        var failures: Set<String> = []
    }

    private let isLive: Bool
    private let isJSON: Bool
    private let state = Mutex(State())

    init(isLive: Bool, isJSON: Bool) {
        self.isLive = isLive
        self.isJSON = isJSON
    }

    /// Says where is listened.
    func begin(_ running: Forward.Running) {
        state.withLock { $0.last = (running, .now) }
        if isJSON { return show(json: running) }
        // A program that waits for it reads a line for each rule, with the port the system chose.
        for status in running.rules { printLine(Self.route(status)) }
        if isLive { note("Ctrl-C ends it.") }
    }

    /// Says how they do now.
    func show(_ running: Forward.Running) {
        if isJSON { return show(json: running) }
        state.withLock { state in
            let now = ContinuousClock.now
            let seconds = state.last.map { max((now - $0.time) / .seconds(1), 0.001) } ?? 1
            let before = state.last?.running.rules ?? []
            if isLive {
                if state.drawn > 0 { write("\u{1B}[\(state.drawn)A") }
                for (index, status) in running.rules.enumerated() {
                    let last = index < before.count ? before[index] : status
                    write("\r\u{1B}[K" + Self.line(status, since: last, seconds: seconds, width: Self.width) + "\n")
                }
                state.drawn = running.rules.count
            } else {
                for status in running.rules {
                    guard let failure = status.lastFailure, state.failures.insert(failure).inserted,
                        state.failures.count <= 100
                    else { continue }
                    note("kith: \(Self.route(status)): \(printable(failure))")
                }
            }
            state.last = (running, now)
        }
    }

    /// Leaves the last lines where they are.
    func end() { state.withLock { $0.drawn = 0 } }

    private func show(json running: Forward.Running) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let line = try? encoder.encode(running) else { return }  // it came as JSON
        printLine(String(decoding: line, as: UTF8.self))
    }

    private func write(_ text: String) { noteInLine(text) }

    /// The two ends of a forward: `127.0.0.1:8080 → db:5432`.
    ///
    /// `isUp` is false for one that waits for this device to come up.
    static func route(_ status: Forward.Status, isUp: Bool = true) -> String {
        let endpoints = status.listening.isEmpty ? [status.rule.listen] : status.listening
        let listen = endpoints.map(\.description).joined(separator: " ")
        let side = status.rule.direction == .remote ? "there " : ""
        let carried = status.rule.transport == .udp ? "udp " : ""
        let waiting = status.rule.direction == .remote ? " (waiting for the device)" : " (not listening)"
        let state = !isUp ? " (this device is down)" : status.listening.isEmpty ? waiting : ""
        return "\(side)\(carried)\(listen) → \(status.rule.target.map(\.description) ?? "SOCKS5 and HTTP")\(state)"
    }

    /// One rule on one line, no wider than `width`.
    static func line(_ status: Forward.Status, since last: Forward.Status, seconds: Double, width: Int) -> String {
        func rate(_ now: UInt64, _ before: UInt64) -> String {
            "\(Wording.rate(Double(now - min(before, now)) / seconds))"
        }
        var numbers =
            "\(status.open) open, \(status.total) total  ↑ \(rate(status.sent, last.sent))  ↓ \(rate(status.received, last.received))"
        if status.failed > 0 { numbers += "  \(status.failed) failed" }
        let route = route(status)
        let room = max(width - 1 - numbers.count - 2, 8)
        let shown = route.count > room ? "…" + route.suffix(room - 1) : route
        var line = "\(shown)  \(numbers)"
        if let failure = status.lastFailure, line.count + 12 < width {
            line += "  \(printable(failure))"
        }
        return String(line.prefix(max(width - 1, 1)))
    }

    private static var width: Int { terminalColumns(STDERR_FILENO) }
}
