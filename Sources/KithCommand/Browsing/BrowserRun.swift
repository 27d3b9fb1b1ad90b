import Foundation
import KithAPI
import KithBrowser
import KithContent
import KithTerminal

/// Work that can be cancelled, and whose end can be waited for.
final class CancellableWork: Sendable {
    private let calls = AsyncStream.makeStream(of: Void.self)
    private let ends = AsyncStream.makeStream(of: Void.self)

    /// Does the work until it is done or cancelled.
    func run(_ work: @escaping @Sendable () async -> Void) async {
        await withTaskGroup { group in
            group.addTask { await work() }
            group.addTask { [calls] in for await _ in calls.stream {} }
            await group.next()
            group.cancelAll()
        }
        ends.continuation.finish()
    }

    /// Cancels it; does not wait.
    func cancel() { calls.continuation.finish() }

    /// Waits until it is done.
    func end() async { for await _ in ends.stream {} }
}

/// `kith browse` at work: reports what happens to the browser, and does what it asks.
struct BrowserRun {
    let client: Client
    let terminal: BrowserTerminal

    /// The reason the loop ends.
    private enum Ending {
        case quit
        case failed(any Error)
    }

    func run(_ options: Browser.Options) async throws {
        let size = terminal.size
        var browser = Browser(options, columns: size.columns, rows: size.rows, at: .now)
        var canvas = Canvas(columns: size.columns, rows: size.rows)
        var renderer = CanvasRenderer(colors: BrowserTerminal.colors, isASCII: BrowserTerminal.isASCII)
        var decoder = InputDecoder()
        var query = GraphicsQuery()
        var screen: GraphicsScreen?
        /// Of a terminal whose cells have a known size; kitty scales by itself.
        var cellSize: (width: Int, height: Int)?
        let mailbox = BrowserMailbox()
        let work = BrowserWork(client: client) { mailbox.put(.event($0)) }
        var tasks: [Ticket: CancellableWork] = [:]
        var lastTyped = ContinuousClock.now
        var scheduled: ContinuousClock.Instant?
        var failure: (any Error)?

        try await terminal.enter()
        defer { terminal.leave() }
        let asked = ContinuousClock.now
        if BrowserTerminal.mayShowPictures {
            try await terminal.write(GraphicsQuery.question)
        } else {
            query.timedOut()
        }
        await withDiscardingTaskGroup { group in
            defer { group.cancelAll() }
            var keys = CancellableWork()
            func listen() {
                keys = CancellableWork()
                group.addTask { [keys, terminal] in
                    await keys.run { await terminal.readInput { mailbox.put(.terminal($0)) } }
                }
            }
            listen()
            group.addTask { [terminal] in await terminal.readSignals { mailbox.put(.terminal($0)) } }

            /// Does one thing the browser asks for; returns whether to go on.
            func perform(_ effect: Browser.Effect) async throws -> Bool {
                switch effect {
                case .quit: return false
                case .redraw: renderer.invalidate()
                case .cancel(let ticket): tasks.removeValue(forKey: ticket)?.cancel()
                case .suspend:
                    try await terminal.suspend()
                    renderer.invalidate()
                    mailbox.put(.terminal(.resized))
                case .edit(let ticket, let device, let path):
                    // The keys are the editor's until it ends.
                    keys.cancel()
                    await keys.end()
                    terminal.leave()
                    await work.edit(ticket, device: device, path)
                    try await terminal.enter()
                    renderer.invalidate()
                    mailbox.put(.terminal(.resized))
                    listen()
                default:
                    guard let ticket = effect.ticket else { break }
                    let task = CancellableWork()
                    tasks[ticket] = task
                    group.addTask { await task.run { await work.perform(effect, ticket) } }
                }
                return true
            }

            /// Handles one event; returns whether to go on.
            func handle(_ event: Browser.Event) async throws -> Bool {
                if case .ended(let ticket, _) = event { tasks[ticket] = nil }
                for effect in browser.handle(event, at: .now) {
                    guard try await perform(effect) else { return false }
                }
                return true
            }

            /// Handles what has come; returns whether to go on.
            func handle(_ messages: [BrowserMailbox.Message]) async throws -> Bool {
                for message in messages {
                    switch message {
                    case .event(let event): guard try await handle(event) else { return false }
                    case .terminal(.typed(let bytes)):
                        lastTyped = .now
                        if !query.isDone {
                            if .now - asked > Self.graphicsPatience { query.timedOut() }
                            query.take(bytes)
                            if query.isDone, let answer = query.answer, let cell = cell(query, answer) {
                                screen = GraphicsScreen(answer)
                                browser.showsPictures = true
                                browser.cellAspect = Double(cell.height) / Double(cell.width)
                                if answer == .sixel { cellSize = cell }
                            }
                        }
                        for event in decoder.decode(bytes) {
                            guard try await handle(.input(event)) else { return false }
                        }
                    case .terminal(.ended): return false
                    case .terminal(.resized):
                        let size = terminal.size
                        guard try await handle(.resized(columns: size.columns, rows: size.rows)) else { return false }
                    case .terminal(.stopped):
                        guard try await perform(.suspend) else { return false }
                    case .terminal(.continued):
                        // Whoever had the terminal meanwhile left it as he liked.
                        try await terminal.enter()
                        renderer.invalidate()
                        mailbox.put(.terminal(.resized))
                    case .time:
                        scheduled = nil
                        if decoder.isWaiting, .now - lastTyped >= Self.escapePatience {
                            for event in decoder.timedOut() {
                                guard try await handle(.input(event)) else { return false }
                            }
                        }
                        guard try await handle(.timePassed) else { return false }
                    }
                }
                browser.draw(on: &canvas)
                let picture = browser.picture.map { placed($0, cell: cellSize) }
                if screen?.needsRedraw(for: picture) == true { renderer.invalidate() }
                let isRedrawn = renderer.isInvalid
                try await terminal.write(renderer.draw(canvas))
                if let bytes = screen?.show(picture, isRedrawn: isRedrawn) { try await terminal.write(bytes) }
                let escape = decoder.isWaiting ? lastTyped + Self.escapePatience : nil
                if let deadline = [browser.deadline, escape].compactMap(\.self).min(),
                    scheduled.map({ deadline < $0 }) ?? true
                {
                    scheduled = deadline
                    group.addTask {
                        // Ends early only when all is over.
                        try? await Task.sleep(until: deadline, clock: .continuous)
                        mailbox.put(.time)
                    }
                }
                return true
            }

            do {
                for effect in browser.begin() { guard try await perform(effect) else { return } }
                mailbox.put(.time)
                for await _ in mailbox.signals {
                    guard try await handle(mailbox.takeAll()) else { return }
                }
            } catch {
                failure = error
            }
        }
        // What the terminal keeps is taken out of it; one that is gone has nothing.
        if let bytes = screen?.clear() { try? await terminal.write(bytes) }
        if let failure { throw failure }
    }

    /// The pixels of a cell, where pictures can be shown; kitty scales them, sixels have to fit.
    private func cell(_ query: GraphicsQuery, _ answer: GraphicsProtocol) -> (width: Int, height: Int)? {
        query.cell ?? terminal.cell ?? (answer == .kitty ? (1, 2) : nil)
    }

    /// A picture for the terminal, in no more pixels than its cells have.
    private func placed(_ placed: PlacedPicture, cell: (width: Int, height: Int)?) -> GraphicsScreen.Placed {
        var picture = placed.picture
        if let cell { picture = picture.scaled(width: placed.columns * cell.width, height: placed.rows * cell.height) }
        return GraphicsScreen.Placed(
            TerminalImage(width: picture.width, height: picture.height, pixels: picture.pixels),
            column: placed.column, row: placed.row, columns: placed.columns, rows: placed.rows)
    }

    /// The time a terminal has to say whether it shows pictures: over a slow line, too, and long before anybody looks.
    private static let graphicsPatience = Duration.seconds(2)
    /// The time an ESC waits for the rest of a key.
    private static let escapePatience = Duration.milliseconds(50)
}

extension Browser.Effect {
    /// The request, if it is one.
    var ticket: Ticket? {
        switch self {
        case .list(let ticket, _), .listDevices(let ticket), .search(let ticket, _, _), .describe(let ticket, _, _),
            .preview(let ticket, _, _, _), .read(let ticket, _, _, _, _), .compare(let ticket, _),
            .copy(let ticket, _), .makeFolder(let ticket, _, _), .move(let ticket, _, _, _),
            .delete(let ticket, _, _), .edit(let ticket, _, _):
            ticket
        case .cancel, .suspend, .redraw, .quit: nil
        }
    }
}
