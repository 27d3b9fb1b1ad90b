import Foundation
import KithAPI
import KithCommandLine

#if canImport(Glibc)
import Glibc
#endif

/// The one line on a terminal that shows how far a copy is.
struct ProgressLine {
    /// True when there is a terminal that wants it.
    let isShown: Bool
    /// The device at the other end.
    private let peer: String?
    private var rate = TransferRate()
    /// The bytes done when that number last grew, and the time of it.
    private var moved: (bytes: UInt64, at: ContinuousClock.Instant)?
    /// The last progress.
    private var reached: Files.Progress?
    private var isDrawn = false
    private var plain = StatusLine(isShown: true, isPlain: true)

    /// Nothing has moved for so long: there is no rate to speak of, and nobody knows how long it will take.
    private static let stall = Duration.seconds(2)

    init(isShown: Bool, peer: String? = nil) {
        self.isShown = isShown
        self.peer = peer
    }

    /// Draws the line anew.
    mutating func show(_ progress: Files.Progress, at now: ContinuousClock.Instant) {
        guard isShown, progress.summary == nil, progress.failure == nil else { return }
        if isPlainTerminal { return plain.show(text(progress, at: now, width: 200)) }
        write("\r\u{1B}[K" + text(progress, at: now, width: Self.width))
        isDrawn = true
    }

    /// The line for the progress at a time, no wider than `width`.
    mutating func text(_ progress: Files.Progress, at now: ContinuousClock.Instant, width: Int) -> String {
        rate.note(progress.bytes, at: now)
        if moved?.bytes != progress.bytes { moved = (progress.bytes, now) }
        var progress = progress
        if let waiting = progress.waiting {
            // A copy that begins anew has nothing done; what had arrived is found again.
            progress = reached ?? progress
            progress.waiting = waiting
        } else {
            reached = progress
        }
        if let moved, now - moved.at >= Self.stall, progress.bytes != progress.totalBytes {
            progress.waiting = progress.waiting ?? "waiting for \(peer ?? "the other end")…"
        }
        return Self.text(progress, rate: rate.bytesPerSecond, width: width)
    }

    /// Takes the line away.
    mutating func clear() {
        if isDrawn { write("\r\u{1B}[K") }
        isDrawn = false
    }

    /// The line, no wider than `width`.
    static func text(_ progress: Files.Progress, rate: Double?, width: Int) -> String {
        var parts: [String] = []
        if let total = progress.totalBytes, total > 0 {
            parts.append("\(Wording.percent(progress.bytes, of: total)) %")
            parts.append("\(size(progress.bytes)) of \(size(total))")
        } else {
            parts.append(size(progress.bytes))
        }
        if let files = progress.totalFiles, files > 1 { parts.append("\(progress.files)/\(files) files") }
        if let waiting = progress.waiting {
            parts.append(printable(waiting))
        } else if let rate {
            parts.append(Wording.rate(rate))
            if let total = progress.totalBytes, total > progress.bytes, rate > 1 {
                parts.append("\(duration(Double(total - progress.bytes) / rate)) left")
            }
        }
        let numbers = parts.joined(separator: "  ")
        let room = width - numbers.count - 3
        var name = printable(progress.current?.description ?? "")
        if name.count > room { name = room > 8 ? "…" + name.suffix(room - 1) : "" }
        return String((name.isEmpty ? numbers : "\(name)  \(numbers)").prefix(max(width - 1, 1)))
    }

    /// The counts of what a copy brings or would bring: files, folders, links.
    private static func counts(_ summary: Files.Summary) -> [String] {
        var parts = [count(summary.files, "file")]
        if summary.folders > 0 { parts.append(count(summary.folders, "folder")) }
        if summary.links > 0 { parts.append(count(summary.links, "link")) }
        return parts
    }

    /// `1 file`, `2 files`.
    private static func count(_ number: UInt64, _ one: String) -> String {
        number == 1 ? "1 \(one)" : "\(number) \(one)s"
    }

    /// One line about a copy that was only asked about.
    static func plan(_ summary: Files.Summary) -> String {
        var text =
            "Nothing was changed. To be sent: \(counts(summary).joined(separator: ", ")), \(size(summary.bytes))"
        if summary.deleted > 0 { text += "; to be deleted: \(summary.deleted)" }
        if summary.unchanged > 0 { text += "; there already: \(count(summary.unchanged, "file"))" }
        if summary.skipped > 0 { text += "; left out: \(summary.skipped)" }
        return text + "."
    }

    /// One line about a copy that is done.
    static func summary(_ summary: Files.Summary, took time: Duration) -> String {
        let seconds = max(time / .seconds(1), 0.001)
        var parts = counts(summary)
        if summary.unchanged > 0 { parts.append("\(summary.unchanged) unchanged") }
        if summary.deleted > 0 { parts.append("\(summary.deleted) deleted") }
        if summary.skipped > 0 { parts.append("\(summary.skipped) left out") }
        let saved = summary.bytes > summary.sent ? ", \(size(summary.bytes - summary.sent)) of it not sent" : ""
        let wire = summary.wire.map { summary.sent > 0 && $0 < summary.sent / 100 * 98 ? $0 : nil } ?? nil
        let packed = wire.map { ", sent \(size(summary.sent)) (\(size($0)) on the wire)" } ?? ""
        return parts.joined(separator: ", ")
            + ": \(size(summary.bytes)) in \(duration(seconds)), \(Wording.rate(Double(summary.bytes) / seconds))\(saved)\(packed)"
    }

    /// `1.4 GB`.
    static func size(_ bytes: UInt64) -> String { Wording.size(bytes) }

    /// `1:05`, `12 s`.
    static func duration(_ seconds: Double) -> String { Wording.duration(seconds) }

    private static var width: Int { terminalColumns(STDERR_FILENO) }

    private func write(_ text: String) { noteInLine(text) }
}
