import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWindow
import KithWire

/// `kith screen input`.
struct ScreenInputCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "input", abstract: "Type and point on the screen of a device.",
        discussion: helpText(
            """
              kith screen input laptop key ctrl+alt+t
              kith screen input laptop text "echo hello" key Return
              kith screen input laptop move 640,400 click left
              kith screen input laptop scroll 0,-3

            One after the other: key NAMES, text TEXT, move X,Y, click BUTTON, double BUTTON, down BUTTON, up BUTTON,
            scroll RIGHT,DOWN in notches, wait SECONDS. Buttons are left, middle, right, back, forward. Everything
            still held at the end is let go. It takes the grant screen:control.
            """))

    /// One step of what is to be done.
    enum Step: Hashable {
        case inputs([ScreenInput])
        case wait(Double)
    }

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "The device.") var device: String
    @Option(help: "The display that positions count on; without it, all of them together.") var display: UInt32?
    @Argument(help: ArgumentHelp("What to do.", valueName: "step")) var steps: [String]

    func validate() throws {
        guard !steps.isEmpty else { throw ValidationError("What is to be typed? `kith screen input --help` tells.") }
        do {
            _ = try Self.parse(steps)
        } catch {
            throw ValidationError(error.message)
        }
    }

    func run() async throws {
        let parsed = try Self.parse(steps)
        try await withClient(globals) { client in
            try await withDeadline(.seconds(3_600)) { try await perform(parsed, client) }
        }
    }

    /// Opens a session for as long as the steps take: control is part of one.
    private func perform(_ steps: [Step], _ client: Client) async throws {
        let opened = try await client.open(
            Screen.View.self, .init(display: display, rate: 1, wants: .init(control: true)), on: device)
        defer { opened.stream.abort(.cancelled) }
        guard opened.output.permissions.control else {
            throw KithError(
                .denied,
                "\(device) lets this device see its screen, not control it. On the other device: kith grant NAME --add screen:control, with its name for this one."
            )
        }
        let control = try await client.open(
            Screen.Control.self, .init(session: opened.output.session), on: device
        ).stream
        for step in steps {
            switch step {
            case .wait(let seconds): try await Task.sleep(for: .seconds(seconds))
            case .inputs(let inputs):
                for input in inputs { try await control.send(input) }
            }
        }
        try await control.send(.release)
        while let notice = try await control.receive() {
            guard notice.isInControl else {
                throw KithError(
                    .conflict, "\(notice.controller ?? "Somebody else") controls the screen now. Try again in a moment."
                )
            }
            let count = steps.reduce(1) { count, step in
                if case .inputs(let inputs) = step { count + inputs.count } else { count }
            }
            if notice.done >= UInt64(count) { break }
        }
        try await control.finish()
    }

    /// The steps that words stand for.
    static func parse(_ words: [String]) throws(KithError) -> [Step] {
        var steps: [Step] = []
        var rest = words[...]
        while let verb = rest.popFirst() {
            guard let word = rest.popFirst() else {
                throw KithError(
                    .invalid, "Something is missing behind “\(verb)”. kith screen input --help shows examples.")
            }
            steps.append(try step(verb, word))
        }
        return steps
    }

    private static func step(_ verb: String, _ word: String) throws(KithError) -> Step {
        switch verb {
        case "key":
            guard let keys = KeyNames.keys(of: word) else {
                throw KithError(
                    .invalid, "“\(word)” is not a key. There are ctrl+alt+t, Return, F5, Left, é, and so on.")
            }
            return .inputs(
                keys.map { ScreenInput.key($0, isDown: true) } + keys.reversed().map { .key($0, isDown: false) })
        case "text":
            return .inputs(WindowKeyboard.messages(word))
        case "move":
            let (x, y) = try pair(word, verb)
            return .inputs([.move(x: x, y: y)])
        case "scroll":
            let (x, y) = try pair(word, verb)
            guard abs(x) <= 100, abs(y) <= 100 else {
                throw KithError(.invalid, "At most 100 notches are turned at once.")
            }
            return .inputs([.scroll(x: x * 120, y: y * 120)])
        case "click", "double", "down", "up":
            guard let button = ScreenInput.Button(rawValue: word) else {
                throw KithError(.invalid, "“\(word)” is not a button: left, middle, right, back, forward.")
            }
            let (down, up) = (ScreenInput.button(button, isDown: true), ScreenInput.button(button, isDown: false))
            switch verb {
            case "click": return .inputs([down, up])
            case "double": return .inputs([down, up, down, up])
            default: return .inputs([verb == "down" ? down : up])
            }
        case "wait":
            guard let seconds = Double(word), (0...60).contains(seconds) else {
                throw KithError(.invalid, "wait takes 0 to 60 seconds.")
            }
            return .wait(seconds)
        default:
            throw KithError(
                .invalid, "“\(verb)” is not a step: key, text, move, click, double, down, up, scroll, wait.")
        }
    }

    private static func pair(_ word: String, _ verb: String) throws(KithError) -> (Int32, Int32) {
        let parts = word.split(separator: ",", omittingEmptySubsequences: false).map { Int32($0) }
        guard parts.count == 2, let x = parts[0], let y = parts[1] else {
            throw KithError(.invalid, "\(verb) takes two numbers: \(verb) 10,20.")
        }
        return (x, y)
    }
}
