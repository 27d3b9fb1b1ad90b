import Foundation
import KithAPI
import KithBrowser
import KithContent
import KithPixels
import KithScreen
import KithTerminal
import KithWire
import Synchronization

/// A screen in a terminal: as a picture where the terminal shows pictures, else as half blocks.
///
/// It is drawn at most ten times a second and only when it has changed: what is between is not of use far away.
final class ScreenTerminal: ScreenDisplay {
    /// The time between two pictures.
    private static let pause = Duration.milliseconds(100)
    /// The time a terminal has to say whether it shows pictures.
    private static let graphicsPatience = Duration.seconds(2)
    /// The time an ESC waits for the rest of a key.
    private static let escapePatience = Duration.milliseconds(50)

    private enum Message: Sendable {
        case terminal(BrowserTerminal.Event)
        case time
    }

    private struct State {
        var phase = SessionState.Phase.connecting
        var takesInput = false
        /// Whether it is dark for whoever is in front of it.
        var isDark = false
        var picture: TerminalPicture?
        var graphics: GraphicsProtocol?
        /// The pixels of a cell.
        var cell: (width: Int, height: Int)?
        var mustRedraw = false
        var controller: String?
        /// The last line of the person there, and until when it is shown.
        var said: (text: String, ends: ContinuousClock.Instant)?

        mutating func permit(_ permissions: Screen.Permissions) {
            (takesInput, isDark) = (permissions.control, permissions.privacy == true)
        }
    }

    private let name: String
    private let terminal: BrowserTerminal
    private let state = Mutex(State())
    private let changes: AsyncStream<Void>
    private let change: AsyncStream<Void>.Continuation

    /// Makes a display on this process's terminal; `name` is the device's.
    ///
    /// - Throws: `KithError` `.invalid` when there is none.
    init(of name: String) throws {
        guard isatty(STDIN_FILENO) == 1, isatty(STDOUT_FILENO) == 1 else {
            throw KithError(.invalid, "--terminal needs a terminal, to draw on and to type into.")
        }
        self.name = name
        terminal = try BrowserTerminal(followsMouse: true)
        (changes, change) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    func handle(_ event: ScreenViewer.Event, of viewer: ScreenViewer) async throws {
        state.withLock { state in
            switch event {
            case .opened(let output): state.permit(output.permissions)
            case .permissions(let permissions): state.permit(permissions)
            case .control(let isInControl, let controller): state.controller = isInControl ? nil : controller
            case .said(let line): state.said = (line.text, .now + Screen.ChatLine.shownFor)
            case .picture, .pointer, .displays: break
            }
        }
        change.yield()
    }

    func phaseChanged(_ phase: SessionState.Phase) async {
        state.withLock { $0.phase = phase }
        change.yield()
    }

    func run(_ viewer: ScreenViewer) async throws {
        try await terminal.enter()
        defer { terminal.leave() }
        let asked = ContinuousClock.now
        if BrowserTerminal.mayShowPictures { try await terminal.write(GraphicsQuery.question) }
        let (messages, mailbox) = AsyncStream.makeStream(of: Message.self, bufferingPolicy: .bufferingOldest(4_096))
        try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask { [self] in
                await terminal.readInput { mailbox.yield(.terminal($0)) }
                return false
            }
            group.addTask { [self] in
                await terminal.readSignals { mailbox.yield(.terminal($0)) }
                return false
            }
            group.addTask { [self] in
                try await draw(viewer)
                return false
            }
            group.addTask { [self] in
                try await follow(messages, mailbox, viewer, asked: asked)
                return true
            }
            defer { group.cancelAll() }
            while let isOver = try await group.next(), !isOver {}
        }
    }

    // MARK: - What is typed

    /// Handles what the terminal reports, until the person leaves or the terminal is gone.
    private func follow(
        _ messages: AsyncStream<Message>, _ mailbox: AsyncStream<Message>.Continuation, _ viewer: ScreenViewer,
        asked: ContinuousClock.Instant
    ) async throws {
        var decoder = InputDecoder()
        var query = GraphicsQuery()
        var input = TerminalInput()
        if !BrowserTerminal.mayShowPictures { query.timedOut() }
        for await message in messages {
            let events: [InputEvent]
            switch message {
            case .terminal(.typed(let bytes)):
                take(bytes, &query, asked: asked)
                events = decoder.decode(bytes)
            case .time: events = decoder.isWaiting ? decoder.timedOut() : []
            case .terminal(.ended): return
            case .terminal(.resized):
                change.yield()
                continue
            case .terminal(.stopped):
                try await terminal.suspend()
                redraw()
                continue
            case .terminal(.continued):
                // Whoever had the terminal meanwhile left it as he liked.
                try await terminal.enter()
                redraw()
                continue
            }
            for event in events {
                if TerminalInput.leaves(event) { return }
                let (picture, mayType) = state.withLock { ($0.picture, $0.takesInput && $0.phase == .active) }
                guard mayType else { continue }
                for input in input.inputs(for: event, on: picture) { try await viewer.send(input) }
            }
            if decoder.isWaiting {
                Task(name: "kith screen escape") {
                    try? await Task.sleep(for: Self.escapePatience)  // nobody cancels it
                    mailbox.yield(.time)
                }
            }
        }
    }

    private func take(_ bytes: [UInt8], _ query: inout GraphicsQuery, asked: ContinuousClock.Instant) {
        guard !query.isDone else { return }
        if .now - asked > Self.graphicsPatience { query.timedOut() }
        query.take(bytes)
        guard query.isDone, let answer = query.answer else { return }
        // kitty scales by itself; sixels have to fit.
        guard let cell = query.cell ?? terminal.cell ?? (answer == .kitty ? (8, 16) : nil) else { return }
        state.withLock { ($0.graphics, $0.cell) = (answer, cell) }
        redraw()
    }

    private func redraw() {
        state.withLock { $0.mustRedraw = true }
        change.yield()
    }

    // MARK: - What is shown

    private func draw(_ viewer: ScreenViewer) async throws {
        var canvas = Canvas(columns: 80, rows: 24)
        var renderer = CanvasRenderer(colors: BrowserTerminal.colors, isASCII: BrowserTerminal.isASCII)
        var screen: GraphicsScreen?
        change.yield()
        for await _ in changes {
            let (now, size) = (
                state.withLock { state in
                    defer { state.mustRedraw = false }
                    return state
                }, terminal.size
            )
            if now.mustRedraw { renderer.invalidate() }
            if screen == nil, let graphics = now.graphics { screen = GraphicsScreen(graphics) }
            canvas.clear(columns: size.columns, rows: size.rows)
            let shown = viewer.withPicture { picture -> (TerminalPicture, Picture)? in
                guard picture.size.area > 0, size.rows > 1 else { return nil }
                let place = TerminalPicture(
                    picture.size, columns: canvas.columns, rows: canvas.rows - 1, cell: now.cell ?? (1, 2),
                    scales: now.graphics == .kitty)
                return (place, place.draw(picture))
            }
            state.withLock { $0.picture = shown?.0 }
            var placed: GraphicsScreen.Placed?
            if let (place, picture) = shown {
                if now.graphics == nil {
                    picture.draw(on: &canvas, column: 0, row: 0)
                } else {
                    placed = GraphicsScreen.Placed(
                        TerminalImage(width: picture.width, height: picture.height, pixels: picture.pixels), column: 0,
                        row: 0, columns: place.columns, rows: place.rows)
                }
            }
            let style = TextStyle(.standard, on: .standard, .inverse)
            canvas.fill(columns: 0..<canvas.columns, rows: canvas.rows - 1..<canvas.rows, style)
            canvas.write(status(now, viewer), column: 1, row: canvas.rows - 1, style)
            let isRedrawn = renderer.isInvalid
            try await terminal.write(renderer.draw(canvas))
            if let bytes = screen?.show(placed, isRedrawn: isRedrawn) { try await terminal.write(bytes) }
            guard (try? await Task.sleep(for: Self.pause)) != nil else { break }  // it is over
        }
        // What the terminal keeps is taken out of it; one that is gone has nothing.
        if let bytes = screen?.clear() { try? await terminal.write(bytes) }
    }

    private func status(_ state: State, _ viewer: ScreenViewer) -> String {
        let size = viewer.withPicture { $0.size }
        if let said = state.said, said.ends > .now { return "\(printable(name)) says: \(said.text)" }
        let news: String =
            switch state.phase {
            case .active where size.area == 0: "waits for the picture"
            case .active where state.controller != nil: "\(state.controller ?? "somebody else") controls it"
            case .active:
                "\(size.width)×\(size.height)" + (state.takesInput ? "" : ", to look at")
                    + (state.isDark ? ", dark there" : "")
            case .connecting: "connects; a person there may be asked"
            case .ended: "is over"
            default: "connects again"
            }
        return "ctrl+] leaves · \(printable(name)) \(news)"
    }
}
