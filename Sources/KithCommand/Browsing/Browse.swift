import ArgumentParser
import Foundation
import KithAPI
import KithBrowser
import KithCommandLine
import KithWire

/// The first location of a pane of `kith browse`: `laptop`, `laptop:/srv`, `./photos`.
struct BrowseLocation: ExpressibleByArgument, Hashable {
    /// The argument as typed.
    let text: String

    init?(argument: String) {
        guard !argument.isEmpty else { return nil }
        text = argument
    }

    static var defaultCompletionKind: CompletionKind { RemotePath.defaultCompletionKind }

    /// The same for the browser; a word by itself is a device.
    func location() throws -> Location {
        let isPath = text.contains("/") || text.contains(":") || [".", "..", "~"].contains(text)
        let remote = try RemotePath(isPath ? text : text + ":").location()
        return .folder(Folder(device: remote.device, path: remote.path))
    }
}

/// `kith browse`.
struct BrowseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "browse",
        abstract: "Browse this device and others in two panes: look, copy, rename, delete, edit.",
        discussion: helpText(
            """
              kith browse                    this folder, and a list of devices to choose from
              kith browse laptop             this folder, and the home folder (or the granted one) there
              kith browse laptop:/srv        the same with another folder there
              kith browse laptop:/a nas:/b   any two places

            A list is fetched while you go on; what was shown stays until then, and Esc stops it. Copies go on where
            they were cut, ask before they replace anything, and run while you look around.

            \(Browser.help.joined(separator: "\n"))

            NO_COLOR=1 takes the colours away. With --plain, or without a terminal, there is nothing to browse on:
            `kith ls`, `kith find`, `kith cp` and `kith rm` do the same line by line.
            """))

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "A device, DEVICE:PATH, or a path here with a slash in it; one, or one for each pane.")
    var places: [BrowseLocation] = []

    func validate() throws {
        guard places.count <= 2 else { throw ValidationError("There are two panes: name at most two places.") }
    }

    func run() async throws {
        let instead = "Use `kith ls`, `kith find`, `kith cp` and `kith rm`, which print lines."
        guard isatty(STDIN_FILENO) == 1, isatty(STDOUT_FILENO) == 1 else {
            throw KithError(.invalid, "This needs a terminal. \(instead)")
        }
        guard !globals.isPlain, !globals.json else {
            throw KithError(
                .unsupported, "This draws on a whole terminal, and this one is to stay plain. \(instead)")
        }
        let here = Location.folder(Folder(device: nil, path: Files.Path(try RemotePath.currentFolder())))
        var options = Browser.Options(left: here, right: .devices)
        switch places.count {
        case 1:
            options.right = try places[0].location()
            options.startsLeft = false
        case 2:
            options.left = try places[0].location()
            options.right = try places[1].location()
        default: options.startsLeft = false
        }
        let zone = TimeZone.current
        options.offsetFromGreenwich = { zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double($0))) }
        let terminal = try BrowserTerminal()
        try await withClient(globals) { client in
            try await BrowserRun(client: client, terminal: terminal).run(options)
        }
    }
}
