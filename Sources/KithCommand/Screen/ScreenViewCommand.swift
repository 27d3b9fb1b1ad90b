import ArgumentParser
import KithCommandLine
import KithScreen

/// `kith screen DEVICE`.
struct ScreenViewCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "view", abstract: "Show the screen of a device in a window, and type and point there.",
        discussion: helpText(
            """
              kith screen laptop                        view may be left out
              kith screen laptop --full-screen --grab   as if one sat there
              kith screen laptop --scale 1:1            a pixel there is a pixel here
              kith screen laptop --view-only --stats    only look, and see how well it goes
              kith screen view list                     a device that is called list

            The pointer near the middle of the window's upper edge shows a handle for the toolbar: sizes, full screen,
            keys that this desktop keeps for itself, displays. These shortcuts are the window's; all other keys are
            the other device's:

              Ctrl+Alt+Shift with F  full screen        with 1, 0  a pixel is a pixel; all of it fits
                             with G  grab the keyboard, let it go     with + - and arrows  zoom, move
                             with V  only look          with S     statistics
                             with T  the toolbar        with K     keys to send
                             with X  leave

            Text that is copied here can be pasted there, and the other way round. Files put on the window are copied
            into the home folder there, as kith cp does, if this device has a grant for files. What is lost comes back:
            the window stays while the connection is sought again. Closing the window or Ctrl-C ends it, and
            everything that is held there is let go.
            """))

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "The device.") var device: String
    @OptionGroup(title: "Session") var view: ScreenViewOptions
    @OptionGroup(title: "Window") var window: ScreenWindowOptions

    func run() async throws {
        let ending = try await Signals.untilInterrupted {
            let program = try ScreenWindowOptions.program(for: device)
            try await withClient(globals) { client in
                let display = window.display(of: device, view, client, program)
                let viewer = ScreenViewer(
                    client, of: device, options: view.session, clipboard: display.clipboard)
                try await viewer.show(on: display)
            }
        }
        if let signal = ending.signal { throw ExitCode(128 + signal) }
    }
}
