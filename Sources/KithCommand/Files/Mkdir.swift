import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// `kith mkdir`.
struct MkdirCommand: AsyncParsableCommand {
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
                if globals.verbose, was == nil { printLine("made \(printable("\(device):\(folder)"))") }
            }
        }
    }
}
