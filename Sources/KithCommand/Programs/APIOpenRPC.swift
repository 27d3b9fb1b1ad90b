import ArgumentParser
import KithAPI
import KithCommandLine

/// `kith api openrpc`.
struct APIOpenRPC: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "openrpc", abstract: "Print the methods as an OpenRPC document, for programs.",
        discussion: helpText(
            """
              kith api openrpc > kith.json
              kith api openrpc | jq '.methods[].name'
            """))

    @OptionGroup var globals: GlobalOptions

    func run() async throws { printLine(try jsonText(await APICommand.document(globals))) }
}
