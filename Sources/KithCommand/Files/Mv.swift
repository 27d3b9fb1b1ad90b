import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// `kith mv`.
struct MvCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mv",
        abstract: "Rename or move files and folders on a device.",
        discussion: helpText(
            """
              kith mv laptop:/srv/a.txt laptop:/srv/b.txt
              kith mv laptop:/srv/a.txt laptop:/srv/b.txt laptop:/srv/old/     into a folder
              kith mv a.txt old/ --plan          here: shows what would be done
              kith mv --confirm PLAN-ID          does that

            Something that is there already is replaced only after asking, or with -f. Between two devices or disks
            nothing is moved: `kith cp`, then `kith rm`.
            """))

    @OptionGroup var globals: GlobalOptions
    @Flag(name: .shortAndLong, help: "Replace a file of that name without asking.") var force = false
    @Flag(name: [.customShort("n"), .long], help: "Replace nothing: leave out what has a name that is taken.")
    var noClobber = false
    @OptionGroup(title: "In two steps") var planning: PlanOptions
    @Argument(help: "What to move, then where to: DEVICE:PATH, all on one device.") var paths: [RemotePath] = []

    func validate() throws {
        if planning.confirm != nil {
            guard paths.isEmpty else { throw ValidationError("--confirm goes without paths: the plan has them.") }
            return
        }
        guard paths.count >= 2 else { throw ValidationError("Name what to move, then where to.") }
        guard !force || !noClobber else { throw ValidationError("-f and -n exclude each other.") }
    }

    func run() async throws {
        if planning.isUsed {
            return try await planning.run(
                .move, paths, of: "mv", conflicts: force ? .overwrite : noClobber ? .skip : .ask, globals)
        }
        let targets = try paths.map { try $0.remote(here: "`kith organize move`") }
        guard let (device, destination) = targets.last else { return }
        guard targets.allSatisfy({ $0.device == device }) else {
            throw KithError(
                .unsupported,
                "mv works on one device. From one to another, copy: kith cp -r \(paths.map(\.description).joined(separator: " ")), then kith rm what was there."
            )
        }
        try await withClient(globals) { client in
            let there = try await kind(of: destination, on: device, client)
            var isFolder = there == .folder
            if there == .link {
                // A link to a folder is a folder to put things in; one that leads nowhere is a name.
                let target = try? await client.call(
                    Files.Stat.self, Files.Stat.Input(path: destination, followsLinks: true), on: device)
                isFolder = target?.kind == .folder
            }
            guard isFolder || paths.count == 2 else {
                throw KithError(.conflict, "\(destination) is not a folder, so several things cannot be put in it.")
            }
            try await forEach(paths.dropLast(), globals) { path in
                let (_, source) = try path.remote()
                var target = destination
                if isFolder {
                    let name = source.bytes.split(separator: UInt8(ascii: "/")).last.map { [UInt8]($0) } ?? []
                    target.bytes += (target.bytes.last == UInt8(ascii: "/") ? [] : [UInt8(ascii: "/")]) + name
                }
                try await move(source, to: target, on: device, client)
            }
        }
    }

    /// The kind of file at the destination, as far as this device may know.
    ///
    /// A caller that may not look may not write either: then the error names the grant that moving needs.
    private func kind(of destination: Files.Path, on device: String, _ client: Client) async throws -> Files.Kind? {
        do {
            return try await client.call(
                Files.Exists.self, Files.Exists.Input(path: destination), on: device
            ).kind
        } catch let error as KithError where error.code == .denied && paths.count == 2 {
            return nil
        }
    }

    private func move(
        _ source: Files.Path, to target: Files.Path, on device: String, _ client: Client
    ) async throws {
        func rename(overwrite: Bool) async throws {
            do {
                _ = try await client.call(
                    Files.Rename.self, Files.Rename.Input(from: source, to: target, overwrite: overwrite), on: device)
                if globals.verbose {
                    printLine("moved \(printable("\(device):\(source)")) to \(printable("\(device):\(target)"))")
                }
            } catch let error as KithError where error.code == .unsupported && error.message.contains("another disk") {
                throw KithError(
                    .unsupported,
                    "\(error.message) Copy it there, then remove it: kith cp -r \(device):\(source) \(device):\(target)",
                    cause: error)
            }
        }
        do {
            try await rename(overwrite: force)
        } catch let error as KithError where error.code == .conflict && !force {
            let taken = try await client.call(Files.Exists.self, Files.Exists.Input(path: target), on: device)
            guard taken.kind != nil else { throw error }
            if noClobber { return }
            guard taken.kind != .folder, isatty(STDIN_FILENO) == 1 else {
                throw KithError(.conflict, error.message + (taken.kind == .folder ? "" : " Pass -f to replace it."))
            }
            if try ask("Replace \(printable(device)):\(printable(target.description))?") {
                try await rename(overwrite: true)
            }
        }
    }
}
