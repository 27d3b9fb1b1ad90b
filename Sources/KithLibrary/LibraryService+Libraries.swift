import CKithSystem
import Foundation
import KithAPI
import KithIO
import KithIndex
import KithNode
import KithWire

extension LibraryService {
    /// The methods about libraries as a whole, and those by which another device looks into one.
    var librariesHandlers: [Handler] {
        [
            .query(Libraries.List.self, among: visitors) { input, context in try await self.list(input, context) },
            .query(Libraries.Info.self, among: visitors) { input, context in
                let isOwner = context.caller == .owner
                let library = try await self.collection.library(input.library, isOwner: isOwner)
                return await self.summary(library, counted: true, isOwner: isOwner)
            },
            .call(Libraries.Create.self) { input, _ in
                let path = try input.path.map { try Self.folder($0) }
                return await self.summary(try await self.collection.create(name: input.name, at: path))
            },
            .call(Libraries.Open.self) { input, _ in
                switch (input.library, input.path) {
                case (let library?, nil): return await self.summary(try await self.collection.open(library))
                case (nil, let path?):
                    return await self.summary(try await self.collection.open(at: try Self.folder(path)))
                default: throw KithError(.invalid, "Either `library` or `path` says what is opened.")
                }
            },
            .call(Libraries.Close.self) { input, _ in
                let library = try await self.collection.close(input.library, forgets: input.forgets)
                guard let library else { return Libraries.Close.Output(library: nil) }
                return Libraries.Close.Output(library: await self.summary(library))
            },
            .call(Libraries.Rename.self) { input, _ in
                await self.summary(try await self.collection.rename(input.library, to: input.name))
            },
            .call(Libraries.SetDefault.self) { input, _ in
                await self.summary(try await self.collection.setDefault(input.library))
            },
            .call(Libraries.Delete.self) { input, _ in
                try await self.collection.delete(input.library)
                return Nothing()
            },
            .stream(Libraries.Export.self) { input, _, pending in
                let path = try Self.text(input.path)
                let stream = try await pending.accept()
                try await Self.reporting(to: stream) { report in
                    let library = try await self.collection.export(
                        input.library, to: path, overwrites: input.overwrite, progress: report)
                    return await self.summary(library)
                }
            },
            .stream(Libraries.Import.self) { input, _, pending in
                let path = try Self.text(input.path)
                let stream = try await pending.accept()
                try await Self.reporting(to: stream) { report in
                    let library = try await self.collection.import(
                        path, name: input.name, replaces: input.replaces, progress: report)
                    return await self.summary(library, counted: true)
                }
            },
            .query(Locations.Browse.self, among: visitors) { input, context in
                try await self.browse(input, context)
            },
            .stream(Locations.Read.self) { try await self.read($0, $1, $2) }.limited(to: 16),
        ]
    }

    // MARK: - Libraries

    private func list(_ input: Libraries.List.Input, _ context: CallContext) async throws -> Libraries.List.Output {
        let isOwner = context.caller == .owner
        var libraries: [Library.Summary] = []
        for library in try await collection.libraries() where isOwner || !library.isUnconfirmed {
            libraries.append(await summary(library, counted: input.includeStats, isOwner: isOwner))
        }
        return Libraries.List.Output(libraries: libraries)
    }

    /// Describes a library; where it lies and what is wrong with it is for its person alone.
    func summary(
        _ library: KnownLibrary, counted: Bool = false, isOwner: Bool = true
    ) async -> Library.Summary {
        var summary = Library.Summary(
            id: library.idText, name: library.name, created: library.created, isDefault: library.isDefault,
            state: .open, isUnconfirmed: library.isUnconfirmed,
            path: isOwner ? Files.Path(library.path) : nil)
        var problem = library.problem
        if library.isClosed {
            summary.state = .closed
            return summary
        }
        if problem == nil {
            do throws(KithError) {
                let index = try await collection.keeper(library.idText, isOwner: isOwner).index()
                let usual = try index.usual()
                summary.mode = usual.mode.flatMap { Library.Mode(rawValue: $0.rawValue) }
                summary.rules = usual.rules.map {
                    Library.Rules(patterns: $0.patterns, followsIgnoreFiles: $0.followsIgnoreFiles)
                }
                if counted { summary.statistics = Self.statistics(try await index.statistics()) }
            } catch {
                problem = error
            }
        }
        if let problem {
            summary.state = library.problem?.code == .notFound ? .offline : .failed
            summary.problem = isOwner ? problem.message : nil
        }
        return summary
    }

    private static func statistics(_ numbers: IndexStatistics) -> Library.Statistics {
        Library.Statistics(
            files: numbers.files, folders: numbers.folders, others: numbers.others, bytes: numbers.bytes,
            categories: numbers.categories.map {
                Library.Statistics.Category(name: $0.name, files: $0.files, bytes: $0.bytes)
            },
            locations: numbers.locations, tags: numbers.tags, indexBytes: numbers.indexBytes, scanned: numbers.scanned)
    }

    /// The folder of a library: its path is kept as text.
    private static func folder(_ path: Files.Path) throws -> String {
        let text = try text(path)
        return try String(decoding: plain(Array(text.utf8)), as: UTF8.self)
    }

    static func text(_ path: Files.Path) throws -> String {
        guard let text = String(validating: path.bytes, as: UTF8.self), text.hasPrefix("/"), !path.bytes.contains(0),
            path.bytes.count <= 4_096
        else {
            throw KithError(.invalid, "\(path) is no whole path, or not in UTF-8.")
        }
        return text
    }

    /// Runs what takes long, and sends how far it is: whoever is slow sees fewer steps, but the last one.
    private static func reporting(
        to stream: MethodStream<Nothing, Libraries.Progress>,
        _ work:
            @escaping @Sendable (_ report: @escaping @Sendable (LibraryArchive.Progress) -> Void) async throws
            -> Library.Summary
    ) async throws {
        let (steps, continuation) = AsyncStream.makeStream(
            of: LibraryArchive.Progress.self, bufferingPolicy: .bufferingNewest(1))
        let library = try await withThrowingTaskGroup(of: Library.Summary?.self) { group in
            group.addTask {
                defer { continuation.finish() }
                return try await work { continuation.yield($0) }
            }
            group.addTask {
                var sent: ContinuousClock.Instant?
                for await step in steps {
                    let now = ContinuousClock.now
                    if let sent, now - sent < .milliseconds(100) { continue }
                    sent = now
                    let phase: Libraries.Progress.Phase =
                        switch step.phase {
                        case .copying: .copying
                        case .packing: .packing
                        case .checking: .checking
                        }
                    try await stream.send(Libraries.Progress(phase: phase, bytes: step.bytes, total: step.total))
                }
                return nil
            }
            var library: Library.Summary?
            // A caller that has gone ends the work.
            for try await result in group { library = result ?? library }
            return library
        }
        try await stream.send(Libraries.Progress(phase: .done, library: library))
        try await stream.finish()
    }

    // MARK: - Looking into a library

    private func browse(_ input: Locations.Browse.Input, _ context: CallContext) async throws -> Locations.Browse.Output
    {
        guard input.limit > 0 else {
            throw KithError(.invalid, "`limit` must be 1 or more; at most 1,000 entries come.")
        }
        let path = input.path.bytes
        guard path.count <= 4_096, input.after?.bytes.count ?? 0 <= 4_096, path.first != UInt8(ascii: "/") else {
            throw KithError(.invalid, "`path` is that of a folder within the location, with at most 4,096 bytes.")
        }
        var end = path[...]
        while end.last == UInt8(ascii: "/") { end = end.dropLast() }
        let page = try await keeper(input.library, for: context).index().folder(
            Array(end), in: input.id, after: input.after?.bytes, limit: input.limit)
        var (entries, bytes) = ([Library.Entry](), 0)
        for found in page.entries {
            let entry = Self.entry(found, for: context)
            bytes += entry.path.bytes.count + entry.tags.reduce(0) { $0 + $1.utf8.count }
            if bytes > Self.answerLimit, !entries.isEmpty {
                return Locations.Browse.Output(entries: entries, hasMore: true)
            }
            entries.append(entry)
        }
        return Locations.Browse.Output(entries: entries, hasMore: page.hasMore)
    }

    private func read(
        _ input: Locations.Read.Input, _ context: CallContext, _ pending: PendingStream<Locations.Read>
    ) async throws {
        let index = try await keeper(input.library, for: context).index()
        let protection = context.protection
        let file = try await visitors.run(context.caller) { [disk] in
            try await disk.run {
                try await index.open(entry: input.entry) { descriptor in
                    // What cannot be told is kept.
                    unsafe protection?.with { unsafe kith_protection_covers($0, descriptor) != 0 } ?? false
                }
            }
        }
        let stream = try await pending.accept(Self.entry(file.entry, for: context)).bytes
        let queue = BoundedQueue<[UInt8]>(capacity: 4)
        try await withThrowingTaskGroup { group in
            group.addTask(executorPreference: disk) {
                var offset = input.offset
                var left = input.length ?? .max
                do {
                    while left > 0, let bytes = try file.bytes(at: offset, limit: Int(min(left, 512 << 10))) {
                        offset += UInt64(bytes.count)
                        left -= UInt64(bytes.count)
                        try await queue.send(bytes)
                    }
                    queue.finish()
                } catch {
                    queue.finish(throwing: error)
                }
            }
            while let bytes = try await queue.receive() { try await stream.write(bytes) }
            try await stream.finish()
            try await group.waitForAll()
        }
    }
}
