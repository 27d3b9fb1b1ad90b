import ArgumentParser
import KithAPI
import KithCommandLine
import KithWire

/// `kith web list`.
struct WebList: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the browsers that may use the page.",
        discussion: helpText(
            """
              kith web list
              kith web list --json
            """))

    @OptionGroup var globals: GlobalOptions

    func run() async throws {
        let list = try await browsers(globals) { try await $0.call(Web.Browsers.self, Nothing()) }
        if globals.json { return printLine(try jsonText(list)) }
        let browsers = list.browsers
        guard !browsers.isEmpty else {
            return note("No browser may use the page. `kith web` opens it, and lets the browser in.")
        }
        printLine(
            table(
                ["BROWSER", "ID", "USED", "ENDS"],
                browsers.map { browser in
                    [
                        printable(browser.name), browser.id, browser.isConnected ? "now" : relative(browser.lastUse),
                        relative(browser.ends),
                    ]
                }))
    }
}

/// Asks the device that is up about browsers.
func browsers<Result>(_ globals: GlobalOptions, _ body: (Client) async throws -> Result) async throws -> Result {
    let client = try await runningClient(globals, ": the page is served by it")
    do {
        return try await body(client)
    } catch let error as KithError where error.code == .unsupported {
        throw WebCommand.missing
    }
}
