import KithAPI
import KithCatalog
import KithIO
import KithIdentity
import KithNode
import KithWire

/// One `files.duplicate`: a transfer whose two ends are on this device.
///
/// It is the same as one over a link, through a pipe of this process: verified, put in place when it is whole, gone on with
/// when it was cut.
struct DuplicateJob: Sendable {
    private let clock: any Ticker
    private let sources: [TreeSource]
    private let destination: ConfinedPath
    private let receiving: Files.ReceiveOptions
    private let selection: Files.Selection

    /// Finds both ends; on a ``DiskExecutor``.
    init(_ input: Files.Duplicate.Input, for context: CallContext, clock: any Ticker) throws {
        self.clock = clock
        guard !input.sources.isEmpty else { throw KithError(.invalid, "Name at least one file or folder to copy.") }
        let caller = context.caller
        try context.narrow("copy \(input.sources[0])") { grants in
            input.sources.lazy.compactMap {
                $0.access(.read).refusal(of: caller, holding: grants)
            }.first
        }
        sources = try input.sources.map { path in
            try TreeSource(try ConfinedPath(path, .read, for: context), recursive: input.recursive)
        }
        destination = try ConfinedPath(input.destination, .write, for: context)
        var receiving = input.receiving
        receiving.exclude = input.selection.exclude
        if input.sources.count > 1 { receiving.intoFolder = true }
        self.receiving = receiving
        selection = input.selection
        // A pattern that cannot be read is refused before anything is begun.
        _ = try IgnoreRules(selection.exclude)
        for source in sources { try check(source) }
    }

    /// Copies, and reports ten times a second.
    func run(on disk: DiskExecutor, active: ActivePartials, reportingTo stream: ProgressBoard.Reports) async throws {
        let board = ProgressBoard(clock)
        let progress = board.begin(1, areOverLinks: false)[0]
        try await board.report(to: stream) {
            let pipe = Pipe()
            return try await withThrowingTaskGroup(of: Files.Summary?.self) { group in
                defer { group.cancelAll() }
                group.addTask {
                    // What this end has to say it tells the other, which says it in the end.
                    _ = try? await Transfer.receive(
                        into: destination, options: receiving, compress: .never, over: pipe.right, on: disk,
                        active: active,
                        progress: TransferProgress())
                    return nil
                }
                group.addTask {
                    try await Transfer.send(
                        sources, selection: selection, compress: .never, over: pipe.left, on: disk,
                        progress: progress)
                }
                while let part = try await group.next() {
                    guard var summary = part else { continue }
                    (summary.sent, summary.wire) = (0, 0)
                    return summary
                }
                throw KithError(.internal, "The copy ended unexpectedly. Run it again to go on.")
            }
        }
    }

    // MARK: - Copies into themselves

    /// Refuses a source that would be copied into or onto itself, or be deleted as what the source does not have.
    private func check(_ source: TreeSource) throws {
        // A link that is copied as one must not take the place of what it leads to; one to nowhere may.
        guard let opened = source.opened ?? (try? source.folder?.open(name: source.name, [.path])) else { return }
        let own = try attempt("access", source.shown) { () throws(Errno) in try opened.info() }
        // Where it is put: a folder that is there, or the one around its new name.
        var (around, name): (Descriptor, [UInt8]?) = (opened, nil)
        if let folder = try? destination.open([.path, .folder]) {
            // Only a folder becomes the folder that is there; anything else is put into it.
            let isItself = receiving.exact && source.opened != nil && own.kind == .folder
            (around, name) = (folder, isItself ? nil : source.name)
        } else if let (folder, last) = try attempt(
            "copy to", destination.shown, confined: destination.isBeneathGrant,
            { () throws(Errno) in try destination.around() })
        {
            (around, name) = (folder, last)
        }
        let above = try Self.ancestors(of: around, destination.shown)
        if source.opened != nil, own.kind == .folder, above.contains(own.identity) {
            throw KithError(.conflict, "Cannot copy \(source.shown) into itself.")
        }
        // Nothing is there yet: nothing can be the same.
        if let name, let there = try? around.info(name), there.identity == own.identity {
            throw KithError(.conflict, "Cannot copy \(source.shown) onto itself.")
        }
        guard receiving.delete, source.opened != nil, own.kind == .folder else { return }
        let target = try attempt("access", destination.shown) { () throws(Errno) in try around.info() }
        if try Self.ancestors(of: opened, source.shown).contains(target.identity) {
            throw KithError(
                .conflict,
                "Cannot mirror \(source.shown) to \(destination.shown), in which it lies: it would be deleted.")
        }
    }

    /// A folder and all around it, to the top of the file system.
    private static func ancestors(of folder: Descriptor, _ shown: Files.Path) throws -> Set<Descriptor.Info.Identity> {
        try attempt("access", shown) { () throws(Errno) in
            var found: Set<Descriptor.Info.Identity> = []
            var current = folder
            while found.insert(try current.info().identity).inserted {
                current = try current.open(name: Array("..".utf8), [.path, .folder])
            }
            return found
        }
    }
}
