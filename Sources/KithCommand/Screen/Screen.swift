import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithScreen
import KithWire

/// `kith screen`.
struct ScreenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "screen",
        abstract: "See and control the screen of another device.",
        discussion: helpText(
            """
              kith grant phone --add screen:control     here: the phone may see and control this screen
              kith screen laptop                        a window with the laptop's screen
              kith screen laptop --vnc 5900             see and control the laptop's with any VNC viewer
              kith screen laptop --record lesson.mkv    keep it as a video
              kith screen list laptop                   its displays
              kith screen shot laptop -o now.png        a picture of it
              kith screen input laptop key ctrl+alt+t   type and point there

            A person at the screen is asked before a session begins, unless the device has the grant screen:unattended or
            kith screen rules says otherwise; kith screen sessions shows who looks, kith screen end puts them out.
            """),
        subcommands: [
            ScreenViewCommand.self, ScreenListCommand.self, ScreenShotCommand.self, ScreenInputCommand.self,
            ScreenSessionsCommand.self, ScreenChatCommand.self, ScreenAllowCommand.self, ScreenRefuseCommand.self,
            ScreenLimitCommand.self,
            ScreenEndCommand.self, ScreenRulesCommand.self,
        ], defaultSubcommand: ScreenViewCommand.self)
}

/// `kith screen list`.
struct ScreenListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the displays of a device.",
        discussion: helpText(
            """
              kith screen list laptop
              kith screen list laptop --json
            """))

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "The device; without one, this one.") var device: String?

    func run() async throws {
        try await withClient(globals) { client in
            let answer = try await client.call(
                Screen.Displays.self, Nothing(), on: device, options: CallOptions(timeout: .seconds(30)))
            if globals.json { return printLine(try jsonText(answer)) }
            printLine(
                table(
                    ["DISPLAY", "NAME", "SIZE", "PLACE", ""],
                    answer.displays.map { display in
                        [
                            "\(display.number)", printable(display.name),
                            "\(display.bounds.width)×\(display.bounds.height)",
                            "\(display.bounds.x),\(display.bounds.y)", display.isPrimary ? "primary" : "",
                        ]
                    }))
        }
    }
}

/// `kith screen shot`.
struct ScreenShotCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "shot", abstract: "Write a picture of a device's screen, exact to the pixel, as PNG.",
        discussion: helpText(
            """
              kith screen shot laptop -o now.png
              kith screen shot laptop --display 2 -o - | display
            """))

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "The device; without one, this one.") var device: String?
    @Option(help: "The display, as kith screen list numbers it; without it, all of them together.")
    var display: UInt32?
    @Option(
        name: .shortAndLong, help: "The file; - is standard output. What is there is replaced.",
        completion: .file(extensions: ["png"]))
    var output: String

    func validate() throws {
        guard output != "-" || !isTyped("--json") else {
            throw ValidationError("--json goes with a file: -o - has the picture on standard output.")
        }
    }

    func run() async throws {
        try await withClient(globals) { client in
            var options = ScreenViewer.Options()
            options.display = display
            // All of it exactly, from the first.
            options.takesVideo = false
            let viewer = ScreenViewer(client, of: device, options: options)
            let file = try await withDeadline(Self.patience) { try await Self.picture(of: viewer) }
            try write(file)
            if globals.json, output != "-" {
                struct Report: Encodable {
                    var file: String
                    var bytes: Int
                }
                return printLine(try jsonText(Report(file: output, bytes: file.count)))
            }
            if output != "-" { note("\(output): \(Wording.size(UInt64(file.count)))") }
        }
    }

    /// The time for a person there to let us in, at most ten minutes, and for the picture to come.
    private static let patience = Duration.seconds(720)

    /// The first picture of a session that is exact, as a file.
    private static func picture(of viewer: ScreenViewer) async throws -> [UInt8] {
        let file = Locked<[UInt8]>([])
        struct Done: Error {}
        do {
            try await viewer.run { event in
                guard case .picture(_, isExact: true) = event else { return }
                file.set(viewer.withPicture { PNGPicture.encode($0) })
                throw Done()
            }
        } catch is Done {
            return file.value
        }
        throw KithError(.closed, "The other device ended the session before there was a picture.")
    }

    private func write(_ bytes: [UInt8]) throws {
        if output == "-" {
            try writeOutput(Data(bytes))
        } else {
            do {
                try Data(bytes).write(to: URL(fileURLWithPath: output), options: .atomic)
            } catch {
                throw KithError(.internal, "Could not write \(output): \(error.localizedDescription)", cause: error)
            }
        }
    }
}
