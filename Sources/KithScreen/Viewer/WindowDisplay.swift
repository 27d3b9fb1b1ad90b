package import KithAPI
import KithIO
package import KithPixels
package import KithWindow
import KithWire
import Synchronization

/// A session's picture in a window of its own, which `kith-viewer` has.
///
/// Pixels are decoded here and copied into memory that both processes see, of each change what is new; the next is copied
/// once the window has taken over the one before, so that no half of a picture is shown and none waits behind another.
package final class WindowDisplay: ScreenDisplay {
    /// What the window is for besides the screen.
    package struct Services: Sendable {
        /// Copies what was put on the window to the other device, and reports how far that is; returns what to say
        /// about it.
        package var copy: Copy
        /// The round trip in milliseconds, and the way to the other device.
        package var reach: @Sendable () async throws -> (roundTrip: Double?, path: String?)
        /// Takes the statistics of each second.
        package var report: @Sendable (WindowStatistics) -> Void

        /// Describes them.
        package init(
            copy: @escaping Copy,
            reach: @escaping @Sendable () async throws -> (roundTrip: Double?, path: String?),
            report: @escaping @Sendable (WindowStatistics) -> Void
        ) {
            self.copy = copy
            self.reach = reach
            self.report = report
        }
    }

    /// A copy of files and folders here.
    package typealias Copy =
        @Sendable (_ paths: [Files.Path], _ report: @escaping @Sendable (String) async throws -> Void) async throws ->
        String

    /// The most statistics, one a second, that a window may leave without an answer.
    private static let answerLimit = 5

    private typealias Fetch = @Sendable (ScreenClipboard.Format) async throws -> [UInt8]

    private struct State {
        /// What has changed since it was copied last.
        var changed = PixelRegion()
        /// The text of the clipboard here.
        var text: String?
        /// The clipboard there, to be fetched.
        var fetch: Fetch?
        var pointer: (shape: CursorShape?, x: Int, y: Int)?
        /// Something that was typed could not be sent.
        var hasLostInput = false
        /// Statistics that the window has not answered.
        var unanswered = 0
        var failure: KithError?
    }

    private let path: String
    private let environment: [String: String]
    private let options: WindowOptions
    private let services: Services
    private let state = Mutex(State())
    private let commands = BoundedQueue<WindowCommand>(capacity: 256)
    private let inputs = BoundedQueue<ScreenInput>(capacity: 1_024)
    private let drops = BoundedQueue<[Files.Path]>(capacity: 16)
    // Each says that there is something, once.
    private let pictures = BoundedQueue<Void>(capacity: 1)
    private let shown = BoundedQueue<Void>(capacity: 1)
    private let fetches = BoundedQueue<Void>(capacity: 1)

    /// Makes a display whose window the program at `path` opens.
    package init(
        _ options: WindowOptions, program path: String, environment: [String: String], services: Services
    ) {
        self.options = options
        self.path = path
        self.environment = environment
        self.services = services
    }

    /// The clipboard of the window's system: text.
    package var clipboard: ClipboardLink.Local {
        ClipboardLink.Local(
            read: { [self] _, format in
                guard format == .text, let text = state.withLock({ $0.text }) else {
                    throw KithError(.notFound, "There is no text on the clipboard.")
                }
                return Array(text.utf8)
            },
            announce: { [self] selection, formats, fetch in
                guard selection == .clipboard, formats.contains(.text) else { return }
                // Fetched by another task: the answer comes the way this did.
                state.withLock { $0.fetch = fetch }
                _ = fetches.offered(())
            })
    }

    // MARK: - What the session says

    package func handle(_ event: ScreenViewer.Event, of viewer: ScreenViewer) async throws {
        switch event {
        case .opened(let output):
            try await commands.send(.permissions(output.permissions))
            try await commands.send(.displays(output.displays, shown: output.display.number))
        case .picture(let region, _):
            state.withLock { $0.changed.formUnion(region) }
            _ = pictures.offered(())
        case .pointer:
            let (shape, position) = viewer.pointer
            let (x, y) = position ?? (0, 0)
            let former = state.withLock { state in
                defer { state.pointer = (shape, x, y) }
                return state.pointer
            }
            if former == nil || former?.shape != shape {
                try await commands.send(.pointer(shape.map { WindowCommand.Pointer($0) }))
            }
            if former?.x != x || former?.y != y { try await commands.send(.pointerMoved(x: x, y: y)) }
        case .displays(let displays, let shown): try await commands.send(.displays(displays, shown: shown))
        case .permissions(let permissions): try await commands.send(.permissions(permissions))
        case .control(let isInControl, let name): try await commands.send(.control(isInControl: isInControl, by: name))
        case .said(let line): try await commands.send(.said(line.text))
        }
    }

    package func phaseChanged(_ phase: SessionState.Phase) async {
        let shown: WindowCommand.Phase =
            switch phase {
            case .idle, .connecting: .connecting
            case .active: .active
            case .reconnecting: .reconnecting
            case .ended: .ended
            }
        // Cancelled: then nobody looks any more.
        try? await commands.send(.phase(shown))
    }

    // MARK: - The window

    package func run(_ viewer: ScreenViewer) async throws {
        let program = try WindowProgram(path, environment: environment)
        defer { program.end() }
        try await program.send(.open(options))
        try await withThrowingTaskGroup(of: Void.self) { group in
            let works: [@Sendable () async throws -> Void] = [
                { [self] in while let command = try await commands.receive() { try await program.send(command) } },
                { [self] in try await show(viewer, in: program) },
                { [self] in try await type(viewer) },
                { [self] in try await paste() },
                { [self] in try await copy() },
                { [self] in try await measure(viewer) },
            ]
            for work in works {
                group.addTask { [self] in
                    do {
                        try await work()
                    } catch let error as KithError where error.code != .closed {
                        state.withLock { $0.failure = error }
                        program.end()
                    } catch {
                        // The end of the window, which is told by what it says last.
                    }
                }
            }
            defer { group.cancelAll() }
            try await listen(to: program, viewer)
        }
    }

    /// Does what the window says until the person leaves.
    private func listen(to program: WindowProgram, _ viewer: ScreenViewer) async throws {
        while let event = try await program.next() {
            switch event {
            case .opened: break
            case .shown: _ = shown.offered(())
            case .responded:
                state.withLock { $0.unanswered = 0 }
                viewer.showing(true)
            case .input(let input): offer(input)
            case .display(let number): try await viewer.send(.show(display: number))
            case .quality(let quality): try await viewer.setQuality(min(max(quality, 1), 100))
            case .clipboard(let text):
                state.withLock { $0.text = text }
                viewer.offerClipboard(.clipboard, [.text])
            case .dropped(let paths):
                if !drops.offered(paths) {
                    try await commands.send(.notice("Nothing was copied: wait until what is copied now has arrived."))
                }
            case .said(let text):
                do {
                    try viewer.say(Screen.ChatLine(text))
                } catch {
                    try await commands.send(.notice("“\(text.prefix(40))” was not sent: \(error.message)"))
                }
            case .closed: return
            case .failed(let reason): throw KithError(.unsupported, reason)
            }
        }
        try Task.checkCancellation()
        throw state.withLock { $0.failure } ?? KithError(.internal, "kith-viewer ended by itself. Try again.")
    }

    /// Puts an input behind the others; one that finds no room is lost, and with the next all that is held is let go.
    private func offer(_ input: ScreenInput) {
        letGoOfLost()
        state.withLock { state in
            if state.hasLostInput || !inputs.offered(input) { state.hasLostInput = true }
        }
    }

    /// Has all that is held let go once an input was lost and there is room again.
    private func letGoOfLost() {
        state.withLock { state in
            if state.hasLostInput, inputs.offered(.release) { state.hasLostInput = false }
        }
    }

    private func show(_ viewer: ScreenViewer, in program: WindowProgram) async throws {
        var memory: SharedPicture?
        while try await pictures.receive() != nil {
            let changed = state.withLock { state in
                defer { state.changed = PixelRegion() }
                return state.changed
            }
            var next = memory
            var isNew = false
            try viewer.withPicture { picture in
                let size = picture.size
                guard size.area > 0 else { return }
                isNew = next?.size != size
                if isNew { next = try SharedPicture(size: size) }
                next?.update(isNew ? PixelRegion(size.bounds) : changed, from: picture)
            }
            guard let next else { continue }
            memory = next
            if isNew {
                try await program.send(
                    .picture(width: next.size.width, height: next.size.height), passing: next.descriptor)
            } else {
                let areas = changed.rectangles.map { $0.intersection(next.size.bounds) }.filter { !$0.isEmpty }
                try await program.send(.changed(areas.map { WindowCommand.Area($0) }))
            }
            _ = try await shown.receive()
        }
    }

    private func type(_ viewer: ScreenViewer) async throws {
        while let input = try await inputs.receive() {
            try await viewer.send(input)
            // There is room now, whether anything else comes or not.
            letGoOfLost()
        }
    }

    /// Brings the clipboard there here.
    private func paste() async throws {
        while try await fetches.receive() != nil {
            let fetch = state.withLock { state in
                defer { state.fetch = nil }
                return state.fetch
            }
            guard let fetch else { continue }
            do {
                let text = String(decoding: try await fetch(.text), as: UTF8.self)
                // A NUL would end it where C reads it.
                guard !text.isEmpty, !text.contains("\0") else { continue }
                state.withLock { $0.text = text }
                try await commands.send(.clipboard(text))
            } catch let error as KithError {
                try await commands.send(.notice("The clipboard there was not copied: \(error.message)"))
            }
        }
    }

    /// Copies the files that are put on the window, those of one time after those of another.
    private func copy() async throws {
        while let paths = try await drops.receive() {
            var outcome: String
            do {
                outcome = try await services.copy(paths) { [commands] in try await commands.send(.copying($0)) }
            } catch let error as KithError {
                outcome = error.message
            }
            try await commands.send(.copying(nil))
            try await commands.send(.notice(outcome))
        }
    }

    private func measure(_ viewer: ScreenViewer) async throws {
        var (former, time) = (viewer.traffic, ContinuousClock.now)
        while true {
            try await Task.sleep(for: .seconds(1))
            let (traffic, now) = (viewer.traffic, ContinuousClock.now)
            let seconds = (now - time) / .seconds(1)
            // While it is away nothing is known.
            let reach = try? await services.reach()
            let statistics = WindowStatistics(
                pictures: Double(traffic.pictures + traffic.frames - former.pictures - former.frames) / seconds,
                frames: Double(traffic.frames - former.frames) / seconds,
                bytes: Double(traffic.bytes - former.bytes) / seconds, roundTrip: reach?.roundTrip, path: reach?.path)
            (former, time) = (traffic, now)
            services.report(statistics)
            // One that stands still shows nothing, for which no screen is to stay dark.
            let unanswered = state.withLock { state in
                state.unanswered += 1
                return state.unanswered
            }
            if unanswered > Self.answerLimit { viewer.showing(false) }
            try await commands.send(.statistics(statistics))
        }
    }
}
