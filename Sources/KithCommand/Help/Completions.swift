import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine

/// `kith completions`.
struct CompletionsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "completions",
        abstract: "Print the script that completes kith's commands, devices and paths with the Tab key.",
        discussion: helpText(
            """
            Devices are asked for at the daemon, their files at the devices it is connected to; a device is never
            started for it. What does not answer in 200 milliseconds is left out.

              kith completions bash > ~/.local/share/bash-completion/completions/kith
              kith completions zsh > ~/.zfunc/_kith            with fpath+=~/.zfunc before compinit
              kith completions fish > ~/.config/fish/completions/kith.fish
              source <(kith completions bash)                  for this shell only
            """))

    @Argument(help: "The shell: bash, zsh or fish.", completion: .list(["bash", "zsh", "fish"]))
    var shell: String

    func validate() throws {
        guard CompletionScript(rawValue: shell) != nil else {
            throw ValidationError("There are completions for bash, zsh and fish.")
        }
    }

    func run() throws {
        if let script = CompletionScript(rawValue: shell) { printLine(script.text) }
    }
}
