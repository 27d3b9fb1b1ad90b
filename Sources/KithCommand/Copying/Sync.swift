import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine

/// `kith sync`.
struct SyncCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sync",
        abstract: "Make a folder or file at the destination like the source, one way.",
        discussion: helpText(
            """
              kith sync photos laptop:/backup/photos
              kith sync --delete --exclude '*.tmp' --exclude /cache/ laptop:/srv/site site
              kith sync -n --delete photos laptop:/backup/photos     say what would change

            What is in the source goes into the destination folder itself, not into a folder in it. Where the destination
            is a link to a folder, name it with a slash behind (link/) to have that folder changed. Files that are there
            already, by size and time of change, are not sent; of changed ones only the changes are. An interrupted sync
            goes on where it was when it is run again. Without --delete nothing is deleted; with it, what the source does
            not have goes once all the rest has arrived, unless a part of the source could not be read. What --exclude
            matches is neither sent nor deleted.

            \(TransferEvents.help)
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup(title: "Transfer options") var transfer: TransferOptions
    @Flag(name: [.customShort("n"), .long], help: "Change nothing; print what would be done.") var dryRun = false
    @Flag(name: .long, help: "Delete what the source does not have.") var delete = false
    @Argument(help: "What it is to be like.") var source: RemotePath
    @Argument(help: "What is changed.") var destination: RemotePath

    func run() async throws {
        try await transfer.run(
            Files.Copy.Input(
                sources: [try source.location()], destination: try destination.location(), recursive: true,
                selection: try transfer.selection(),
                receiving: Files.ReceiveOptions(
                    sync: transfer.sync, exact: true, checksum: transfer.checksum, update: transfer.update,
                    wholeFile: transfer.wholeFile, delete: delete, dryRun: dryRun, report: dryRun || transfer.itemizes),
                limit: transfer.limit?.bytes, retrySeconds: transfer.retryFor, compress: transfer.compression,
                parallel: transfer.parallel), globals,
            localNames: [source, destination].filter { $0.device == nil }.map(\.path))
    }
}
