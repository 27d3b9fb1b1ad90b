import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// `kith du`.
struct DuCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "du",
        abstract: "Add up what folders take on a device's disk; the counting is done there.",
        discussion: helpText(
            """
              kith du -sh laptop:/srv laptop:~
              kith du -h -d 1 laptop:~
              kith du -s --apparent-size laptop:disk.img

            In blocks of 1024 bytes, rounded up, unless told otherwise. A file with several names counts once, holes of
            files do not count, links are not followed.
            """), helpNames: .long)

    @OptionGroup var globals: GlobalOptions
    @Flag(name: [.short, .long], help: "Print one sum for each path.") var summarize = false
    @Flag(name: [.short, .long], help: "Print sizes as 1.5K, 20M, 3.0G.") var humanReadable = false
    @Flag(name: [.short, .long], help: "Print files, too.") var all = false
    @Option(name: [.customShort("d"), .long], help: "Print folders down to so many levels below, 0 or more.")
    var maxDepth: UInt32?
    @Flag(help: "Add up the sizes of the files, not what they take on the disk.") var apparentSize = false
    @Flag(name: [.short, .long], help: "Print bytes: the sizes of the files.") var bytes = false
    @Flag(name: [.customShort("c"), .long], help: "Print the sum of all paths, too.") var total = false
    @Flag(name: [.customShort("x"), .long], help: "Stay on one file system.") var oneFileSystem = false
    @Argument(help: "The folders or files: DEVICE:PATH.") var paths: [RemotePath]

    func validate() throws {
        guard !summarize || (!all && (maxDepth ?? 0) == 0) else {
            throw ValidationError("-s prints one sum: neither -a nor -d goes with it.")
        }
    }

    /// A line of `--json`.
    private struct Line: Encodable {
        var path: String
        var allocated: UInt64
        var apparent: UInt64
    }

    func run() async throws {
        var sum = Files.Used.Item(path: "", allocated: 0, apparent: 0)
        var isComplete = true
        try await withClient(globals) { client in
            var list = try await PathList(paths, globals, client)
            try await list.forEach { path in
                let (device, folder) = try path.remote()
                let input = Files.Usage.Input(
                    path: folder, maximumDepth: summarize ? 0 : maxDepth, files: all, oneFileSystem: oneFileSystem)
                let check = UsedCheck(input, from: device)
                let stream = try await client.open(Files.Usage.self, input, on: device).stream
                for try await used in stream.messages {
                    do {
                        try check.check(used)
                    } catch {
                        stream.abort(.cancelled)
                        throw error
                    }
                    var output = ""
                    for item in used.items {
                        if item.path.bytes.isEmpty {
                            sum.allocated.saturatingAdd(item.allocated)
                            sum.apparent.saturatingAdd(item.apparent)
                        }
                        output += try line(item, joined(path, item.path, withDevice: false).description) + "\n"
                    }
                    if !output.isEmpty { try writeOutput(Data(output.utf8)) }
                    showSkipped(used.skipped, in: path)
                    if used.skippedCount > 0 { isComplete = false }
                    if let failure = used.failure { throw failure.error }
                    if used.isLast { return }
                }
                throw KithError(.closed, "Counting \(path) was interrupted. Try again.")
            }
        }
        if total { printLine(try line(sum, "total")) }
        if !isComplete { throw ExitCode(KithError.Code.internal.exitStatus) }
    }

    private func line(_ item: Files.Used.Item, _ name: String) throws -> String {
        if globals.json {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            let line = Line(path: name, allocated: item.allocated, apparent: item.apparent)
            return String(decoding: try encoder.encode(line), as: UTF8.self)
        }
        let size = apparentSize || bytes ? item.apparent : item.allocated
        let text =
            humanReadable
            ? Self.humanSize(size) : bytes ? String(size) : String(size / 1_024 + (size % 1_024 > 0 ? 1 : 0))
        return "\(text)\t\(printable(name))"
    }

    /// `1.5K`, `20M`: in powers of 1024, rounded up, as du -h prints them.
    static func humanSize(_ bytes: UInt64) -> String {
        guard bytes >= 1_024 else { return String(bytes) }
        var unit: UInt64 = 1_024
        for letter in "KMGTPE" {
            let whole = bytes / unit
            if whole < 1_024 || letter == "E" {
                let rest = bytes % unit
                if whole < 10 {
                    // Rounded up to a tenth, which may make it ten.
                    let value = whole * 10 + (rest * 10 + unit - 1) / unit
                    if value < 100 { return "\(value / 10).\(value % 10)\(letter)" }
                    return "10\(letter)"
                }
                let rounded = whole + (rest > 0 ? 1 : 0)
                if rounded < 1_024 || letter == "E" { return "\(rounded)\(letter)" }
            }
            let (next, isTooLarge) = unit.multipliedReportingOverflow(by: 1_024)
            if isTooLarge { break }
            unit = next
        }
        return String(bytes)
    }
}
