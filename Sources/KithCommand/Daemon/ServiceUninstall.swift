import ArgumentParser
import Foundation
import KithCommandLine
import KithWire

/// `kith service uninstall`.
struct ServiceUninstall: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "uninstall", abstract: "Stop the service and remove its file; the data directory stays.",
        discussion: helpText(
            """
              kith service uninstall
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var options: ServiceOptions

    func run() throws {
        let unit = try options.unit(globals, isConfined: false)
        let path = options.path(unit)
        guard FileManager.default.fileExists(atPath: path) else {
            note("There is no service \(unit.identifier): \(path) is not there.")
            return
        }
        #if canImport(Darwin)
        _ = try options.control("bootout", "\(options.domain)/\(unit.identifier)")
        #else
        // One that does not run needs no stopping, and where no manager runs there is nothing to stop.
        _ = try options.control("disable", "--now", unit.identifier)
        #endif
        do {
            try FileManager.default.removeItem(atPath: path)
        } catch {
            throw KithError(.denied, "\(path) cannot be removed.", cause: error)
        }
        #if os(Linux)
        _ = try options.control("daemon-reload")
        #endif
        note("Removed \(path)")
    }
}
