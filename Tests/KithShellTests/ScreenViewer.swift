import KithAPI
import KithTerminal
import KithTesting
import KithWire

@testable import KithShell

/// A viewer of `shell.screen` that does what updates say.
final class ScreenViewer {
    let output: Shell.Screen.Output
    let stream: MethodStream<Shell.Screen.Update, Shell.Screen.Action>
    private(set) var mirror = ScreenMirror()
    /// True to acknowledge pictures.
    var acknowledges = true
    /// The bytes of the updates as CBOR.
    private(set) var bytes = 0
    private(set) var states: [Shell.Screen.State] = []

    init(_ client: Client, _ input: Shell.Screen.Input) async throws {
        let opened = try await client.open(Shell.Screen.self, input)
        output = opened.output
        stream = opened.stream
    }

    func act(_ action: Shell.Screen.Action) async throws { try await stream.send(action) }
    func type(_ text: String) async throws { try await act(.text(text)) }
    func press(_ name: String, control: Bool? = nil) async throws {
        try await act(.key(Shell.Screen.Key(name: name, control: control)))
    }

    /// Takes the next update; false at the end.
    @discardableResult func next() async throws -> Bool {
        guard let update = try await stream.receive() else { return false }
        try mirror.apply(update)
        if let state = update.state { states.append(state) }
        if let number = update.number, acknowledges { try await act(.shown(number)) }
        return true
    }

    /// Looks on until something is so.
    func until(_ isSo: (ScreenMirror) -> Bool) async throws {
        while !isSo(mirror) {
            guard try await next() else { throw KithError(.closed, "ended; the screen is:\n\(mirror.text)") }
        }
    }

    /// Looks on until `text` is on the screen.
    func until(_ text: String) async throws { try await until { $0.text.contains(text) } }

    /// Looks on to the end.
    func end() async throws -> Shell.Screen.Exit? {
        while try await next() {}
        return mirror.exit
    }

    /// The session's own terminal, as another client that only views is drawn it.
    func drawing(_ client: Client) async throws -> Terminal {
        let session = try await ShellSession.attach(
            Shell.Attach.Input(
                session: output.session, isInteractive: false,
                size: Shell.Size(columns: UInt16(mirror.columns), rows: UInt16(mirror.rows.count)), scrollback: 0),
            on: nil, client: client)
        defer { session.close() }
        var terminal = Terminal(columns: mirror.columns, rows: mirror.rows.count)
        while let event = try await session.next() {
            guard case .screen(let bytes) = event else { continue }
            terminal.feed(bytes)
            // In parts of 32 KiB: the last is shorter.
            if bytes.count < 32 << 10 { break }
        }
        return terminal
    }

    /// Looks on until the picture is that of the session's own terminal; returns how they differ, if they do.
    func difference(_ client: Client) async throws -> String? {
        let terminal = try await drawing(client)
        for _ in 0..<50 {
            guard let difference = mirror.difference(from: terminal, comparesScrollback: false) else { return nil }
            guard try await next() else { return difference }
        }
        return mirror.difference(from: terminal, comparesScrollback: false)
    }
}
