import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithIdentity
import KithTrust
import KithWire

/// `kith enrol`.
struct EnrolCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "enrol",
        abstract: "Make a device one of your own: a certificate under your root key.",
        discussion: helpText(
            """
            Your root key stands for you. The device that holds it gives each of your other devices a certificate and the
            keys of your networks. Both must be paired already.

              kith enrol --begin              once, on one device: make your root key there
              kith enrol                      on another: shows a code and waits, ten minutes at the most
              kith enrol laptop abcd-ef23     on the device with the root key: laptop shows that code
              kith enrol laptop               the same; asks for the code
              kith enrol kith-enrol1-...      the same, with the text of the QR code

            Certificates hold for 90 days, and are renewed by themselves while both devices are connected now and then.
            `kith trust` shows them, `kith revoke` ends one for good. Three wrong codes end a request. Two devices that are
            enrolled need not be paired with each other: `kith connect` on one of them.
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The paired device that shows a code, or the text of its QR code.")
    var device: String?

    @Argument(help: "The code it shows; - reads it from standard input.")
    var code: String?

    @Flag(help: "Make your root key on this device.")
    var begin = false

    @Flag(help: "Take another root than the one this device is enrolled under.")
    var replace = false

    @Option(help: "The days for which the certificate holds: 1 to 400.")
    var days: Int?

    func validate() throws {
        guard device == nil || !(begin || replace) else {
            throw ValidationError("--begin and --replace are about this device: leave the other one out.")
        }
        guard !(begin && replace) else { throw ValidationError("Give one of --begin and --replace.") }
        guard device != nil || days == nil else {
            throw ValidationError("The device with the root key decides for how many days: give --days there.")
        }
        guard days.map({ (1...400).contains($0) }) ?? true else {
            throw ValidationError("A certificate holds for 1 to 400 days.")
        }
    }

    func run() async throws {
        if begin {
            try await makeRoot()
        } else if let device {
            try await issue(to: device)
        } else {
            let ending = try await Signals.untilInterrupted {
                try await withClient(globals, listening: true) { try await ask($0) }
            }
            guard let signal = ending.signal else { return }
            note("\nThe request was taken back.")
            throw ExitCode(128 + signal)
        }
    }

    private func makeRoot() async throws {
        let status = try await withClient(globals) { try await $0.call(Trust.Begin.self, Nothing()) }
        guard !globals.json else { return printLine(try jsonText(status)) }
        printLine("This device holds your root key now: \(status.root ?? "")")
        note(
            "Back up \(globals.directory) while this device is down (kith down): without it no device can be enrolled or "
                + "revoked, and you would have to begin anew. Next, on another device: kith enrol")
    }

    // MARK: - The device with the root key

    private func issue(to word: String) async throws {
        var name = word
        let text: String
        if EnrolmentText.isMeant(word) {
            guard code == nil, let read = EnrolmentText(word) else {
                throw KithError(
                    .invalid, "That is not the whole text of a QR code. Give the device and its code instead.")
            }
            (name, text) = (read.device.description, read.code.description)
        } else if let code {
            text = code == "-" ? try InvitationText.readInput() : code
        } else {
            guard TerminalPrompt.isPossible else {
                throw KithError(.invalid, "The code is missing: kith enrol \(word) CODE. The other device shows it.")
            }
            guard let line = try await TerminalPrompt.line("The code that \(printable(word)) shows: ") else {
                throw CancellationError()
            }
            text = line.trimmingCharacters(in: .whitespaces)
        }
        let wanted = name
        let issued = try await withClient(globals) {
            try await $0.call(Trust.Issue.self, Trust.Issue.Input(device: wanted, code: text, days: days))
        }
        guard !globals.json else { return printLine(try jsonText(issued)) }
        printLine(
            "\(styled(printable(issued.name), .green)) is one of your devices, certified until \(date(issued.until)).")
    }

    // MARK: - The device that asks

    private func ask(_ client: Client) async throws {
        let name = try await client.call(ThisDevice.Status.self, Nothing()).name
        let stream = try await client.open(Trust.Enrol.self, Trust.Enrol.Input(replacesRoot: replace)).stream
        defer { stream.abort(.cancelled) }
        while let event = try await stream.receive() {
            if globals.json { printLine(try jsonText(event)) }
            switch event {
            case .waiting(let code, let text, let expiresAt):
                if !globals.json { show(code, text, expiresAt, name) }
            case .wrongCode(let name, let left):
                if !globals.json { note("\(printable(name)) gave a wrong code; tries left: \(left).") }
            case .enrolled(let root, let name, let until):
                if !globals.json {
                    printLine("Enrolled by \(printable(name)) under the root \(root), until \(date(until)).")
                }
                return
            case .failed(let code, let message): throw KithError(code, message)
            }
        }
        throw KithError(.closed, "The device stopped before the request was answered. Begin again: kith enrol")
    }

    private func show(_ code: String, _ text: String, _ expiresAt: Int64, _ name: String) {
        let head = "On the device that holds your root key, run (once, expires \(relative(expiresAt))):"
        drawCode(text, besides: [head, text], lines: 5, again: "kith enrol")
        printLine(styled(head, .bold))
        printLine()
        printLine("  kith enrol \(printable(name)) \(code)")
        printLine()
        note("Waiting for it (Ctrl-C takes the request back). It may call this device by another name.")
    }
}

/// A day, as 2026-11-23.
func date(_ time: Int64) -> String {
    Date(timeIntervalSince1970: Double(time)).formatted(.iso8601.year().month().day())
}
