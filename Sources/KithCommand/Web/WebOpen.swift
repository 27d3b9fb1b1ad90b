import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// `kith web open`.
struct WebOpen: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "open", abstract: "Open the page, and let the browser in.",
        discussion: helpText(
            """
              kith web open                    as kith web alone
              kith web --print
              kith web --port 8080             at another port than before; browsers have to be let in again
            """))

    @OptionGroup var globals: GlobalOptions

    @Flag(name: .customLong("print"), help: "Print the link, and open nothing. Whoever opens it first is let in.")
    var prints = false

    @Option(help: "The port to serve the page at, 1 to 65535. Kept; default: one chosen at the first time.")
    var port: UInt16?

    func validate() throws {
        guard port != 0 else { throw ValidationError("--port takes 1 to 65535.") }
    }

    func run() async throws {
        let client = try await runningClient(globals, ": the page is served by it")
        let link: Web.Link.Output
        do {
            link = try await client.call(Web.Link.self, Web.Link.Input(port: port))
        } catch let error as KithError where error.code == .unsupported {
            #if Web
            throw KithError(
                .unsupported,
                "The device that runs was started by a kith without the page. Restart it with this one: kith down, then kith up --detach",
                cause: error)
            #else
            throw WebCommand.missing
            #endif
        }
        if globals.json { return printLine(try jsonText(link)) }
        if prints { return show(link) }
        guard BrowserLauncher.hasDisplay else {
            note("There is no display here to open a browser on. Open this link, once, within five minutes:")
            return show(link)
        }
        let file = try BrowserLauncher.write(link.url, in: globals.directory)
        guard await BrowserLauncher.open(file) else {
            note("No browser could be started. Open this link, once, within five minutes:")
            return show(link)
        }
        printLine("Opened \(link.page) in the browser. If nothing shows there: kith web --print")
    }

    private func show(_ link: Web.Link.Output) { printLine(link.url) }
}
