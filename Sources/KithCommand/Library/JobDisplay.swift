import ArgumentParser
import Foundation
import Kith
import KithAPI
import KithCommandLine
import KithWire

/// Words about jobs.
enum JobText {
    /// The beginning of an id that people type.
    static func id(_ job: Jobs.Job) -> String { String(job.id.prefix(8)) }

    /// How far a job is, its rate and the time that is left: `45 %  1,204 of 2,600  310/s  0:04 left`.
    static func progress(_ progress: Jobs.Progress) -> String {
        var parts: [String] = []
        if let share = share(progress) { parts.append("\(Wording.percent(share)) %") }
        // Of bytes alone, bytes; else items, as people count files.
        if let total = progress.total, total > 0 {
            parts.append("\(grouped(progress.completed)) of \(grouped(total))")
        } else if progress.completed > 0 {
            parts.append(grouped(progress.completed))
        }
        if let total = progress.totalBytes, total > 0 {
            parts.append("\(Wording.size(progress.bytes)) of \(Wording.size(total))")
        }
        if let rate = progress.rate, rate >= 10 { parts.append("\(grouped(Int(min(rate, 1e15))))/s") }
        if let rate = progress.byteRate, rate >= 1 { parts.append(Wording.rate(rate)) }
        if let left = progress.remaining, left >= 1, left < 1e7 { parts.append("\(Wording.duration(left)) left") }
        return parts.joined(separator: "  ")
    }

    /// The part that is done, 0…1; by bytes where their number is known.
    static func share(_ progress: Jobs.Progress) -> Double? {
        if let total = progress.totalBytes, total > 0 { return min(Double(progress.bytes) / Double(total), 1) }
        guard let total = progress.total, total > 0 else { return nil }
        return min(Double(progress.completed) / Double(total), 1)
    }

    /// A bar of so many columns.
    static func bar(_ progress: Jobs.Progress, columns: Int) -> String {
        guard let share = share(progress) else { return String(repeating: " ", count: columns + 2) }
        let full = Int(share * Double(columns))
        return "[" + String(repeating: "=", count: full) + String(repeating: "-", count: columns - full) + "]"
    }

    /// One line with a bar, no wider than `width`.
    static func line(_ job: Jobs.Job, width: Int) -> String {
        let state = job.state == .running ? bar(job.progress, columns: 16) : "\(job.state.rawValue)"
        let numbers = job.state == .queued ? "" : "  " + progress(job.progress)
        let text = "\(id(job))  \(state)\(numbers)  \(printable(job.title))"
        return String(text.prefix(max(width - 1, 1)))
    }

    /// The error of a job that failed.
    static func error(_ job: Jobs.Job) -> KithError {
        KithError(
            job.code.flatMap(KithError.Code.init(rawValue:)) ?? .internal,
            "Job \(id(job)) (\(job.title)) failed: \(job.error ?? "no reason was given.")")
    }
}

/// Lines that are drawn anew in their place, on a terminal.
struct JobBars {
    private var drawn = 0

    /// Draws lines in place of those before; at most as many as the terminal has.
    mutating func draw(_ lines: [String]) {
        let rows = terminalSize(STDERR_FILENO)?.rows ?? 24
        let shown = lines.prefix(max(rows - 1, 1))
        let back = drawn > 0 ? "\u{1B}[\(drawn)A" : ""
        noteInLine("\r\(back)\u{1B}[J" + shown.map { $0 + "\n" }.joined())
        drawn = shown.count
    }
}

/// Follows a job to its end, with a line that says how far it is.
///
/// - Returns: the job, which is done.
/// - Throws: why it failed; `.cancelled`; `.conflict` when it was paused.
func followJob(_ job: Jobs.Job, _ client: Client, _ globals: GlobalOptions) async throws -> Jobs.Job {
    var line = StatusLine(isShown: !globals.json, isPlain: isPlainTerminal)
    defer { line.clear() }
    let start = ContinuousClock.now
    let stream = try await client.open(Jobs.Follow.self, .init(id: job.id, runs: true)).stream
    for try await change in stream.messages {
        guard let now = change.job else { continue }
        if try isDone(now) { return now }
        // What takes a moment needs no line.
        guard start.duration(to: .now) > .milliseconds(500) else { continue }
        line.show(JobText.line(now, width: terminalColumns(STDERR_FILENO)))
    }
    throw KithError(
        .closed, "This device stops. Job \(JobText.id(job)) goes on when it is up again; `kith jobs` shows it.")
}

/// True for a job that is done; false while it goes on.
///
/// - Throws: as ``followJob(_:_:_:)``.
func isDone(_ job: Jobs.Job) throws -> Bool {
    let id = JobText.id(job)
    switch job.state {
    case .queued, .running: return false
    case .done: return true
    case .failed: throw JobText.error(job)
    case .cancelled: throw KithError(.cancelled, "Job \(id) (\(job.title)) was cancelled.")
    case .paused:
        throw KithError(.conflict, "Job \(id) (\(job.title)) is paused. `kith jobs resume \(id)` lets it go on.")
    @unknown default: return false
    }
}

/// Runs what follows jobs, and says on Ctrl-C how they go on.
func whileFollowingJobs(_ globals: GlobalOptions, _ body: @escaping @Sendable () async throws -> Void) async throws {
    let ending = try await Signals.untilInterrupted(body)
    guard let signal = ending.signal else { return }
    note(
        Device.isRunning(directory: globals.directory)
            ? "kith: interrupted. What was begun goes on in the background; `kith jobs` shows it."
            : "kith: interrupted. What was begun goes on with the next `kith up`, or `kith jobs run`.")
    throw ExitCode(128 + signal)
}
