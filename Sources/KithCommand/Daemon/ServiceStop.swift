import ArgumentParser
import KithCommandLine

/// `kith service stop`.
struct ServiceStop: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stop", abstract: "Stop the device, as `kith down`; the service stays installed.",
        discussion: helpText(
            """
              kith service stop                running work is given a moment to end

            The service manager starts it again with the machine, or when the user logs in. `kith service uninstall` has
            it stay down.
            """))

    @OptionGroup var globals: GlobalOptions

    func run() async throws { try await DownCommand.stop(globals) }
}
