import Foundation
import KithAPI
import KithExtractor
import KithIO
import KithIndex
package import KithJobs
public import KithNode
import KithWire
public import Logging

/// The libraries of files of this device: its own person's to fill, and to be searched by devices with the grant
/// `library`.
///
/// The index of one is opened with the first call that needs it. While the service runs it brings each location to what
/// the disk holds, and then watches it.
public final class LibraryService: Service {
    let collection: LibraryCollection
    let disk = DiskExecutor()
    /// The jobs of the device, to be shared with other services.
    package let jobs: JobBoard
    /// Tells what becomes of the jobs, and of volumes.
    let deviceEvents: DeviceEvents
    let keepsUp: Bool
    let logger: Logger
    /// This service, for its jobs.
    let reference: LibraryReference
    /// Reads what is in files; `nil` when the program for it is not there.
    let extractor: ContentExtractor?
    let thumbnails: ThumbnailCache
    /// The calls of other devices that read an index, and those that read files.
    let (visitors, contentVisitors) = (LibraryService.indexVisitors(), LibraryService.contentVisitors())
    let name: @Sendable () -> String
    /// The files of kith itself, which are read for nobody; known once the service has started.
    let protection = Locked<ProtectedFiles?>(nil)

    /// Makes the service.
    ///
    /// - Parameters:
    ///   - directory: The device's data directory; the libraries are in its folder `libraries`, made when it is needed.
    ///   - name: The name of this device, for `device:`.
    ///   - keepsUp: Whether locations are scanned when it starts, and watched; else only on request.
    ///   - extractor: The program that reads what is in files; `nil`: `kith-extract` beside the program that runs.
    ///   - logger: Told what a person is not.
    public init(
        directory: String, name: @escaping @Sendable () -> String, keepsUp: Bool, extractor: String? = nil,
        logger: Logger
    ) {
        self.extractor = (extractor ?? ExtractorProgram.path).map { ContentExtractor(path: $0) }
        thumbnails = ThumbnailCache(directory: directory + "/thumbnails")
        let owner = LibraryReference()
        collection = LibraryCollection(data: directory, keepsUp: keepsUp, logger: logger) { library in
            await owner.service?.identifyChanges(in: library)
            await owner.service?.extractChanges(in: library)
        }
        jobs = JobBoard(path: directory + "/jobs.sqlite", logger: logger)
        deviceEvents = DeviceEvents(jobs, logger: logger)
        self.keepsUp = keepsUp
        self.logger = logger
        self.name = name
        reference = owner
        owner.set(self)
        jobs.register([IdentifyJob(owner), VerifyJob(owner), CandidatesJob(owner), ExtractJob(owner)])
    }

    /// The methods it serves.
    public var handlers: [Handler] {
        [
            .call(Locations.Add.self) { input, context in try await self.add(input, context) },
            .query(Locations.List.self, among: visitors) { input, context in try await self.list(input, context) },
            .call(Locations.Remove.self) { input, context in
                try await self.keeper(input.library, for: context).remove(input.id)
                return Nothing()
            },
            .stream(Locations.Scan.self) { try await self.scan($0, $1, $2) }.endingAtShutdown(),
            .query(Tags.List.self, among: visitors) { input, context in try await self.tags(input, context) },
            .call(Tags.Change.self) { input, context in try await self.change(input, context) },
            .call(Tags.Delete.self) { input, context in
                try await self.keeper(input.library, for: context).index().deleteTag(Self.tag(input.name))
                return Nothing()
            },
            .call(Tags.Rename.self) { input, context in
                let renamed = try await self.keeper(input.library, for: context).index().renameTag(
                    Self.tag(input.name), to: Self.tag(input.newName))
                return Tags.Rename.Output(tags: renamed.tags, files: renamed.entries, isMerged: renamed.isMerged)
            },
        ]
            + searchHandlers + librariesHandlers + jobsHandlers + contentHandlers + eventHandlers + volumesHandlers
            + mediaHandlers + changeHandlers
    }

    /// Opens the libraries that are not closed, begins to keep their locations up, and goes on with what was to be done.
    public func start(_ context: StartContext) async throws {
        await jobs.reopen()
        if let events = context.events {
            await collection.publish(in: events)
            await deviceEvents.start(in: events)
        }
        protection.set(context.protection)
        extractor?.open()
        await collection.start()
        await startJobs()
    }

    /// Ends jobs, scans and watching, and closes the indexes.
    public func stop() async {
        await jobs.stop()
        await deviceEvents.stop()
        extractor?.close()
        await collection.stop()
    }

    /// The library that a call is about; without a name, the default one.
    ///
    /// - Parameters:
    ///   - library: Its name or its id.
    ///   - context: The call; without it, as of another device, which sees no library that is unconfirmed.
    /// - Returns: its keeper.
    /// - Throws: `.notFound` when there is no such library, `.closed`, `.unreachable` when its disk is away, what is wrong
    ///   with it.
    func keeper(_ library: String?, for context: CallContext? = nil) async throws(KithError) -> LibraryKeeper {
        try await collection.keeper(library, isOwner: context?.caller == .owner)
    }

    /// The library that a call of this device's own person is about, or a job of theirs.
    ///
    /// - Throws: as ``keeper(_:for:)``.
    func ownKeeper(_ library: String?) async throws(KithError) -> LibraryKeeper {
        try await collection.keeper(library, isOwner: true)
    }

    // MARK: - Locations

    private func add(_ input: Locations.Add.Input, _ context: CallContext) async throws -> Library.Location {
        guard input.path.bytes.first == UInt8(ascii: "/") else {
            throw KithError(.invalid, "\(input.path) is no whole path: it does not begin with a slash.")
        }
        let name = try Self.locationName(input.name)
        let keeper = try await keeper(input.library, for: context)
        let usual = try await keeper.index().usual()
        let location = try await keeper.add(
            Self.plain(input.path.bytes), name: name,
            rules: Self.rules(input.rules) ?? usual.rules ?? LocationRules(),
            mode: input.mode.flatMap { LocationMode(rawValue: $0.rawValue) } ?? usual.mode ?? .recursive)
        return await described(location, keeper)
    }

    /// The path without slashes at its end, doubled ones and `.`; one with `..` is refused by what opens it, by name.
    static func plain(_ path: [UInt8]) throws -> [UInt8] {
        let names = path.split(separator: UInt8(ascii: "/")).filter { $0 != [UInt8(ascii: ".")] }
        guard !names.contains([UInt8(ascii: "."), UInt8(ascii: ".")]) else {
            throw KithError(.invalid, "A path of the library has no `..` in it.")
        }
        guard !path.contains(0), path.count <= 4_096 else {
            throw KithError(.invalid, "A path has at most 4,096 bytes, and no NUL.")
        }
        return [UInt8(ascii: "/")] + Array(names.joined(separator: [UInt8(ascii: "/")]))
    }

    private func list(_ input: Locations.List.Input, _ context: CallContext) async throws -> Locations.List.Output {
        let keeper = try await keeper(input.library, for: context)
        var locations: [Library.Location] = []
        for location in try await keeper.index().locations(counted: true) {
            locations.append(await described(location, keeper))
        }
        return Locations.List.Output(locations: locations)
    }

    func described(_ location: IndexLocation, _ keeper: LibraryKeeper) async -> Library.Location {
        let state = await keeper.state(of: location.id)
        return Library.Location(
            id: location.id, name: location.name, path: Files.Path(bytes: location.path),
            rules: Library.Rules(
                patterns: location.rules.patterns, followsIgnoreFiles: location.rules.followsIgnoreFiles),
            added: location.added, scanned: location.scanned, isScanning: state.isScanning,
            isWatched: state.isWatched, problem: location.problem, entries: location.entries ?? 0,
            mode: Library.Mode(rawValue: location.mode.rawValue), folders: location.folders)
    }

    private func scan(
        _ input: Locations.Scan.Input, _ context: CallContext, _ pending: PendingStream<Locations.Scan>
    ) async throws {
        let keeper = try await keeper(input.library, for: context)
        let progress = try await keeper.scan(input.id)
        // Only its own person scans: a location that came from elsewhere is meant to be here.
        try await collection.confirm(keeper, scanning: input.id)
        let stream = try await pending.accept()
        for try await counts in progress { try await stream.send(Self.progress(counts)) }
        try await stream.finish()
    }

    static func progress(_ step: ScanProgress) -> Library.Progress {
        let counts = step.counts
        return Library.Progress(
            folders: UInt64(counts.folders), entries: UInt64(counts.entries), added: UInt64(counts.added),
            changed: UInt64(counts.changed), moved: UInt64(counts.moved), removed: UInt64(counts.removed),
            problems: UInt64(counts.problems), isLast: step.isLast)
    }

    // MARK: - Tags

    private static func tag(_ name: String) -> [String] {
        name.split(separator: "/", omittingEmptySubsequences: false).map {
            $0.trimmingCharacters(in: .whitespaces)
        }
    }

    private func tags(_ input: Tags.List.Input, _ context: CallContext) async throws -> Tags.List.Output {
        Tags.List.Output(
            tags: try await keeper(input.library, for: context).index().tags().map {
                Tags.Tag(name: $0.path.joined(separator: "/"), uses: $0.uses)
            })
    }

    private func change(_ input: Tags.Change.Input, _ context: CallContext) async throws -> Tags.Change.Output {
        guard input.paths.count <= 10_000, input.add.count <= 100, input.remove.count <= 100 else {
            throw KithError(.invalid, "At most 10,000 files and 100 tags at a time.")
        }
        return Tags.Change.Output(
            changed: try await keeper(input.library, for: context).index().changeTags(
                of: input.paths.map { try Self.plain($0.bytes) }, add: input.add.map(Self.tag),
                remove: input.remove.map(Self.tag)))
    }
}
