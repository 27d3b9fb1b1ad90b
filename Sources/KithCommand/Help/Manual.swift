import ArgumentParser
import Foundation
import KithCommandLine
import KithWire

/// `kith manual`.
struct ManualCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "manual",
        abstract: "Write the manual's pages, made from the same text as --help.",
        discussion: helpText(
            """
              kith manual --into ~/.local/share/man/man1       then: man kith, man kith-cp
              kith manual cp | man -l -
            """))

    @Option(help: ArgumentHelp("Write every page into this folder.", valueName: "dir"), completion: .directory)
    var into: String?

    @Argument(help: "The command whose page to print; without one, the page of the whole.")
    var command: [String] = []

    func run() throws {
        let pages = ManualPage.all(of: try Root.description(), date: Self.date)
        guard let into else {
            let name = (["kith"] + command).joined(separator: "-") + ".1"
            guard let page = pages.first(where: { $0.fileName == name }) else {
                throw try Root.noCommand(command)
            }
            try writeOutput(Data(page.text.utf8))
            return
        }
        let folder = URL(fileURLWithPath: (into as NSString).expandingTildeInPath)
        do {
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            for page in pages {
                try Data(page.text.utf8).write(to: folder.appendingPathComponent(page.fileName), options: .atomic)
            }
        } catch let error as CocoaError {
            throw KithError(.denied, "The manual cannot be written into \(folder.path).", cause: error)
        }
        note("\(pages.count) pages in \(folder.path)")
    }

    /// The day of the build, or of `$SOURCE_DATE_EPOCH` where builds have to come out the same.
    private static var date: String {
        let epoch = ProcessInfo.processInfo.environment["SOURCE_DATE_EPOCH"].flatMap(TimeInterval.init)
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "UTC")
        formatter.dateFormat = "MMMM d, yyyy"
        return formatter.string(from: epoch.map { Date(timeIntervalSince1970: $0) } ?? Date())
    }
}
