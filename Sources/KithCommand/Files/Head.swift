import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine

/// `kith head`.
struct HeadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "head",
        abstract: "Print the beginning of files on a device.",
        discussion: helpText(
            """
              kith head laptop:/var/log/syslog
              kith head -n 3 laptop:a.csv laptop:b.csv      or head -3
              kith head -n -5 laptop:notes           all but the last five lines
              kith head -c 1k laptop:image
            """))

    @OptionGroup var globals: GlobalOptions
    @Option(
        name: [.customShort("n"), .long], parsing: .unconditional,
        help: "So many lines; with a minus, all but the last so many.")
    var lines = CountArgument(10)
    @Option(
        name: [.customShort("c"), .long], parsing: .unconditional,
        help: "So many bytes, with k, M, G behind; with a minus, all but the last so many.")
    var bytes: CountArgument?
    @Flag(name: [.customShort("q"), .long], help: "Never print the names of the files.") var quiet = false
    @Flag(help: "Pass control characters on to the terminal.") var raw = false
    @Argument(help: "The files: DEVICE:PATH.") var paths: [RemotePath]

    func run() async throws {
        var output = TerminalText(raw: raw)
        try await withClient(globals) { client in
            var list = try await PathList(paths, globals, client)
            var headings = FileHeadings(isShown: list.hasSeveral && !quiet)
            try await list.forEach { path in
                let (device, file) = try path.remote()
                let limit = bytes?.sign == nil || bytes?.sign == "+" ? bytes?.number : nil
                var reading = try await RemoteReading(
                    Files.Read.Input(path: file, length: limit), on: device, client)
                try output.write(headings.heading(for: path).utf8)
                var part = HeadPart(lines: lines, bytes: bytes)
                while !part.isDone, let chunk = try await reading.next() {
                    try output.write(part.take(chunk))
                }
                try output.write(part.finish())
                try output.finish()
                reading.stop()
            }
        }
    }
}
