import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// `kith rm`.
struct RmCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rm",
        abstract: "Delete files and folders on a device. Nothing is kept.",
        discussion: helpText(
            """
              kith rm laptop:/srv/a.txt laptop:/srv/b.txt
              kith rm -r laptop:/srv/photos          asks first; -f or -y does not
              kith rm 'laptop:/srv/*.tmp'            what matches there
              kith rm -rfv laptop:/srv/old           -v names what is deleted
              kith rm -r build --plan                here: shows what would be deleted
              kith rm --confirm PLAN-ID              does that

            Links are deleted themselves, never what they lead to. The top of the file system, the home folder and the
            folder a grant is for are not deleted.
            """))

    @OptionGroup var globals: GlobalOptions
    @Flag(name: [.short, .customShort("R"), .long], help: "Delete folders with what is in them.") var recursive = false
    @Flag(name: .shortAndLong, help: "Do not ask, and leave out what is not there.") var force = false
    @Flag(name: .shortAndLong, help: "Do not ask.") var yes = false
    @Flag(
        name: [.customShort("d"), .customLong("dir")],
        help: "Taken for the sake of habit: empty folders are deleted without it, too.")
    var emptyFolders = false
    @OptionGroup(title: "In two steps") var planning: PlanOptions
    @Argument(help: "What to delete: DEVICE:PATH.") var paths: [RemotePath] = []

    func validate() throws {
        if planning.confirm != nil {
            guard paths.isEmpty else { throw ValidationError("--confirm goes without paths: the plan has them.") }
            return
        }
        guard !paths.isEmpty else { throw ValidationError("Name what to delete: DEVICE:PATH.") }
    }

    func run() async throws {
        if planning.isUsed {
            return try await planning.run(
                .delete, paths, of: "rm", conflicts: .skip, takesFolders: recursive, globals)
        }
        for path in paths {
            let (_, target) = try path.remote(here: "`kith trash put`, or `kith organize delete`,")
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
                    printLine("deleted \(printable("\(device):\(target)"))\(others)")
                } catch let error as KithError where error.code == .notFound && force && names(error, target) {
                    // Not being there is what was wanted.
                }
            }
        }
    }

    /// Tells whether an error is about the file, and not about the device.
    private func names(_ error: KithError, _ path: Files.Path) -> Bool {
        error.message.contains(path.description)
    }
}
