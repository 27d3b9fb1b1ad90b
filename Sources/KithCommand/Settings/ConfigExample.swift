import ArgumentParser
import Foundation
import KithCommandLine

/// `kith config example`.
struct ConfigExample: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "example", abstract: "Print a file with every setting there is, explained and commented out.",
        discussion: "  mkdir -p ~/.config/kith\n  kith config example > ~/.config/kith/config")

    func run() throws {
        printLine(Configuration.example(for: try Root.description(), path: "~/.config/kith/config"))
    }
}
