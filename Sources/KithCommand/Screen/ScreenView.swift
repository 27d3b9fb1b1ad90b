import ArgumentParser
import KithAPI
import KithCommandLine
import KithScreen
import KithWire

/// The options of every way to see a screen.
struct ScreenViewOptions: ParsableArguments {
    @Option(help: "The display, as kith screen list numbers it; without it, all of them together.") var display: UInt32?
    @Option(help: ArgumentHelp("The quality of what moves, 1 to 100.", valueName: "1…100")) var quality: UInt8 = 80
    @Option(help: ArgumentHelp("The most pictures a second, 1 to 240.", valueName: "1…240")) var rate: UInt16 = 60
    @Flag(name: .customLong("view-only"), help: "Neither type nor point there, and leave its clipboard alone.")
    var isViewOnly = false
    @Flag(name: .customLong("no-clipboard"), help: "Leave both clipboards alone.") var leavesClipboard = false

    @Flag(help: "Keep the screen there dark for whoever is in front of it, as long as this lasts.") var privacy = false

    func validate() throws {
        guard (1...100).contains(quality) else { throw ValidationError("--quality is 1 to 100.") }
        guard (1...240).contains(rate) else { throw ValidationError("--rate is 1 to 240 pictures a second.") }
    }

    /// The session that is asked for.
    var session: ScreenViewer.Options {
        var options = ScreenViewer.Options()
        options.display = display
        options.quality = quality
        options.rate = rate
        options.wants = Screen.Permissions(
            control: !isViewOnly, clipboard: !isViewOnly && !leavesClipboard, privacy: privacy ? true : nil)
        return options
    }
}
