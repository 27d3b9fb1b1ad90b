import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithExtractor
import KithScreen
import KithWindow
import KithWire

/// The options of a window with another device's screen.
struct ScreenWindowOptions: ParsableArguments {
    @Flag(name: .customLong("full-screen"), help: "Fill the display.") var isFullScreen = false
    @Option(help: ArgumentHelp("The size: fit, 1:1, or percent, 10 to 1600.", valueName: "size"))
    var scale = WindowScale.fit
    @Flag(name: .customLong("grab"), help: "Send all keys there, the window manager's too; Ctrl+Alt+Shift+G lets go.")
    var grabsKeyboard = false
    @Flag(name: .customLong("stats"), help: "Show pictures and bytes a second, round trip and path.")
    var showsStatistics = false

    /// True when any of them was given.
    var isChosen: Bool { isFullScreen || scale != .fit || grabsKeyboard || showsStatistics }

    /// The path of the program that has the window.
    ///
    /// - Throws: `KithError` `.unsupported` when there can be no window, with what there is instead.
    static func program(
        for device: String, environment: [String: String] = ProcessInfo.processInfo.environment
    ) throws(KithError) -> String {
        let instead =
            "Without a window: kith screen \(device) --terminal or --vnc 5900, or kith screen shot \(device) -o now.png."
        guard let path = HelperProgram.path(of: "kith-viewer") else {
            throw KithError(
                .unsupported,
                "kith-viewer, which has the window, is not installed beside kith (make install). \(instead)")
        }
        guard ["DISPLAY", "WAYLAND_DISPLAY"].contains(where: { environment[$0]?.isEmpty == false }) else {
            throw KithError(
                .unsupported,
                "There is no desktop here for a window: neither DISPLAY nor WAYLAND_DISPLAY is set. \(instead)")
        }
        return path
    }

    /// A window for a session.
    func display(
        of device: String, _ view: ScreenViewOptions, _ client: Client, _ program: String
    ) -> WindowDisplay {
        let options = WindowOptions(
            device: device, scale: scale, isFullScreen: isFullScreen, isViewOnly: view.isViewOnly,
            mayControl: !view.isViewOnly, grabsKeyboard: grabsKeyboard, showsStatistics: showsStatistics,
            quality: view.quality)
        let showsStatistics = showsStatistics
        let line = Locked(StatusLine(isShown: showsStatistics, isPlain: isPlainTerminal))
        return WindowDisplay(
            options, program: program, environment: ProcessInfo.processInfo.environment,
            services: WindowDisplay.Services(
                copy: { paths, report in
                    // In the terminal it can be read when it has gone from the window.
                    var drop = ScreenDrop(paths, to: device)
                    let outcome = try await drop.copy(client, report)
                    line.change { $0.clear() }
                    note(outcome)
                    return outcome
                },
                reach: {
                    let found = try await client.call(
                        Devices.List.self, Devices.List.Input(probe: false, device: device))
                    return (found.first?.roundTripMilliseconds, found.first?.path)
                },
                report: { statistics in line.change { $0.show(statistics.text) } }))
    }
}

extension WindowScale: ExpressibleByArgument {
    /// Reads what is typed.
    public init?(argument: String) { self.init(argument) }

    /// The text in help.
    public var defaultValueDescription: String { "fit" }
}
