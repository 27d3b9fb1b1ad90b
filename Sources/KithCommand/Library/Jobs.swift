import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// `kith jobs`.
struct JobsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "jobs",
        abstract: "List, watch, pause, resume and cancel what takes long.",
        discussion: helpText(
            """
              kith jobs                    what runs, waits and has ended
              kith jobs --watch            with bars that move, until Ctrl-C
              kith jobs pause 3f2a         also over a restart, until it is resumed
              kith jobs resume 3f2a
              kith jobs log 3f2a

            A job goes on from where it stored last after a crash, a restart and a pause. `kith up` runs what waits; without
            it `kith jobs run` does. The beginning of an id is enough where no other job has it.
            """),
        subcommands: [
            JobsListCommand.self, JobsRunCommand.self, JobsPauseCommand.self, JobsResumeCommand.self,
            JobsCancelCommand.self, JobsLogCommand.self,
        ],
        defaultSubcommand: JobsListCommand.self)
}

/// `kith jobs list`.
struct JobsListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List jobs, the newest last.",
        discussion: helpText(
            """
              kith jobs list
              kith jobs list --state running --state queued
              kith jobs list --watch --json

            With --json each job is an object on a line of its own; with --watch it is told anew with each change, at most ten
            times a second. Jobs that have ended are kept for 30 days, the last 200 of them.
            """))

    @OptionGroup var globals: GlobalOptions
    @Flag(name: [.short, .long], help: "Go on and show each change, until Ctrl-C.") var watch = false
    @Option(
        name: .long, parsing: .singleValue,
        help: "Only jobs in this state: queued, running, paused, cancelled, failed, done; may be repeated.")
    var state: [JobStateArgument] = []

    func run() async throws {
        try await withClient(globals) { client in
            let states = state.isEmpty ? nil : state.map(\.state)
            if watch { return try await watched(states.map(Set.init), client) }
            let jobs = try await allJobs(states, client)
            if globals.json { return try jobs.forEach { printLine(try jobLine($0)) } }
            guard !jobs.isEmpty else { return note("There are no jobs\(state.isEmpty ? "" : " of that kind").") }
            printLine(
                table(
                    ["ID", "STATE", "PROGRESS", "ADDED", "JOB"],
                    jobs.map { job in
                        [
                            JobText.id(job), Self.state(job), JobText.progress(job.progress), relative(job.created),
                            printable(job.title),
                        ]
                    }))
            for job in jobs {
                if !job.isKnown { note("\(JobText.id(job)) waits for a version of kith that knows jobs of its kind.") }
                if let error = job.error { note("\(JobText.id(job)): \(printable(error))") }
            }
        }
    }

    private static func state(_ job: Jobs.Job) -> String {
        switch job.state {
        case .running: styled("running", .bold)
        case .failed: styled("failed", .red)
        case .paused: styled("paused", .yellow)
        default: job.state.rawValue
        }
    }

    private func watched(_ states: Set<Jobs.State>?, _ client: Client) async throws {
        let stream = try await client.open(Jobs.Follow.self, .init()).stream
        if globals.json || isPlainTerminal || isatty(STDERR_FILENO) != 1 {
            for try await change in stream.messages {
                guard let job = change.job, states?.contains(job.state) ?? true else { continue }
                printLine(globals.json ? try jobLine(job) : JobText.line(job, width: 200))
            }
        } else {
            try await drawn(stream.messages, states)
        }
    }

    /// Draws those that have not ended, and the last that have.
    private func drawn(
        _ messages: some AsyncSequence<Jobs.Follow.Change, any Error>, _ states: Set<Jobs.State>?
    ) async throws {
        var (jobs, bars, isCurrent) = ([String: Jobs.Job](), JobBars(), false)
        for try await change in messages {
            if let job = change.job { jobs[job.id] = job }
            if let removed = change.removed { jobs[removed] = nil }
            isCurrent = isCurrent || change.isCurrent == true
            guard isCurrent else { continue }
            let all = jobs.values.filter { states?.contains($0.state) ?? true }.sorted { $0.number < $1.number }
            let ended = all.filter(\.state.isFinal).suffix(5)
            let lines = (ended + all.filter { !$0.state.isFinal }).map {
                JobText.line($0, width: terminalColumns(STDERR_FILENO))
            }
            bars.draw(lines.isEmpty ? ["There are no jobs. Ctrl-C ends this."] : lines)
        }
    }
}

/// `kith jobs run`.
struct JobsRunCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Run what waits until nothing is left; `kith up` does so by itself.",
        discussion: helpText(
            """
              kith jobs run

            What is paused stays so. Ctrl-C ends it; the next time it goes on.
            """))

    @OptionGroup var globals: GlobalOptions

    func run() async throws {
        let globals = globals
        try await whileFollowingJobs(globals) { try await Self.runAll(globals) }
    }

    private static func runAll(_ globals: GlobalOptions) async throws {
        try await withClient(globals) { client in
            let open = try await allJobs([.queued, .running], client).filter(\.isKnown)
            guard !open.isEmpty else { return note("Nothing waits.") }
            var left = Set(open.map(\.id))
            var (jobs, bars, failed) = ([String: Jobs.Job](), JobBars(), nil as KithError?)
            let isDrawn = !globals.json && !isPlainTerminal && isatty(STDERR_FILENO) == 1
            let stream = try await client.open(Jobs.Follow.self, .init(runs: true)).stream
            for try await change in stream.messages {
                guard let job = change.job, left.contains(job.id) || jobs[job.id] != nil else { continue }
                jobs[job.id] = job
                if job.state.isFinal || job.state == .paused { left.remove(job.id) }
                if job.state == .failed { failed = JobText.error(job) }
                if globals.json {
                    printLine(try jobLine(job))
                } else if isDrawn {
                    bars.draw(
                        jobs.values.sorted { $0.number < $1.number }.map {
                            JobText.line($0, width: terminalColumns(STDERR_FILENO))
                        })
                } else if job.state.isFinal {
                    printLine(JobText.line(job, width: 200))
                }
                if left.isEmpty { break }
            }
            if let failed { throw failed }
        }
    }
}

/// `kith jobs pause`.
struct JobsPauseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause", abstract: "Halt jobs until they are resumed.",
        discussion: helpText(
            """
              kith jobs pause 3f2a

            What a job has done until its last checkpoint stays done. It stays paused over restarts of this device.
            """))

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "The jobs, by their ids or the beginnings of those.") var ids: [String]

    func run() async throws {
        try await changeJobs(ids, globals) { try await $0.call(Jobs.Pause.self, .init(id: $1)) }
    }
}

/// `kith jobs resume`.
struct JobsResumeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume", abstract: "Let jobs go on that were paused, or have failed.",
        discussion: helpText(
            """
              kith jobs resume 3f2a

            They go on from their last checkpoint as soon as this device is up, or with `kith jobs run`.
            """))

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "The jobs, by their ids or the beginnings of those.") var ids: [String]

    func run() async throws {
        try await changeJobs(ids, globals) { try await $0.call(Jobs.Resume.self, .init(id: $1)) }
    }
}

/// `kith jobs cancel`.
struct JobsCancelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cancel", abstract: "End jobs for good.",
        discussion: helpText(
            """
              kith jobs cancel 3f2a

            What a job has done stays done; what it has left half done it puts away.
            """))

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "The jobs, by their ids or the beginnings of those.") var ids: [String]

    func run() async throws {
        try await changeJobs(ids, globals) { try await $0.call(Jobs.Cancel.self, .init(id: $1)) }
    }
}

/// `kith jobs log`.
struct JobsLogCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "log", abstract: "Print what a job has noted: its last 1,000 lines.",
        discussion: helpText(
            """
              kith jobs log 3f2a
            """))

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "The job, by its id or the beginning of it.") var id: String

    func run() async throws {
        try await withClient(globals) { client in
            let found = try await client.call(Jobs.Get.self, .init(id: id))
            if globals.json { return printLine(try jsonText(found)) }
            for line in found.log { printLine("\(LongListing.time(line.time))  \(printable(line.text))") }
            if found.log.isEmpty { note("Job \(JobText.id(found.job)) has noted nothing.") }
        }
    }
}

/// A state as people type it.
struct JobStateArgument: ExpressibleByArgument {
    let state: Jobs.State

    init?(argument: String) {
        guard let state = Jobs.State(rawValue: argument) else { return nil }
        self.state = state
    }

    static var allValueStrings: [String] { Jobs.State.allCases.map(\.rawValue) }
}

/// All jobs in these states, the oldest first.
private func allJobs(_ states: [Jobs.State]?, _ client: Client) async throws -> [Jobs.Job] {
    var (jobs, before) = ([Jobs.Job](), nil as Int64?)
    repeat {
        let page = try await client.call(Jobs.List.self, .init(states: states, before: before))
        jobs += page.jobs
        before = page.next
    } while before != nil
    return jobs.reversed()
}

private func changeJobs(
    _ ids: [String], _ globals: GlobalOptions, _ body: (Client, String) async throws -> Jobs.Job
) async throws {
    guard !ids.isEmpty else { throw ValidationError("Which job? `kith jobs` lists them.") }
    try await withClient(globals) { client in
        for id in ids {
            let job = try await body(client, id)
            printLine(
                globals.json ? try jobLine(job) : "\(JobText.id(job)) is \(job.state.rawValue): \(printable(job.title))"
            )
        }
    }
}

/// A job as JSON on one line.
private func jobLine(_ job: Jobs.Job) throws -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return String(decoding: try encoder.encode(job), as: UTF8.self)
}
