import KithAPI
import KithWire

/// One `files.copy`: moves trees between this device's disk and other devices, and tells how it goes.
struct CopyJob: Sendable {
    /// One transfer of the copy.
    private enum Step {
        case push([TreeSource])
        case pull(Files.Location)
        case relay(Files.Location)
    }

    private let input: Files.Copy.Input
    private let client: Client
    private let disk: DiskExecutor
    private let active: ActivePartials
    private let progress = TransferProgress()
    private let landing: Files.Landing

    init(_ input: Files.Copy.Input, client: Client, disk: DiskExecutor, active: ActivePartials) throws(KithError) {
        guard !input.sources.isEmpty else { throw KithError(.invalid, "There is nothing to copy.") }
        if input.destination.device == nil, input.sources.contains(where: { $0.device == nil }) {
            throw KithError(
                .invalid, "Both ends of the copy are on this device. Use cp, or name a device: laptop:/path.")
        }
        self.input = input
        self.client = client
        self.disk = disk
        self.active = active
        guard input.compress != .always || BlockCompression.isAvailable else {
            throw KithError(.unsupported, "This kith was built without zstd, so it cannot compress.")
        }
        guard input.limit != 0 else { throw KithError(.invalid, "A limit of nothing lets nothing pass.") }
        guard input.landing.exclude.isEmpty else {
            throw KithError(.invalid, "What is left out of a copy is said of its sources.")
        }
        // A pattern that cannot be read is refused before anything is asked for.
        _ = try IgnoreRules(input.selection.exclude)
        var landing = input.landing
        landing.exclude = input.selection.exclude
        if input.sources.count > 1 { landing.intoFolder = true }
        self.landing = landing
    }

    /// Copies, and reports ten times a second.
    ///
    /// The reports are ``Files/Progress``. Ends when the caller goes.
    func run(reportingTo stream: any ByteStream) async throws {
        let messages = MessageStream(stream)
        var last = Files.Progress()
        do {
            let summary = try await withThrowingTaskGroup(of: Files.Summary?.self) { group in
                defer { group.cancelAll() }
                group.addTask { try await copy() }
                group.addTask {
                    while true {
                        try await Task.sleep(for: .milliseconds(100))
                        let report = progress.report()
                        // Not cut short when the copy ends meanwhile: what a report tells is told once.
                        try await Task(name: "files.copy report") { try await messages.send(report) }.value
                    }
                }
                while let part = try await group.next() {
                    if let summary = part { return summary }
                }
                throw CancellationError()
            }
            last = try await lastReport(to: messages)
            if let (error, count) = progress.failure {
                let more = count > 1 ? " (and \(count - 1) more left out)" : ""
                last.failure = Files.Failure(code: error.code, message: error.message + more)
            }
            last.summary = summary
        } catch {
            last = try await lastReport(to: messages)
            last.failure = Files.Failure(error)
        }
        try await messages.send(last)
        // A caller that has read the last report may be gone already.
        try? await stream.finish()
    }

    private func copy() async throws -> Files.Summary {
        var summary = Files.Summary()
        for step in try await steps() {
            switch step {
            case .push(let sources):
                summary = summary + (try await push(sources))
            case .pull(let source):
                summary = summary + (try await pull(source))
            case .relay(let source):
                summary = summary + (try await relay(source))
            }
        }
        // What attempts that were cut have sent was sent, too.
        summary.sent = progress.moved
        summary.wire = progress.wire
        return summary
    }

    /// The transfers, the local files of neighbouring sources together in one.
    private func steps() async throws -> [Step] {
        try await disk.run {
            var steps: [Step] = []
            for source in input.sources {
                if source.device != nil {
                    steps.append(input.destination.device == nil ? .pull(source) : .relay(source))
                    continue
                }
                let tree = try TreeSource(try Place(ownPath: source.path), recursive: input.recursive)
                if case .push(let trees)? = steps.last {
                    steps[steps.count - 1] = .push(trees + [tree])
                } else {
                    steps.append(.push([tree]))
                }
            }
            return steps
        }
    }

    /// Reports until nothing is left but the last word.
    private func lastReport(to messages: MessageStream) async throws -> Files.Progress {
        while true {
            let report = progress.report()
            if report.changes.isEmpty { return report }
            try await messages.send(report)
        }
    }

    private func push(_ sources: [TreeSource]) async throws -> Files.Summary {
        try await lasting {
            let stream = try await openPush()
            progress.connected()
            return try await abandoning([stream]) {
                try await Transfer.send(
                    sources, selection: input.selection, compress: input.compress, over: stream, on: disk,
                    progress: progress)
            }
        }
    }

    private func pull(_ source: Files.Location) async throws -> Files.Summary {
        try await lasting {
            let place = try Place(ownPath: input.destination.path)
            let stream = try await openPull(source)
            progress.connected()
            return try await abandoning([stream]) {
                try await Transfer.receive(
                    into: place, options: landing, compress: input.compress, over: stream, on: disk, active: active,
                    progress: progress)
            }
        }
    }

    /// Copies between two other devices: the messages pass through this one, its disk sees nothing.
    private func relay(_ source: Files.Location) async throws -> Files.Summary {
        try await lasting {
            let from = try await openPull(source)
            let to = try await openPush()
            progress.connected()
            return try await abandoning([from, to]) {
                try await TransferRelay(from: from, to: to, compress: input.compress, progress: progress).run()
            }
        }
    }

    private func openPull(_ source: Files.Location) async throws -> any ByteStream {
        try await on(source.device) {
            limited(
                try await client.open(
                    Files.Pull.self,
                    Files.Pull.Input(path: source.path, recursive: input.recursive, selection: input.selection),
                    on: source.device
                ).stream)
        }
    }

    private func openPush() async throws -> any ByteStream {
        try await on(input.destination.device) {
            limited(
                try await client.open(
                    Files.Push.self, Files.Push.Input(path: input.destination.path, landing: landing),
                    on: input.destination.device
                ).stream)
        }
    }

    private func limited(_ stream: any ByteStream) -> any ByteStream {
        guard let limit = input.limit else { return stream }
        return LimitedStream(stream, rate: limit)
    }

    /// Runs a transfer, and begins it again when its connection is lost: what has arrived is not sent again.
    ///
    /// A device that cannot be reached in the first place is an error at once.
    private func lasting(_ body: () async throws -> Files.Summary) async throws -> Files.Summary {
        let mark = progress.mark
        let patience = Duration.seconds(Int64(input.retrySeconds))
        var done = progress.moved
        progress.isConnected = false
        var lastMove = ContinuousClock.now
        var pause = Duration.milliseconds(250)
        while true {
            do {
                return try await body()
            } catch let error as KithError where [.closed, .unreachable, .timedOut].contains(error.code) {
                guard progress.isConnected else { throw error }
                let now = ContinuousClock.now
                if progress.moved != done {
                    (done, lastMove, pause) = (progress.moved, now, .milliseconds(250))
                }
                guard now - lastMove < patience else { throw error }
                progress.wait("connection lost, trying again")
                try await Task.sleep(for: pause)
                pause = min(pause * 2, .seconds(10))
                progress.restart(from: mark)
            }
        }
    }

    /// Runs `body`; when it fails, no stream is left open.
    private func abandoning(
        _ streams: [any ByteStream], _ body: () async throws -> Files.Summary
    ) async throws -> Files.Summary {
        do {
            return try await body()
        } catch {
            for stream in streams { stream.abort(Files.Failure(error).code) }
            throw error
        }
    }

    /// Says in an error which device refused.
    private func on<Result>(_ device: String?, _ body: () async throws -> Result) async throws -> Result {
        do {
            return try await body()
        } catch let error as KithError where error.code == .denied && !error.message.contains("ermitted") {
            throw KithError(.denied, "Not permitted on \(device ?? "this device"): \(error.message)", cause: error)
        }
    }
}
