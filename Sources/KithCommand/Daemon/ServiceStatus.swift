import ArgumentParser
import Foundation
import KithCommandLine
import KithWire

/// `kith service status`.
struct ServiceStatus: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show whether the service is installed, and runs.",
        discussion: helpText(
            """
              kith service status && echo it runs

            Exit status: 0 when it runs, 1 when it does not, 3 when it is not installed.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var options: ServiceOptions

    /// The output of `--json`.
    private struct Report: Encodable {
        var service: String
        var path: String
        var isInstalled: Bool
        var isRunning: Bool
    }

    func run() throws {
        let unit = try options.unit(globals, isConfined: false)
        let path = options.path(unit)
        let isInstalled = FileManager.default.fileExists(atPath: path)
        #if canImport(Darwin)
        let result = isInstalled ? try options.control("print", "\(options.domain)/\(unit.identifier)") : nil
        let isRunning = result?.status == 0 && result?.text.contains("state = running") == true
        #else
        let result = isInstalled ? try options.control("is-active", unit.identifier) : nil
        let isRunning = result?.status == 0
        #endif
        if globals.json {
            printLine(
                try jsonText(
                    Report(service: unit.identifier, path: path, isInstalled: isInstalled, isRunning: isRunning)))
        } else if !isInstalled {
            printLine("\(unit.identifier) is not installed (`kith service install`).")
        } else {
            printLine("\(unit.identifier) is \(isRunning ? styled("running", .green) : styled("not running", .yellow))")
            printLine("  \(path)")
            if !isRunning, let text = result?.text { printLine("  \(ServiceInstall.firstLine(text))") }
        }
        if !isRunning { throw ExitCode(isInstalled ? 1 : KithError.Code.notFound.exitStatus) }
    }
}
