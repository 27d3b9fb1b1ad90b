import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine

/// `kith cp`.
struct CpCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cp",
        abstract: "Copy files and folders between devices.",
        discussion: helpText(
            """
              kith cp big.iso laptop:/srv/
              kith cp -r laptop:/srv/photos .
              kith cp 'laptop:/srv/d/*.txt' .          what matches there
              kith cp -r laptop:/srv/photos desktop:/backup/
              kith cp -r laptop:/srv/photos laptop:/srv/old      the laptop copies by itself
              kith cp -r --exclude '*.o' --limit 2M src laptop:
              kith cp -r photos /media/disk --plan     shows what would be done here

            DEVICE:PATH is a path there: absolute, from the home folder with ~/, or from the only folder granted.
            A file whose name has a colon is ./a:b. When the destination is a folder, things are put in it; otherwise
            it is the new name of the one thing copied. Put in a folder, `laptop:` alone is called laptop there.
            Where the destination is a link to a folder, name it with a slash behind to copy into that folder: link/.

            Modes, times, links, sparse files and empty folders are kept. Every file is checked by SHA-256 and appears under
            its name only when it is whole; a new folder likewise. Pipes, sockets and devices are left out.

            Files that are there already, by size and time of change, are not sent again; of changed ones only the
            changes are. A lost connection is tried again by itself, and a copy that was interrupted goes on where it
            was when it is run again: until then, what has arrived lies beside as .kith-resume-…, for a week. When the
            disk is full, some of that is given up, so that the disk is not left full.

            Options of cp, scp and rsync that ask for what is done anyway are taken: -p, --progress; -a is -r, and in
            letters written together, as in -avz, v is -i.

            \(TransferEvents.help)
            """))

    @OptionGroup var globals: GlobalOptions
    @Flag(name: [.customShort("r"), .customShort("R"), .long], help: "Copy folders with what is in them.")
    var recursive = false
    @Flag(name: [.customShort("p"), .customLong("preserve")], help: "Keep modes and times; done anyway.")
    var preserves = false
    @Flag(name: [.customShort("n"), .long], help: "Leave files alone that are there already.") var noClobber = false
    @Flag(name: .long, help: "Give new files the current time and the default mode.") var noPreserve = false
    @Flag(name: .long, help: "Change nothing; print what would be done. (-n is --no-clobber here, as with cp.)")
    var dryRun = false
    @OptionGroup(title: "Transfer options") var transfer: TransferOptions
    @OptionGroup(title: "In two steps") var planning: PlanOptions
    @Option(
        name: .customLong("on-conflict"),
        help: "With --plan and --confirm, where a name is taken: ask, skip, overwrite, keep-both.")
    var conflicts = OperationOptions.Conflicts.ask
    @Argument(help: "What to copy, then where to.") var paths: [RemotePath] = []

    func validate() throws {
        guard planning.isUsed || conflicts == .ask else {
            throw ValidationError("--on-conflict goes with --plan or --confirm; -n leaves what is there.")
        }
        if planning.isUsed, let option = ignoredByPlans {
            throw ValidationError("\(option) does not go with --plan and --confirm.")
        }
        if planning.confirm != nil {
            guard paths.isEmpty else { throw ValidationError("--confirm goes without paths: the plan has them.") }
            return
        }
        guard paths.count >= 2 else { throw ValidationError("Name what to copy, then where to.") }
    }

    /// An option that a plan knows nothing of, and that was typed: settings hold for every form.
    private var ignoredByPlans: String? {
        [
            "--exclude", "--exclude-from", "-c", "--checksum", "-u", "--update", "-H", "--hard-links", "--limit",
            "--parallel", "--no-preserve", "--dry-run",
        ].first(where: isTyped)
    }

    func run() async throws {
        if planning.isUsed {
            return try await planning.run(
                .copy, paths, of: "cp", conflicts: noClobber ? .skip : conflicts.choice,
                takesFolders: recursive || transfer.archives, globals)
        }
        let locations = try paths.map { try $0.location() }
        guard let destination = locations.last else { return }
        let sources = try await transfer.expanded(locations.dropLast(), globals)
        try await transfer.run(
            Files.Copy.Input(
                sources: sources, destination: destination,
                recursive: recursive || transfer.archives,
                selection: try transfer.selection(),
                receiving: Files.ReceiveOptions(
                    overwrite: !noClobber, preserve: !noPreserve, sync: transfer.sync, checksum: transfer.checksum,
                    update: transfer.update, wholeFile: transfer.wholeFile, dryRun: dryRun,
                    report: dryRun || transfer.itemizes),
                limit: transfer.limit?.bytes, retrySeconds: transfer.retryFor, compress: transfer.compression,
                parallel: transfer.parallel), globals, localNames: paths.filter { $0.device == nil }.map(\.path))
    }
}
