import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// The options of what changes files by a plan.
struct OperationOptions: ParsableArguments {
    /// What happens where a name is taken, as people spell it.
    enum Conflicts: String, ExpressibleByArgument, CaseIterable {
        case ask, skip, overwrite
        case keepBoth = "keep-both"

        var choice: Operations.Choice {
            switch self {
            case .ask: .ask
            case .skip: .skip
            case .overwrite: .overwrite
            case .keepBoth: .keepBoth
            }
        }
    }

    @Flag(help: "Show what would be done, and change nothing.") var plan = false
    @Flag(name: .shortAndLong, help: "Do not ask.") var yes = false
    @Option(
        name: .customLong("on-conflict"),
        help: "Where a name is taken: ask, skip, overwrite (what was there goes into the trash), keep-both.")
    var conflicts = Conflicts.ask
}

/// Shows a plan, asks, confirms it, and follows it to its end.
struct OperationFlow {
    /// The most steps that are shown of a plan.
    private static let maximumShown = 20

    let globals: GlobalOptions
    /// The beginning of the command that does what a plan has shown; its id follows.
    var confirmation = "kith organize confirm"
    /// What a person is told to pass where names are taken.
    var conflictHelp = "Pass --on-conflict skip, overwrite or keep-both"
    /// Whether the plan is shown, and not done.
    var showsOnly = false
    /// Whether the person is asked even where nothing is in the way.
    var asks = false

    /// Makes the flow of a command with the usual options, which asks where they do not forbid it.
    init(options: OperationOptions, globals: GlobalOptions, asksAlways: Bool = false) {
        self.init(globals: globals, showsOnly: options.plan, asks: asksAlways && !options.yes)
    }

    init(
        globals: GlobalOptions, confirmation: String = "kith organize confirm", showsOnly: Bool = false,
        asks: Bool = false
    ) {
        self.globals = globals
        self.confirmation = confirmation
        self.showsOnly = showsOnly
        self.asks = asks
    }

    /// Does a plan, or only shows it.
    func run(_ plan: Operations.Planned, _ client: Client) async throws {
        if showsOnly {
            if globals.json { return printLine(try jsonText(plan)) }
            show(plan)
            guard plan.totals.steps > plan.totals.problems else { return note("Nothing was changed, nor could be.") }
            return note("Nothing was changed. For ten minutes this does it: \(confirmation) \(plan.id)")
        }
        let works = plan.totals.steps - plan.totals.problems
        for step in plan.steps where step.state == .failed { noteProblem(step) }
        guard works > 0 else {
            throw KithError(.conflict, "Nothing was changed: none of it can be done, for the reasons above.")
        }
        guard plan.room.allSatisfy(\.suffices) else {
            let short = plan.room.filter { !$0.suffices }.map {
                "\(printable($0.path.description)) has \(Wording.size($0.free)) free of \(Wording.size($0.needed)) needed"
            }
            throw KithError(.exhausted, "There is too little room: \(short.joined(separator: ", ")).")
        }
        var otherwise: Operations.Choice?
        if plan.totals.unresolved > 0 {
            if !globals.json { show(plan) }
            otherwise = try await choice(plan)
            guard otherwise != nil else { return note("Nothing was changed.") }
        } else if asks {
            if !globals.json { show(plan) }
            guard try confirm(Self.question(plan), orPass: "-y") else { return note("Nothing was changed.") }
        }
        try await carryOut(plan.id, otherwise: otherwise, client)
    }

    /// Does what was planned before, and follows it to its end.
    ///
    /// The plan has to be one of `kinds`, if there are some; `otherwise` is what happens where a name is taken and the plan
    /// does not say.
    func carryOut(
        _ plan: String, kinds: [Operations.Kind]? = nil, otherwise: Operations.Choice?, _ client: Client
    ) async throws {
        let started: Operations.Confirm.Output
        do {
            started = try await client.call(
                Operations.Confirm.self, .init(plan: plan, otherwise: otherwise, kinds: kinds))
        } catch let error as KithError where error.code == .conflict && error.message.contains("`otherwise`") {
            // What the method calls it is nothing to a person.
            throw KithError(
                .conflict, "Names are taken. \(conflictHelp); --plan shows which.", cause: error)
        }
        try await follow(started, client)
        try await finish(started.operation, client)
    }

    private static func question(_ plan: Operations.Planned) -> String {
        let what = plan.kind.rawValue == "emptyTrash" ? "delete for good" : plan.kind.rawValue
        let back = plan.isUndoable ? "" : " This cannot be taken back."
        return "\(what.prefix(1).uppercased() + what.dropFirst()) \(counted(plan.totals))?\(back)"
    }

    /// Asks what to do where names are taken; `nil`: nothing at all.
    private func choice(_ plan: Operations.Planned) async throws -> Operations.Choice? {
        let count = plan.totals.unresolved
        let subject = count == 1 ? "A name is taken" : "\(grouped(count)) names are taken"
        guard TerminalPrompt.isPossible, !globals.json else {
            throw KithError(
                .conflict, "\(subject). \(conflictHelp); --plan shows which.")
        }
        while true {
            let answer = try await TerminalPrompt.line("\(subject): [s]kip, [o]verwrite, keep [b]oth, or [q]uit? ")
            switch answer?.trimmingCharacters(in: .whitespaces).lowercased() {
            case "s", "skip": return .skip
            case "o", "overwrite": return .overwrite
            case "b", "both": return .keepBoth
            case nil, "q", "quit", "": return nil
            default: continue
            }
        }
    }

    // MARK: - Showing

    static func counted(_ totals: Operations.Totals) -> String {
        var parts: [String] = []
        if totals.files > 0 { parts.append("\(grouped(totals.files)) file\(totals.files == 1 ? "" : "s")") }
        if totals.folders > 0 { parts.append("\(grouped(totals.folders)) folder\(totals.folders == 1 ? "" : "s")") }
        let bytes = totals.bytes > 0 ? ", \(Wording.size(totals.bytes))" : ""
        return (parts.isEmpty ? "nothing" : parts.joined(separator: " and ")) + bytes
    }

    private func show(_ plan: Operations.Planned) {
        let shown = globals.verbose ? plan.steps[...] : plan.steps.prefix(Self.maximumShown)
        printLine(
            table(
                ["STEP", "WHAT", "WHERE TO", "NOTE"],
                shown.map { step in
                    [
                        Self.verb(step.action), step.source.map { printable($0.description) } ?? "",
                        step.destination.map { printable($0.description) } ?? "", Self.remark(step),
                    ]
                }))
        let rest = plan.totals.steps - shown.count
        if rest > 0 { printLine("… and \(grouped(rest)) more steps") }
        var lines = [
            "\(Self.counted(plan.totals)) in \(grouped(plan.totals.steps)) step\(plan.totals.steps == 1 ? "" : "s")"
        ]
        if plan.totals.conflicts > 0 {
            lines.append(
                KithCommand.counted(plan.totals.conflicts, "name") + (plan.totals.conflicts == 1 ? " is" : " are")
                    + " taken")
        }
        if plan.totals.problems > 0 {
            lines.append("\(KithCommand.counted(plan.totals.problems, "step")) cannot be done")
        }
        if plan.crossesFileSystems { lines.append("copied to another file system, then deleted here") }
        for room in plan.room {
            lines.append(
                "\(Wording.size(room.needed)) needed on \(printable(room.path.description)), \(Wording.size(room.free)) free"
            )
        }
        lines.append(
            plan.isUndoable ? "`kith undo` takes it back" : "it cannot be taken back: \(plan.notUndoable ?? "")")
        for line in lines { printLine("  " + line) }
    }

    private static func verb(_ action: Operations.Action) -> String {
        switch action {
        case .makeFolder: "make folder"
        case .finishFolder: "set times"
        case .deleteFolder: "delete folder"
        case .purge: "delete"
        default: action.rawValue
        }
    }

    private static func remark(_ step: Operations.Step) -> String {
        if let message = step.message { return styled(printable(message), .yellow) }
        guard let conflict = step.conflict else { return step.bytes > 0 ? Wording.size(step.bytes) : "" }
        let choice =
            switch step.choice {
            case .skip: "skip"
            case .overwrite: "overwrite"
            case .keepBoth: "keep both"
            default: "?"
            }
        return styled("taken by a \(conflict.kind.rawValue) of \(relative(conflict.modified)): \(choice)", .yellow)
    }

    private func noteProblem(_ step: Operations.Step) {
        let path = (step.source ?? step.destination)?.description ?? ""
        note("kith: \(printable(path)): \(printable(step.message ?? "cannot be done"))")
    }

    // MARK: - Doing

    private func follow(_ started: Operations.Confirm.Output, _ client: Client) async throws {
        var line = StatusLine(isShown: !globals.json, isPlain: isPlainTerminal)
        defer { line.clear() }
        let start = ContinuousClock.now
        let stream = try await client.open(Operations.Follow.self, .init(operation: started.operation)).stream
        for try await update in stream.messages {
            if update.isLast { return }
            // What takes a moment needs no line.
            guard start.duration(to: .now) > .milliseconds(500) else { continue }
            line.show(Self.text(update))
        }
        throw KithError(
            .closed, "The operation was interrupted; job \(started.job.prefix(8)) goes on when this device is up.")
    }

    private static func text(_ update: Operations.Follow.Update) -> String {
        if update.isWaiting { return "Waiting for other jobs" }
        var text = "\(grouped(update.completed)) of \(grouped(update.total)) steps"
        if let total = update.totalBytes { text += ", \(Wording.size(update.bytes)) of \(Wording.size(total))" }
        if let rate = update.byteRate { text += ", \(Wording.size(rate))/s" }
        if let left = update.remaining, left.isFinite, left >= 1 { text += ", \(Int(min(left, 1e6))) s left" }
        if let current = update.current {
            text += "  " + printable(String(current.split(separator: "/").last ?? "")).prefix(40)
        }
        return text
    }

    /// Says what came of it; fails when a step did.
    private func finish(_ operation: String, _ client: Client) async throws {
        let entry = try await client.call(Operations.List.self, .init(limit: 1_000)).operations.first {
            $0.id == operation
        }
        guard let entry else { throw KithError(.notFound, "The operation is not in the journal any more.") }
        if globals.json { printLine(try jsonText(entry)) }
        for state in [Operations.State.skipped, .failed] where state == .skipped ? entry.skipped > 0 : entry.failed > 0
        {
            let results = try await client.call(
                Operations.Results.self, .init(operation: operation, limit: Self.maximumShown, state: state))
            // Those that were so in the plan were told.
            for step in results.steps where !globals.json { noteProblem(step) }
            if results.hasMore, !globals.json { note("kith: … and more; kith undo --list counts them") }
        }
        if !globals.json {
            let left = entry.skipped > 0 ? ", \(grouped(entry.skipped)) left out" : ""
            let failed = entry.failed > 0 ? ", \(grouped(entry.failed)) failed" : ""
            let back = entry.isUndoable && entry.kind != .undo ? " `kith undo` takes it back." : ""
            note("\(grouped(entry.done)) step\(entry.done == 1 ? "" : "s") done\(left)\(failed).\(back)")
        }
        if entry.failed > 0 { throw ExitCode(KithError.Code.conflict.exitStatus) }
    }
}

/// A path of this device as it was typed: from the top, from the working directory, or from the home folder.
func localPath(_ word: String) throws -> Files.Path {
    if word == "~" || word.hasPrefix("~/") { return Files.Path(word) }
    let path = try RemotePath.absolute(word)
    return Files.Path(path.isEmpty ? "/" : path)
}
