import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// Asks whether to go on with what cannot be taken back.
///
/// - Throws: `.invalid`, saying what to pass, when there is no terminal to ask on.
private func confirm(_ question: String, orPass flag: String) throws -> Bool {
    guard isatty(STDIN_FILENO) == 1 else {
        throw KithError(.invalid, "\(question) There is no terminal to ask on: pass \(flag) to mean it.")
    }
    return try ask(question)
}

/// `kith mkdir`.
struct MakeFolder: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mkdir",
        abstract: "Make folders on a device.",
        discussion: helpText(
            """
              kith mkdir laptop:/srv/photos
              kith mkdir -p -m 700 laptop:a/b/c
              kith mkdir -pv laptop:a/b     -v names what is made
            """))

    @OptionGroup var globals: GlobalOptions
    @Flag(name: .shortAndLong, help: "Make missing parent folders too; no error if it exists.")
    var parents = false
    @Option(name: .shortAndLong, help: "The permission bits, in octal; default: 777 less the umask there.")
    var mode: String?
    @Argument(help: "The folders: DEVICE:PATH.") var paths: [RemotePath]

    func validate() throws {
        guard mode.map({ UInt32($0, radix: 8).map { $0 <= 0o777 } ?? false }) ?? true else {
            throw ValidationError("--mode takes three octal digits, as 755.")
        }
    }

    func run() async throws {
        let bits = mode.flatMap { UInt32($0, radix: 8) } ?? 0o777
        try await withClient(globals) { client in
            try await forEach(paths, globals) { path in
                let (device, folder) = try path.remote()
                let was =
                    globals.verbose && parents
                    ? try await client.call(
                        Files.Exists.self, Files.Exists.Input(path: folder), on: device
                    ).kind : nil
                do {
                    _ = try await client.call(
                        Files.MakeFolder.self, Files.MakeFolder.Input(path: folder, parents: parents, mode: bits),
                        on: device)
                } catch let error as KithError
                    where error.code == .notFound && !parents && error.message.contains(folder.description)
                {
                    throw KithError(error.code, "\(error.message) Pass -p to make what is missing.", cause: error)
                }
                if globals.verbose, was == nil { say("made \(printable("\(device):\(folder)"))") }
            }
        }
    }
}

/// `kith mv`.
struct MoveFile: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mv",
        abstract: "Rename or move files and folders on a device.",
        discussion: helpText(
            """
              kith mv laptop:/srv/a.txt laptop:/srv/b.txt
              kith mv laptop:/srv/a.txt laptop:/srv/b.txt laptop:/srv/old/     into a folder

            Something that is there already is replaced only after asking, or with -f. From one device to another, and
            from one disk to another, files are copied: `kith cp`, then `kith rm`.
            """))

    @OptionGroup var globals: GlobalOptions
    @Flag(name: .shortAndLong, help: "Replace a file of that name without asking.") var force = false
    @Flag(name: [.customShort("n"), .long], help: "Leave a file of that name alone, and what was to replace it.")
    var noClobber = false
    @Argument(help: "What to move, then where to: DEVICE:PATH, all on one device.") var paths: [RemotePath]

    func validate() throws {
        guard paths.count >= 2 else { throw ValidationError("mv takes what to move, and where to.") }
        guard !force || !noClobber else { throw ValidationError("-f and -n exclude each other.") }
    }

    func run() async throws {
        let targets = try paths.map { try $0.remote() }
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

    /// What is at the destination, as far as this device may know.
    ///
    /// Whoever may not look may not write either: the device says which grant moving takes, rather than looking.
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
                    say("moved \(printable("\(device):\(source)")) to \(printable("\(device):\(target)"))")
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

/// `kith rm`.
struct RemoveFile: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rm",
        abstract: "Delete files and folders on a device. Nothing is kept.",
        discussion: helpText(
            """
              kith rm laptop:/srv/a.txt laptop:/srv/b.txt
              kith rm -r laptop:/srv/photos          asks first; -f or -y does not
              kith rm 'laptop:/srv/*.tmp'            what matches there
              kith rm -rfv laptop:/srv/old           -v names what is deleted

            Links are deleted themselves, never what they lead to. The top of the file system, the home folder and the
            folder a grant is for are not deleted.
            """))

    @OptionGroup var globals: GlobalOptions
    @Flag(name: [.short, .customShort("R"), .long], help: "Delete folders with what is in them.") var recursive = false
    @Flag(name: .shortAndLong, help: "Do not ask, and leave out what is not there.") var force = false
    @Flag(name: .shortAndLong, help: "Do not ask.") var yes = false
    @Flag(name: [.customShort("d"), .customLong("dir")], help: "Delete empty folders (without -d, too).")
    var emptyFolders = false
    @Argument(help: "What to delete: DEVICE:PATH.") var paths: [RemotePath]

    func run() async throws {
        for path in paths {
            let (_, target) = try path.remote()
            let names = target.bytes.split(separator: UInt8(ascii: "/")).filter { $0 != [UInt8(ascii: ".")] }
            let isTop = names.isEmpty || names == [[UInt8(ascii: "~")]]
            if isTop { throw KithError(.invalid, "\(path) is not deleted: name something in it.") }
        }
        try await withClient(globals) { client in
            var list = try await PathList(paths, globals, client)
            try await list.forEach { path in
                let (device, target) = try path.remote()
                do {
                    if recursive, !force, !yes {
                        let there = try await client.describe(target, on: device)
                        if there.kind == .folder {
                            let question = "Delete \(printable(path.description)) with everything in it?"
                            guard try confirm(question, orPass: "-f or -y") else { return }
                        }
                    }
                    let gone = try await client.call(
                        Files.Delete.self, Files.Delete.Input(path: target, recursive: recursive), on: device)
                    guard globals.verbose else { return }
                    let others = gone.count > 1 ? ", and \(Wording.grouped(Int(clamping: gone.count - 1))) in it" : ""
                    say("deleted \(printable("\(device):\(target)"))\(others)")
                } catch let error as KithError where error.code == .notFound && force && names(error, target) {
                    // Not being there is what was wanted.
                }
            }
        }
    }

    /// Whether an error is about the file, and not about the device.
    private func names(_ error: KithError, _ path: Files.Path) -> Bool {
        error.message.contains(path.description)
    }
}
