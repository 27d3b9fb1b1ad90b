import ArgumentParser
import Foundation
import KithAPI
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
              kith screen laptop --vnc 5900             for any VNC viewer: vncviewer :0
              kith screen laptop --terminal             in this terminal; ctrl+] leaves
              kith screen laptop --record lesson.mkv    keep it as a video, too
              kith screen laptop --privacy              dark for whoever is in front of it
              kith screen view list                     a device that is called list

            The pointer near the middle of the window's upper edge shows a handle for the toolbar: sizes, full screen,
            keys that this desktop keeps for itself, displays. These shortcuts are the window's; all other keys are
            the other device's:

              Ctrl+Alt+Shift+F   full screen
              Ctrl+Alt+Shift+1   a pixel is a pixel; 0: all of it fits
              Ctrl+Alt+Shift++   larger; -: smaller; arrows move it
              Ctrl+Alt+Shift+G   grab the keyboard, or let it go
              Ctrl+Alt+Shift+V   only look, or type again
              Ctrl+Alt+Shift+C   write to the person there, who reads it on the screen
              Ctrl+Alt+Shift+T   the toolbar; K: keys to send; S: statistics; Q: quality
              Ctrl+Alt+Shift+X   leave

            Text that is copied here can be pasted there, and the other way round. Files and folders put on the window
            are copied into the home folder there, or into the one folder that is granted instead; it takes a grant
            files:write there. The window shows how far that is and says where they are; leaving ends a copy that runs,
            and put on a window again it goes on. What is lost comes back: the window stays while the connection is
            sought again. Closing the window or Ctrl-C ends it, and everything that is held there is let go.

            With --vnc a viewer connects to this machine only, and with the password that is printed; viewers may come
            and go, also several at once. --vnc ./laptop.sock is a socket for those of this user only.

            With --privacy the monitors there are dark, where their X server can do that; it needs the grant
            screen:privacy there. They are lit again at the end, also when kith there is killed, and when this end has stood
            still for 30 s, as with its lid closed: a session that goes on then is lit, and the window says so.
            Ctrl+Alt+Pause on the keyboard there ends it.

            A recording needs the grant screen:record there, and whoever is at that screen is told of it. It plays up to
            its last picture even if kith was killed; with --no-window there is nothing else.
            """))

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "The device.") var device: String
    @OptionGroup(title: "Session") var view: ScreenViewOptions
    @OptionGroup(title: "Window") var window: ScreenWindowOptions
    @OptionGroup(title: "In place of a window") var vnc: ScreenVNCOptions
    @Flag(help: "Show it in this terminal.") var terminal = false
    @OptionGroup(title: "Recording") var recording: ScreenRecordOptions

    func validate() throws {
        guard !terminal || vnc.port == nil else { throw ValidationError("Choose one: --vnc or --terminal.") }
        guard !window.isChosen || (!terminal && vnc.port == nil) else {
            throw ValidationError("--full-screen, --scale, --grab and --stats are for the window.")
        }
        guard !recording.isWindowless || (!window.isChosen && !terminal && vnc.port == nil) else {
            throw ValidationError("With --no-window it is shown nowhere: leave out what says how.")
        }
    }

    func run() async throws {
        let recorder = try recording.recorder(of: device, view)
        do {
            try await show(recorder)
        } catch let error where !(error is ExitCode) {
            // Of two failures the session's counts: it is why the recording ended, too.
            if recorder?.summary.files.isEmpty == false { try? ScreenRecordOptions.report(recorder, globals) }
            throw error
        }
    }

    private func show(_ recorder: ScreenRecorder?) async throws {
        if terminal {
            try await withClient(globals) { client in try await showInTerminal(client, recorder) }
            return try ScreenRecordOptions.report(recorder, globals)
        }
        let ending = try await Signals.untilInterrupted {
            if recording.isWindowless, let recorder {
                try await withClient(globals) { client in
                    try await ScreenViewer(client, of: device, options: session).record(by: recorder)
                }
            } else if vnc.port != nil {
                try await withClient(globals) { client in try await showVNC(client, recorder) }
            } else {
                try await showInWindow(recorder)
            }
        }
        try ScreenRecordOptions.report(recorder, globals)
        // Without a window Ctrl-C is the way to end it, and not an accident.
        if recording.isWindowless, ending.signal == SIGINT { return }
        if let signal = ending.signal { throw ExitCode(128 + signal) }
    }

    /// The session that is asked for.
    private var session: ScreenViewer.Options {
        var session = view.session
        if recording.path != nil { session.wants.record = true }
        session.readsChat = vnc.port == nil && !recording.isWindowless
        if recording.isWindowless { (session.wants.control, session.wants.clipboard) = (false, false) }
        return session
    }

    private func showInWindow(_ recorder: ScreenRecorder?) async throws {
        let program = try ScreenWindowOptions.program(for: device)
        try await withClient(globals) { client in
            let display = window.display(of: device, view, client, program)
            let viewer = ScreenViewer(client, of: device, options: session, clipboard: display.clipboard)
            try await viewer.show(on: display, recorder) { note($0) }
        }
    }

    private func showInTerminal(_ client: Client, _ recorder: ScreenRecorder?) async throws {
        var session = self.session
        // A terminal tells no clipboard, and shows no more pictures than these.
        session.wants.clipboard = false
        session.rate = min(session.rate, 10)
        let viewer = ScreenViewer(client, of: device, options: session)
        // The terminal is the other screen's until that is over.
        let reports = Locked<[String]>([])
        defer { reports.value.forEach { note($0) } }
        try await viewer.show(on: try ScreenTerminal(of: device), recorder) { report in
            reports.change { $0.append(report) }
        }
    }

    private func showVNC(_ client: Client, _ recorder: ScreenRecorder?) async throws {
        let display = try vnc.display(of: device, globals)
        let viewer = ScreenViewer(client, of: device, options: session, clipboard: display.clipboard)
        try await viewer.show(on: display, recorder) { note($0) }
    }
}
