import Foundation
import KithAPI
import KithIndex
import KithJobs
import KithNode
import KithWire
import Logging

/// The content of files: what is read of them, and which are the same.
extension LibraryService {
    var contentHandlers: [Handler] {
        [
            .call(Locations.Identify.self) { input, _ in
                try await self.addJob(
                    { IdentifyJob($0) }, input.library, input.id, input.isWhole == true ? .whole : .sampled)
            },
            .call(Locations.Verify.self) { input, _ in
                try await self.addJob({ VerifyJob($0) }, input.library, input.id, .whole)
            },
            .call(Locations.Report.self) { input, _ in try await self.report(input) },
            .stream(Duplicates.Find.self) { input, _, pending in try await self.find(input, pending) }.limited(to: 4),
            .query(Duplicates.Copies.self, among: visitors) { input, context in try await self.copies(input, context) },
        ]
    }

    // MARK: - Reading

    private func addJob<Kind: JobKind>(
        _ kind: (LibraryReference) -> Kind, _ library: String?, _ id: Int64, _ depth: ContentDepth
    ) async throws -> Jobs.Job where Kind.Input == ContentInput {
        // By its id: a job may outlive its name, and which library is the default one.
        let keeper = try await ownKeeper(library)
        let location = try await keeper.index().location(id)
        let input = ContentInput(library: keeper.id.uuidString, location: id, name: location.name, depth: depth)
        let queue = try await jobs.start()
        let topic = depth == .whole ? input.topic + " whole" : input.topic
        return Self.described(try await queue.job(try await queue.add(kind(reference), input, topic: topic)))
    }

    private func report(_ input: Jobs.Reference) async throws -> Locations.Report.Output {
        let queue = try await jobs.queue()
        let id = try await Self.job(input.id, in: queue)
        let report: ContentReport =
            try await queue.job(id).kind == VerifyJob.name
            ? try await queue.output(of: id, VerifyJob.self) : try await queue.output(of: id, IdentifyJob.self)
        let counts = report.counts
        var (problems, bytes) = ([Locations.Report.Problem](), 0)
        for problem in report.problems {
            bytes += problem.path.count + problem.reason.utf8.count
            if bytes > Self.answerLimit { break }
            problems.append(
                Locations.Report.Problem(
                    kind: problem.kind.rawValue, path: Files.Path(bytes: problem.path),
                    reason: problem.reason.isEmpty ? nil : problem.reason))
        }
        return Locations.Report.Output(
            files: counts.files, bytes: counts.bytes, changed: counts.changed, gone: counts.gone,
            unreadable: counts.unreadable, damaged: counts.damaged, problems: problems)
    }

    /// Reads what is new in the locations of the mode `content`: little at once, much as a job.
    func identifyChanges(in library: UUID) async {
        do {
            let index = try await ownKeeper(library.uuidString).index()
            for location in try index.locations() where location.mode == .content && location.problem == nil {
                let count = try await index.unidentified(in: location.id)
                guard count > 0 else { continue }
                let queue = try await jobs.start()
                let input = ContentInput(
                    library: library.uuidString, location: location.id, name: location.name)
                // One that a person has paused stays so.
                if try await queue.hasOpenJob(IdentifyJob.self, topic: input.topic) { continue }
                if count > 1_000 {
                    _ = try await queue.add(IdentifyJob(reference), input, priority: .low, topic: input.topic)
                } else {
                    _ = try await index.identify(location.id)
                }
            }
        } catch {
            if !Task.isCancelled {
                logger.warning("The content of new files is not read.", metadata: ["error": "\(error)"])
            }
        }
    }

    // MARK: - Duplicates

    private func find(_ input: Duplicates.Find.Input, _ pending: PendingStream<Duplicates.Find>) async throws {
        let limit = input.limit ?? 10_000
        guard (1...10_000).contains(limit) else { throw KithError(.invalid, "`limit` is 1 to 10,000 groups.") }
        let folders = input.folders ?? []
        guard folders.count <= 100 else { throw KithError(.invalid, "At most 100 folders at a time.") }
        let index = try await ownKeeper(input.library).index()
        var scope = DuplicateScope(
            folders: try folders.map { try Self.plain($0.bytes) },
            minimumSize: Int64(clamping: input.minimumSize ?? 1))
        let path = try input.of.map { try Self.plain($0.bytes) }
        if let path { scope.size = try await index.content(of: path).size }
        let stream = try await pending.accept()
        if try await index.hasCandidates(scope) { try await readCandidates(scope, input.library, stream) }
        var (digests, totals) = try await index.duplicates(scope, limit: limit)
        if let path {
            // Whatever others of its size there are: the limit is one of groups that are shown.
            digests = try await index.content(of: path).digest.map { [$0] } ?? []
            totals = DuplicateTotals()
        }
        var compared: UInt64 = 0
        for digest in digests {
            guard let group = try await index.group(digest, scope) else { continue }
            var groups = [group]
            if input.isCompared == true {
                groups = try await index.compare(group)
                let (bytes, overflows) = UInt64(clamping: group.size).multipliedReportingOverflow(
                    by: UInt64(max(group.copies.count - 1, 0)))
                compared = compared.saturatingAdding(overflows ? .max : bytes)
                try await stream.send(Duplicates.Find.Finding(compared: compared))
            }
            for group in groups where group.count > 1 {
                if path != nil {
                    totals.groups += 1
                    totals.files = totals.files.saturatingAdding(UInt64(group.count - 1))
                    totals.waste = totals.waste.saturatingAdding(group.waste)
                }
                try await stream.send(Duplicates.Find.Finding(group: Self.described(group)))
            }
        }
        try await stream.send(
            Duplicates.Find.Finding(
                totals: Duplicates.Find.Totals(groups: totals.groups, files: totals.files, waste: totals.waste)))
        try await stream.finish()
    }

    /// Has the candidates read by a job, and tells how far it is.
    private func readCandidates(
        _ scope: DuplicateScope, _ library: String?, _ stream: MethodStream<Nothing, Duplicates.Find.Finding>
    ) async throws {
        let queue = try await jobs.start()
        let input = CandidatesJob.Input(
            library: try await ownKeeper(library).id.uuidString, scope: scope)
        let id = try await queue.add(CandidatesJob(reference), input, priority: .high, topic: "\(input)")
        for await event in await queue.follow(every: .milliseconds(100)) {
            guard case .changed(let job) = event, job.id == id else { continue }
            try await stream.send(Duplicates.Find.Finding(job: Self.described(job)))
            guard job.state.isFinal || job.state == .paused else { continue }
            _ = try await queue.output(of: id, CandidatesJob.self)
            return
        }
        try Task.checkCancellation()
        throw KithError(.closed, "This device stops; what was read of the files is kept.")
    }

    private func copies(
        _ input: Duplicates.Copies.Input, _ context: CallContext
    ) async throws -> Duplicates.Copies.Output {
        let index = try await keeper(input.library, for: context).index()
        let content = try await index.content(of: try Self.plain(input.path.bytes))
        guard let digest = content.digest, !content.isDamaged,
            let group = try await index.group(digest, DuplicateScope(size: content.size))
        else { return Duplicates.Copies.Output(isDamaged: content.isDamaged) }
        return Duplicates.Copies.Output(
            group: Self.described(group), volumes: Set(group.copies.map(\.device)).count)
    }

    /// The group, with as many names as fit a message.
    private static func described(_ group: DuplicateGroup) -> Duplicates.Group {
        var bytes = 0
        var copies: [Duplicates.Copy] = []
        for copy in group.copies {
            var paths: [Files.Path] = []
            for path in copy.paths where bytes <= answerLimit {
                bytes += path.count + 100
                paths.append(Files.Path(bytes: path))
            }
            guard !paths.isEmpty else { break }
            copies.append(
                Duplicates.Copy(
                    paths: paths, volume: copy.device, modified: copy.modified / 1_000_000_000, verified: copy.read,
                    isOffline: copy.isOffline))
        }
        return Duplicates.Group(
            digest: group.digest.map { byte in
                let text = String(byte, radix: 16)
                return text.count == 1 ? "0" + text : text
            }.joined(), size: UInt64(clamping: group.size), isCompared: group.evidence == .bytes, copies: copies,
            count: group.count, waste: group.waste)
    }
}
