import ArgumentParser
import KithAPI
import KithCommandLine
import KithWire

/// `kith web forget`.
struct WebForget: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "forget", abstract: "End the right of a browser to use the page, and cut it off at once.",
        discussion: helpText(
            """
              kith web forget "Firefox on Linux"      by its name or ID, or the beginning of one
              kith web forget --all
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The browser.")
    var browser: String?

    @Flag(help: "All of them.")
    var all = false

    func validate() throws {
        guard (browser != nil) != all else {
            throw ValidationError("Name a browser, or --all. `kith web list` shows them.")
        }
    }

    func run() async throws {
        let gone = try await browsers(globals) {
            try await $0.call(Web.Forget.self, Web.Forget.Input(browser: browser))
        }
        if globals.json { return printLine(try jsonText(gone)) }
        if gone.browsers.isEmpty { return note("No browser could use the page.") }
        for browser in gone.browsers {
            printLine("Forgot \(printable(browser.name)); another link lets it in again: kith web")
        }
    }
}
