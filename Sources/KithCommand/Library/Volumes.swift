import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// `kith volumes`.
struct VolumesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "volumes",
        abstract: "List the disks and other file systems of this device; measure and eject them.",
        discussion: helpText(
            """
              kith volumes                       how full they are
              kith volumes list --all
              kith volumes test /media/disk      how fast it is
              kith volumes eject /media/disk
            """),
        subcommands: [VolumesListCommand.self, VolumesTestCommand.self, VolumesEjectCommand.self],
        defaultSubcommand: VolumesListCommand.self)
}

/// `kith volumes list`.
struct VolumesListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the file systems that are mounted.",
        discussion: helpText(
            """
              kith volumes list
              kith volumes list --all        with those of the system's own making
              kith volumes list --follow     and whenever one is mounted or goes
              kith volumes list --json
            """))

    @OptionGroup var globals: GlobalOptions
    @Flag(help: "List those of the system's own making, too.") var all = false
    @Flag(help: "List them again whenever one is mounted or goes.") var follow = false

    func run() async throws {
        try await withClient(globals, creating: true) { client in
            guard follow else {
                return try show(try await client.call(Volumes.List.self, .init(all: all)).volumes)
            }
            let stream = try await client.open(Volumes.Follow.self, .init(all: all)).stream
            for try await update in stream.messages { try show(update.volumes) }
        }
    }

    private func show(_ volumes: [Volumes.Volume]) throws {
        if globals.json { return printLine(try jsonText(volumes)) }
        printLine(
            table(
                ["PATH", "KIND", "TYPE", "SIZE", "FREE", "USED", "DEVICE", "LABEL"],
                volumes.map { volume in
                    [
                        printable(volume.path.description), volume.kind.rawValue, printable(volume.fileSystem),
                        volume.capacity.map { Wording.size($0) } ?? "?", volume.free.map { Wording.size($0) } ?? "?",
                        Self.used(volume), printable(volume.device),
                        (volume.label.map { printable($0) } ?? "") + (volume.isReadOnly ? " (read-only)" : ""),
                    ]
                }))
        for volume in volumes {
            if let problem = volume.problem { note("\(printable(volume.path.description)): \(printable(problem))") }
        }
    }

    private static func used(_ volume: Volumes.Volume) -> String {
        guard let capacity = volume.capacity, let free = volume.free, capacity > 0 else { return "" }
        let percent = Int((1 - Double(min(free, capacity)) / Double(capacity)) * 100)
        return percent >= 90 ? styled("\(percent) %", .yellow) : "\(percent) %"
    }
}

/// `kith volumes test`.
struct VolumesTestCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "test", abstract: "Measure how fast a volume is written and read.",
        discussion: helpText(
            """
              kith volumes test /media/disk
              kith volumes test . --size 1024

            A file is written, the disk is waited for, and it is read again. It has no name, so that nothing is left
            of it, whatever happens. The system's cache is bypassed where the file system lets it be.
            """))

    @OptionGroup var globals: GlobalOptions
    @Option(help: "The size of the file, in MiB.") var size: UInt64 = 256
    @Argument(help: "A folder on it.", completion: .directory) var path: String

    func validate() throws {
        guard (1...16_384).contains(size) else { throw ValidationError("--size takes 1 to 16384, in MiB.") }
    }

    func run() async throws {
        let path = try localPath(path)
        try await withClient(globals, creating: true) { client in
            var line = StatusLine(isShown: !globals.json, isPlain: isPlainTerminal)
            defer { line.clear() }
            let job = try await client.call(Volumes.Test.self, .init(path: path, size: size << 20)).job
            line.show("Measuring \(printable(path.description))")
            // One that is paused or fails says so.
            for try await change in try await client.open(Jobs.Follow.self, .init(id: job, runs: true)).stream.messages
            {
                if let now = change.job, try isDone(now) { break }
            }
            guard let speed = try await client.call(Volumes.TestResult.self, .init(job: job)).speed else {
                throw KithError(.closed, "This device stops before the volume was measured.")
            }
            line.clear()
            if globals.json { return printLine(try jsonText(speed)) }
            printLine("write  \(Wording.size(speed.write))/s")
            printLine("read   \(Wording.size(speed.read))/s")
            note(
                speed.bypassesCache
                    ? "The cache was bypassed."
                    : "This file system cannot bypass the cache: what is read may come from it, and be too fast.")
        }
    }
}

/// `kith volumes eject`.
struct VolumesEjectCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "eject", abstract: "Unmount a volume, so that it can be taken out.",
        discussion: helpText(
            """
              kith volumes eject /media/disk
            """))

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "Where it is mounted.", completion: .directory) var path: String

    func run() async throws {
        let path = try localPath(path)
        try await withClient(globals, creating: true) { client in
            _ = try await client.call(Volumes.Eject.self, .init(path: path))
            if !globals.json { note("\(printable(path.description)) can be taken out.") }
        }
    }
}
