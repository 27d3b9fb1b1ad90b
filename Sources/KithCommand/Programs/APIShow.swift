import ArgumentParser
import KithAPI
import KithCommandLine

/// `kith api show`.
struct APIShow: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Show a method: what goes in and out, and who may call it.",
        discussion: helpText(
            """
              kith api show files.list
              kith api show shell.open --json          as an OpenRPC document of this method alone
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The method, as `kith api methods` lists them.", completion: .list(API.methods.map(\.name)))
    var method: String

    func run() async throws {
        let document = try await APICommand.document(globals)
        let entry = try APICommand.method(method, in: document)
        if globals.json { return printLine(try jsonText(document.only(method))) }
        printLine("\(styled(printable(entry.name), .bold))  (\(printable(document.traits(of: entry))))")
        printLine("  \(printable(entry.summary))")
        if let input = entry.input { show("INPUT", [[printable(document.words(for: input))]]) }
        show(
            "PARAMETERS",
            entry.params.map { param in
                let fallback = param.required == true ? "required" : document.defaultText(of: param) ?? "optional"
                return [printable(param.name), printable(document.words(for: param.schema)), printable(fallback)]
            })
        show("RESULT", [[printable(document.words(for: entry.result.schema))]])
        show(
            "STREAM",
            [("the caller sends", entry.upstream), ("the device sends", entry.downstream)].compactMap { title, way in
                way.map { [title, printable(document.words(for: $0))] }
            })
        for name in document.types(of: entry) {
            guard let schema = document.components.schemas[name] else { continue }
            let members = document.members(of: schema)
            show(
                printable(name),
                members.isEmpty
                    ? [[printable(document.forms(of: schema))]]
                    : members.map { [printable($0.name), printable($0.type), $0.isRequired ? "" : "optional"] })
        }
        show("EXAMPLE", [[printable(document.exampleCall(of: entry))]])
    }

    /// Prints rows below a title; nothing without rows.
    private func show(_ title: String, _ rows: [[String]]) {
        guard !rows.isEmpty else { return }
        printLine()
        printLine(styled(title, .bold))
        let widths = rows.reduce(into: [Int]()) { widths, row in
            for (index, cell) in row.enumerated() {
                if index < widths.count {
                    widths[index] = max(widths[index], cell.count)
                } else {
                    widths.append(cell.count)
                }
            }
        }
        for row in rows {
            let cells = row.enumerated().map { index, cell in
                // The last is not padded.
                index == row.count - 1 ? cell : cell + String(repeating: " ", count: widths[index] - cell.count)
            }
            var line = "  " + cells.joined(separator: "  ")
            while line.last == " " { line.removeLast() }
            printLine(line)
        }
    }
}
