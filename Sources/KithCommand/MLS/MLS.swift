import ArgumentParser
import Foundation
import KithCommandLine

/// `kith mls`.
struct MLSCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mls",
        abstract: "Look into messages of secure groups, and check the engine (MLS, RFC 9420).",
        discussion: helpText(
            """
              kith mls inspect message.mls             any MLS message as JSON; needs no keys
              kith mls vectors verify vectors/mls      the official test vectors, case by case
              kith mls vectors generate treekem        the same with fresh values, for others to verify
              kith mls bench                           what groups cost on this machine
              kith mls demo                            three processes in a group, killed now and then
            """),
        subcommands: [MLSInspect.self, MLSVectors.self, MLSBench.self, MLSDemo.self, MLSDemoMember.self])
}
