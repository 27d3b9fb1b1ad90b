import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithRPC
import KithWire

/// `kith events`.
struct EventsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "events",
        abstract: "Print what happens to the library, jobs and volumes as it happens.",
        discussion: helpText(
            """
              kith events
              kith events --type file.added --type file.removed --path ~/Pictures
              kith events --resource location                scans and locations only
              kith events --resource library                 libraries that are made, opened, renamed
              kith events --resource job --resource volume   jobs, and disks that come and go
              kith events --job 3f2a                         how far one job is
              kith events --since 1764100000000:57 --json    what was missed, and what comes
              kith events --device laptop

            One line an event, until Ctrl-C: the time, what happened, and where. Many files that changed at once are one
            event; with --each every file of it gets a line of its own, as far as they are listed (256).

            With --json one object a line, with `epoch` and `sequence`: given to --since as EPOCH:SEQUENCE, or as SEQUENCE
            of the device that runs now, they let another call go on where this one ended. The last 1,024 events are kept
            from the first `kith events` on; a gap says that some are missing.

            Copying, organizing, undoing and the like are jobs, and the files they change are events of their own. A job that
            goes on gets a line a second at most; with --json all that is known of it, ten times a second at most.

            Another device answers with the grant `library`, and tells nothing of its jobs and volumes; of stars and notes
            it tells with `library:read`, and never what they say.

            Types: \(LibraryEvent.Kind.allCases.map(\.rawValue).joined(separator: ", ")).
            """))

    @OptionGroup var globals: GlobalOptions
    @Option(name: .customLong("type"), help: ArgumentHelp("Print only this type; may be repeated.", valueName: "type"))
    private var types: [EventWord<LibraryEvent.Kind>] = []
    @Option(
        name: .customLong("resource"),
        help: ArgumentHelp("Print only what is about these; may be repeated.", valueName: "kind"))
    private var resources: [EventWord<LibraryEvent.Resource>] = []
    @Option(help: "Print only what is at this path, beneath it or around it; no jobs.") var path: String?
    @Option(help: ArgumentHelp("Print only this job, by the beginning of its id.", valueName: "id")) var job: String?
    @Option(help: ArgumentHelp("Print only of this library; no jobs, no volumes.", valueName: "name"))
    var library: String?
    @Option(help: ArgumentHelp("Begin behind this event: EPOCH:SEQUENCE, or SEQUENCE.", valueName: "place"))
    var since: EventPlace?
    @Flag(help: "Print a line for each file that an event lists.") var each = false
    @Option(help: "Print the events of this device.") var device: String?

    func run() async throws {
        let last = Locked<LibraryEvents.Position?>(nil)
        let ending = try await Signals.untilInterrupted { try await follow(last) }
        if let place = last.value, !globals.json {
            note("kith events --since \(place.epoch):\(place.sequence) goes on from here.")
        }
        if let signal = ending.signal, last.value == nil { throw ExitCode(128 + signal) }
    }

    private func follow(_ last: Locked<LibraryEvents.Position?>) async throws {
        let client = try await runningClient(globals)
        var input = LibraryEvents.Follow.Input(
            library: library, types: types.map(\.value), resources: resources.map(\.value), job: job)
        if let path {
            // Of another device it is whole already, or means nothing there.
            let whole = device == nil ? URL(fileURLWithPath: path).standardizedFileURL.path : path
            guard whole.hasPrefix("/") else {
                throw KithError(.invalid, "--path \(printable(path)) must begin with a slash for another device.")
            }
            input.path = Files.Path(whole)
        }
        input.after = try await since?.position(client, on: device)
        var jobs = JobLines()
        for try await delivery in client.events(input, on: device) {
            if globals.json { printLine(String(decoding: try JSONText.encode(delivery), as: UTF8.self)) }
            switch delivery {
            case .event(let event):
                last.set(event.position)
                if !globals.json, jobs.isWorthALine(event) { for line in lines(event) { printLine(line) } }
            case .gap(let gap):
                if !globals.json { note("kith: \(Self.text(gap))") }
            }
        }
        throw KithError(.closed, "\(device.map(printable) ?? "This device") has stopped: no more events come.")
    }

    private static func text(_ gap: Events.Gap) -> String {
        let count = gap.count.map { $0 == 1 ? "1 event is" : "\($0) events are" } ?? "events may be"
        let reason =
            switch gap.reason {
            case .slow: "they came faster than they were printed"
            case .restarted: "the device was started anew"
            default: "they are not kept any more"
            }
        return "\(count) missing here: \(reason)"
    }

    private static let clock = {
        let formatter = DateFormatter()
        formatter.dateFormat = "HH:mm:ss"
        return formatter
    }()

    private func lines(_ event: LibraryEvents.Numbered) -> [String] {
        let time = Self.clock.string(from: Date(timeIntervalSince1970: Double(event.time) / 1_000))
        return texts(event.event).map { what, text in
            "\(time)  \(what)\(String(repeating: " ", count: max(1, 9 - what.count)))\(text)"
        }
    }

    /// What happened, as a word, and where.
    private func texts(_ event: LibraryEvent) -> [(String, String)] {
        switch event {
        case .files(let files):
            if each || files.changes.count == 1 && files.more == 0 {
                var lines = files.changes.map { change in
                    (
                        change.kind.rawValue,
                        (change.from.map { "\(printable($0.description)) -> " } ?? "")
                            + printable(change.path.description)
                    )
                }
                if files.more > 0 {
                    lines.append(("files", "and \(grouped(Int(clamping: files.more))) more in \(folder(files))"))
                }
                return lines
            }
            var counts = LibraryEvents.FileChange.Kind.allCases.compactMap { kind -> String? in
                let count = files.changes.count { $0.kind == kind }
                return count > 0 ? "\(grouped(count)) \(kind.rawValue)" : nil
            }
            if files.more > 0 { counts.append("\(grouped(Int(clamping: files.more))) more") }
            return [("files", "\(counts.joined(separator: ", ")) in \(folder(files))")]
        case .locationAdded(let place): return [("location", "\(text(place)) was added")]
        case .locationRemoved(let place): return [("location", "\(text(place)) was removed")]
        case .locationChanged(let place): return [("location", "\(text(place)) was changed")]
        case .scanBegan(let place): return [("scan", "\(text(place)) begins")]
        case .scanProgressed(let scan): return [("scan", "\(text(scan.place)): \(counts(scan))")]
        case .scanEnded(let scan):
            let ending = scan.problem.map { "ended: \(printable($0))" } ?? "ended: \(counts(scan))"
            return [("scan", "\(text(scan.place)) \(ending)")]
        case .tags(let tags):
            let names =
                tags.added.map { "+\(printable($0))" } + tags.removed.map { "-\(printable($0))" }
                + tags.deleted.map { "\(printable($0)) deleted" }
            return [("tags", names.joined(separator: " ") + files(tags.paths, more: tags.more))]
        case .annotations(let notes):
            let fields = notes.fields.map { $0 == .favorite ? "mark" : $0 == .rating ? "stars" : "note" }
            return [("notes", fields.joined(separator: ", ") + " of" + files(notes.paths, more: notes.more))]
        case .library(let library): return [("library", text(library))]
        case .jobChanged(let job), .jobProgressed(let job): return [("job", text(job))]
        case .jobRemoved(let job): return [("job", "\(printable(job.id.prefix(bytes: 8))) is not kept any more")]
        case .volumeAdded(let volume): return [("volume", "\(text(volume)) was mounted")]
        case .volumeRemoved(let volume): return [("volume", "\(text(volume)) is gone")]
        default: return [("event", "of a later version of Kith")]
        }
    }

    /// The one file, or the number of them, behind a blank.
    private func files(_ paths: [Files.Path], more: UInt64) -> String {
        let count = paths.count.saturatingAdding(Int(clamping: more))
        if count == 1, let path = paths.first { return " \(printable(path.description))" }
        return count > 0 ? " \(grouped(count)) files" : ""
    }

    private func text(_ library: LibraryEvents.LibraryChange) -> String {
        let name = printable(library.name)
        return switch library.kind {
        case .created: "\(name) was made"
        case .opened: "\(name) was opened"
        case .closed: "\(name) was closed"
        case .renamed: "\(library.before.map(printable) ?? "it") is called \(name) now"
        case .forgotten: "\(name) was closed for good"
        case .deleted: "\(name) was deleted"
        }
    }

    private func folder(_ files: LibraryEvents.FileChanges) -> String { printable(files.folder.description) }

    private func text(_ place: LibraryEvents.Place) -> String {
        "\(printable(place.name)) (\(printable(place.path.description)))"
    }

    /// `3f2a90b1 organize ~/Downloads: running  45 %  9 of 20`.
    private func text(_ job: Jobs.Job) -> String {
        let progress = JobText.progress(job.progress)
        let state = job.state == .failed ? job.error.map { "failed: \(printable($0))" } : nil
        return "\(JobText.id(job)) \(printable(job.title)): \(state ?? job.state.rawValue)"
            + (job.state == .running && !progress.isEmpty ? "  \(progress)" : "")
    }

    private func text(_ volume: Volumes.Volume) -> String {
        let label = volume.label.map { " “\(printable($0))”" } ?? ""
        let origin = "\(printable(volume.device)), \(printable(volume.fileSystem))"
        return "\(printable(volume.path.description))\(label) (\(origin))"
    }

    private func counts(_ scan: LibraryEvents.Scan) -> String {
        let progress = scan.progress
        let parts = [
            (progress.entries, "names"), (progress.added, "added"), (progress.changed, "changed"),
            (progress.moved, "moved"), (progress.removed, "removed"),
        ]
        return parts.enumerated().filter { $0.offset == 0 || $0.element.0 > 0 }.map {
            "\(grouped(Int(clamping: $0.element.0))) \($0.element.1)"
        }.joined(separator: ", ")
    }
}

/// Chooses the lines of jobs that go on: of each one a second.
private struct JobLines {
    /// When a line of a job was last printed, in milliseconds since 1970.
    private var last: [String: Int64] = [:]

    mutating func isWorthALine(_ event: LibraryEvents.Numbered) -> Bool {
        switch event.event {
        case .jobChanged(let job):
            // Its next line says how far it is.
            last[job.id] = job.state.isFinal ? nil : event.time
        case .jobRemoved(let job): last[job.id] = nil
        case .jobProgressed(let job):
            guard event.time.saturatingSubtracting(last[job.id] ?? 0) >= 1_000 else { return false }
            last[job.id] = event.time
        default: break
        }
        return true
    }
}

/// A place among events, as typed.
struct EventPlace: ExpressibleByArgument {
    private let epoch: UInt64?
    private let sequence: UInt64

    init?(argument: String) {
        let parts = argument.split(separator: ":", omittingEmptySubsequences: false)
        guard (1...2).contains(parts.count), let sequence = UInt64(parts[parts.count - 1]) else { return nil }
        if parts.count == 2 {
            guard let epoch = UInt64(parts[0]) else { return nil }
            self.epoch = epoch
        } else {
            epoch = nil
        }
        self.sequence = sequence
    }

    /// The place, in the epoch of the device that runs now if none was typed.
    func position(_ client: Client, on device: String?) async throws -> LibraryEvents.Position {
        if let epoch { return LibraryEvents.Position(epoch: epoch, sequence: sequence) }
        let opened = try await client.open(LibraryEvents.Follow.self, .usual, on: device)
        opened.stream.abort(.cancelled)
        return LibraryEvents.Position(epoch: opened.output.epoch, sequence: sequence)
    }
}

/// A word of the table, as typed.
private struct EventWord<Value: RawRepresentable<String> & CaseIterable & Sendable>: ExpressibleByArgument, Sendable {
    let value: Value

    init?(argument: String) {
        guard let value = Value(rawValue: argument) else { return nil }
        self.value = value
    }

    static var allValueStrings: [String] { Value.allCases.map(\.rawValue) }
}
