import ArgumentParser
import Foundation
import KithAPI
import KithWire

/// `kith cp`.
struct CopyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cp",
        abstract: "Copy files and folders between devices.",
        discussion: """
              kith cp big.iso laptop:/srv/
              kith cp -r laptop:/srv/photos .
              kith cp -r laptop:/srv/photos desktop:/backup/

            DEVICE:PATH is a path there: absolute, from the home folder with ~/, or from the only folder granted.
            A file whose name has a colon is ./a:b. When the destination is a folder, things are put in it; otherwise
            it is the new name of the one thing copied.

            Modes, times, links and empty folders are kept. Every file is checked by SHA-256 and appears under its
            name only when it is whole; a new folder likewise. Pipes, sockets and devices are left out.
            """)

    @OptionGroup var globals: GlobalOptions
    @Flag(name: [.customShort("r"), .customShort("R"), .long], help: "Copy folders with what is in them.")
    var recursive = false
    @Flag(name: [.customShort("n"), .long], help: "Leave files alone that are there already.") var noClobber = false
    @Flag(name: .long, help: "Give new files the current time and the default mode.") var noPreserve = false
    @Flag(name: .long, help: "Have each file on the disk before it gets its name: safe from a power cut.")
    var sync = false
    @Flag(name: [.customShort("q"), .long], help: "Show no progress.") var quiet = false
    @Argument(help: "What to copy, then where to.") var paths: [RemotePath]

    func validate() throws {
        guard paths.count >= 2 else { throw ValidationError("cp takes what to copy, and where to.") }
    }

    func run() async throws {
        let locations = try paths.map { try $0.location() }
        guard let destination = locations.last else { return }
        let input = Files.Copy.Input(
            sources: Array(locations.dropLast()), destination: destination, recursive: recursive,
            landing: Files.Landing(overwrite: !noClobber, preserve: !noPreserve, sync: sync))
        var line = ProgressLine(isShown: !quiet && !globals.json && isatty(STDERR_FILENO) == 1)
        let start = ContinuousClock.now
        let last = try await withClient(globals) { client in
            let stream = try await client.open(Files.Copy.self, input).stream
            let messages = MessageStream(stream)
            var last: Files.Progress?
            while let progress = try await messages.receive(Files.Progress.self) {
                for skipped in progress.skipped where !quiet {
                    line.clear()
                    note("kith: left out \(printable(skipped.path.description)): \(printable(skipped.failure.message))")
                }
                line.show(progress, at: ContinuousClock.now)
                last = progress
                if progress.summary != nil || progress.failure != nil { break }
            }
            return last
        }
        line.clear()
        guard let last else { throw KithError(.closed, "The copy ended without a word. Try it again.") }
        if let failure = last.failure { throw failure.error }
        guard let summary = last.summary else { throw KithError(.closed, "The copy was cut off. Try it again.") }
        if globals.json {
            say(try jsonText(summary))
        } else if line.isShown {
            note(ProgressLine.summary(summary, took: ContinuousClock.now - start))
        }
    }
}
