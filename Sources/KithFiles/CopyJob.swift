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
    private let progress = TransferProgress()
    private let landing: Files.Landing

    init(_ input: Files.Copy.Input, client: Client, disk: DiskExecutor) throws(KithError) {
        guard !input.sources.isEmpty else { throw KithError(.invalid, "There is nothing to copy.") }
        if input.destination.device == nil, input.sources.contains(where: { $0.device == nil }) {
            throw KithError(
                .invalid, "Both ends of the copy are on this device. Use cp, or name a device: laptop:/path.")
        }
        self.input = input
        self.client = client
        self.disk = disk
        var landing = input.landing
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
                        try await messages.send(progress.report())
                    }
                }
                while let part = try await group.next() {
                    if let summary = part { return summary }
                }
                throw CancellationError()
            }
            last = progress.report()
            if let (error, count) = progress.failure {
                let more = count > 1 ? " (and \(count - 1) more left out)" : ""
                last.failure = Files.Failure(code: error.code, message: error.message + more)
            }
            last.summary = summary
        } catch {
            last = progress.report()
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

    private func push(_ sources: [TreeSource]) async throws -> Files.Summary {
        try await on(input.destination.device) {
            let stream = try await client.open(
                Files.Push.self, Files.Push.Input(path: input.destination.path, landing: landing),
                on: input.destination.device
            ).stream
            return try await abandoning([stream]) {
                try await Transfer.send(sources, over: stream, on: disk, progress: progress)
            }
        }
    }

    private func pull(_ source: Files.Location) async throws -> Files.Summary {
        let place = try Place(ownPath: input.destination.path)
        let stream = try await openPull(source)
        return try await abandoning([stream]) {
            try await Transfer.receive(into: place, options: landing, over: stream, on: disk, progress: progress)
        }
    }

    private func openPull(_ source: Files.Location) async throws -> any ByteStream {
        try await on(source.device) {
            try await client.open(
                Files.Pull.self, Files.Pull.Input(path: source.path, recursive: input.recursive), on: source.device
            ).stream
        }
    }

    /// Copies between two other devices: the messages pass through this one, its disk sees nothing.
    private func relay(_ source: Files.Location) async throws -> Files.Summary {
        let from = try await openPull(source)
        let to = try await on(input.destination.device) {
            try await client.open(
                Files.Push.self, Files.Push.Input(path: input.destination.path, landing: landing),
                on: input.destination.device
            ).stream
        }
        return try await abandoning([from, to]) {
            try await TransferRelay(from: from, to: to, progress: progress).run()
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
