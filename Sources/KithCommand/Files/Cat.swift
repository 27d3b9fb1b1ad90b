import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine

/// `kith cat`.
struct CatCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cat",
        abstract: "Print files, or parts of them, from a device.",
        discussion: helpText(
            """
              kith cat laptop:/etc/hosts
              kith cat laptop:a.log laptop:b.log > both.log
              kith cat --offset 1M --length 64k laptop:disk.img | xxd

            On a terminal, characters that a terminal obeys are shown as ^[ and the like; --raw passes them on.
            """))

    @OptionGroup var globals: GlobalOptions
    @Option(help: "The first byte of each file, from 0; with k, M, G behind.") var offset = CountArgument(0)
    @Option(help: "How many bytes of each file; default: to the end.") var length: CountArgument?
    @Flag(help: "Pass control characters on to the terminal.") var raw = false
    @Argument(help: "The files: DEVICE:PATH.") var paths: [RemotePath]

    func validate() throws {
        guard offset.sign == nil, length?.sign == nil else {
            throw ValidationError("--offset and --length take a number without a sign. From the end: kith tail -c")
        }
    }

    func run() async throws {
        var output = TerminalText(raw: raw)
        try await withClient(globals) { client in
            var list = try await PathList(paths, globals, client)
            try await list.forEach { path in
                let (device, file) = try path.remote()
                var reading = try await RemoteReading(
                    Files.Read.Input(path: file, offset: offset.number, length: length?.number), on: device, client)
                while let bytes = try await reading.next() { try output.write(bytes) }
                try output.finish()
                await reading.finish()
            }
        }
    }
}
