import ArgumentParser
import KithAPI
import KithCommandLine

/// `kith api reference`.
struct APIReference: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reference", abstract: "Print the methods of this version as a page in Markdown.",
        discussion: helpText(
            """
              kith api reference > Documentation/Methods.md
            """))

    @OptionGroup var globals: GlobalOptions

    func run() {
        // The page ends its last line itself.
        printLine(String(OpenRPC.compiledIn.reference.dropLast()))
    }
}
