import ArgumentParser
import Foundation
import KithCommandLine

/// `kith config`.
struct ConfigCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config",
        abstract: "Show, check or begin the configuration file.",
        discussion: helpText(
            """
              kith config                          what the file and the environment say
              kith config shell --device work      every setting of `kith shell work`, and where it comes from
              kith config check                    look for mistakes
              mkdir -p ~/.config/kith
              kith config example > ~/.config/kith/config

            The file is $KITH_CONFIG, else config in the data directory, else ~/.config/kith/config. Every option of
            every command can be set there, and devices can be given other names with settings of their own:

              verbose = yes              # for every command
              [cp]
              quiet = yes                # for kith cp
              [device work]
              device = laptop            # kith shell work means laptop …
              directory = /srv/app       # … and starts there

            The command line counts before the environment, that before the device's section, that before the command's.
            --quiet=no takes back a yes of the file.
            """),
        subcommands: [ConfigShow.self, ConfigCheck.self, ConfigExample.self], defaultSubcommand: ConfigShow.self)
}
