import ArgumentParser
import Foundation
import KithCommandLine

/// `kith service`.
struct ServiceCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "service",
        abstract: "Have this device come up by itself: systemd on Linux, launchd on macOS.",
        discussion: helpText(
            """
              kith service install             for this user; starts it now, and when the user logs in
              kith service install --print     show the file, and write nothing
              kith service status
              kith service stop
              kith service uninstall
              kith daemon status               `daemon` is another name for `service`
              sudo kith service install --user ana      from when the machine starts, as ana

            On Linux, `loginctl enable-linger` has a user's own service run also while nobody is logged in; one that root
            installs with --user does anyhow. --user goes with status and uninstall, too.
            """),
        subcommands: [ServiceInstall.self, ServiceUninstall.self, ServiceStatus.self, ServiceStop.self],
        aliases: ["daemon"])
}
