import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine

/// `kith inbox`.
struct InboxCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "inbox",
        abstract: "See, accept and reject what other people send to this device.",
        discussion: helpText(
            """
              kith inbox                               what is offered, and what has arrived
              kith inbox accept k7m3                   the offer whose name begins so
              kith inbox accept k7m3 --to ~/Pictures
              kith inbox rule laptop accept --max 1G   without asking, from now on
              kith inbox --watch                       as it comes

            Without --to things go to Kith in the folder for downloads ($XDG_DOWNLOAD_DIR). Nothing is ever replaced:
            a name that is taken gets a number. Files get the modes of any download, none that lets them be run; links
            are left out (`kith cp` brings both).
            """),
        subcommands: [InboxList.self, InboxAccept.self, InboxReject.self, InboxRule.self],
        defaultSubcommand: InboxList.self)
}
