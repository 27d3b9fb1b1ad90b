import KithAPI
import KithIO
import KithNode
import KithPixels
import KithRFB
import KithWire
import Synchronization

/// One viewer of an ``RFBDisplay``: its connection and its encoder.
///
/// One task reads and has inputs take effect, one writes. A picture is encoded when all that was encoded before is with
/// the socket, so that a slow viewer gets the newest one and nothing is queued for it.
final class RFBViewer: Sendable {
    /// The time after the last change at which what was sent as JPEG is sent exactly.
    private static let rest = Duration.milliseconds(300)
    /// The time a viewer may take nothing of what is sent.
    private static let writePatience = Duration.seconds(60)
    private static let part = 64 << 10

    private struct State: ~Copyable {
        var server: RFBServer
        var input = RFBViewerInput()
        var bounds: RFBRectangle
        var screens: [RFBScreen]
        var isAdmitted = false
        var failure: RFBError?
        var isRestScheduled = false
        var fetch: Promise<Result<RFBClipboard, KithError>>?
    }

    /// What is to be told to the encoder; whoever notes it does not wait for a picture that is being encoded.
    private struct Pending {
        var damage = RFBRegion()
        var cursor: RFBCursor?
        /// Where the pointer was and is, for a viewer that does not draw it.
        var pointer = RFBRegion()
        var name: String?
        var clipboard: RFBClipboard?
    }

    let number: UInt64
    /// Where it comes from, for a person.
    let place: String
    private let socket: StreamSocket
    private let state: Mutex<State>
    private let pending = Mutex(Pending())
    private let lastChange = Mutex(ContinuousClock.now)
    private let signals: AsyncStream<Void>
    private let signal: AsyncStream<Void>.Continuation
    private let rooms: AsyncStream<Void>
    private let room: AsyncStream<Void>.Continuation

    init(_ number: UInt64, _ place: String, _ socket: StreamSocket, _ server: consuming RFBServer) {
        self.number = number
        self.place = place
        self.socket = socket
        let (bounds, screens) = (server.bounds, server.screens)
        state = Mutex(State(server: server, bounds: bounds, screens: screens))
        (signals, signal) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
        (rooms, room) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// True once it has proved itself.
    var isAdmitted: Bool { state.withLock { $0.isAdmitted } }

    // MARK: - What it is told

    /// Notes that the picture has changed.
    func changed(_ rectangles: [RFBRectangle]) {
        lastChange.withLock { $0 = .now }
        note { pending in for rectangle in rectangles { pending.damage.insert(rectangle) } }
    }

    /// Gives the pointer a shape, which is drawn at `places` for a viewer that does not draw it.
    func pointerChanged(_ cursor: RFBCursor, in places: [RFBRectangle]) {
        note { pending in
            pending.cursor = cursor
            for place in places { pending.pointer.insert(place) }
        }
    }

    /// Gives the desktop another name.
    func rename(_ name: String) { note { $0.name = name } }

    /// Offers the clipboard of the screen.
    func offer(_ contents: RFBClipboard) { note { $0.clipboard = contents } }

    private func note(_ body: (inout Pending) -> Void) {
        pending.withLock { body(&$0) }
        signal.yield()
    }

    /// Asks for what it has offered.
    func fetch(_ formats: RFBClipboardFormats) async throws -> RFBClipboard {
        let promise = state.withLock { state in
            let promise = state.fetch ?? Promise()
            state.fetch = promise
            state.server.requestClipboard(formats)
            return promise
        }
        signal.yield()
        return try await withDeadline(.seconds(10)) { try await promise.valueUnlessCancelled().get() }
    }

    // MARK: - Its life

    /// The way one of the two tasks ended.
    private enum Ending: Sendable {
        case left
        case failed(RFBError)
        case broken
    }

    /// Serves it until it goes; returns what it did wrong, if anything.
    func run(_ display: RFBDisplay, _ session: ScreenViewer) async -> RFBError? {
        let failure = await withTaskGroup(of: Ending.self) { group -> RFBError? in
            group.addTask { await self.read(display, session) }
            group.addTask { await self.write(display) }
            guard case .failed(let error)? = await group.next() else {
                group.cancelAll()
                return nil
            }
            // It is told the reason, if it takes it.
            signal.finish()
            let patience = display.timers.schedule(at: .now + .seconds(2)) { [socket] in socket.abort(.closed) }
            _ = await group.next()
            display.timers.cancel(patience)
            return error
        }
        let (held, fetch) = state.withLock { state in
            var inputs: [ScreenInput] = []
            for event in state.server.releaseInput() { inputs += state.input.inputs(for: event) }
            return (inputs, state.fetch.take())
        }
        fetch?.fulfil(.failure(KithError(.closed, "The viewer that copied it is gone.")))
        // Nothing that it held stays pressed.
        if display.takesInput { for input in held { try? await session.send(input) } }
        return failure
    }

    private func read(_ display: RFBDisplay, _ session: ScreenViewer) async -> Ending {
        do {
            var rooms = rooms.makeAsyncIterator()
            while true {
                let next = try await handleEvents(display, session)
                if next.isCongested {
                    guard await rooms.next() != nil else { return .left }
                    continue
                }
                if let pause = next.pause {
                    try await Task.sleep(until: pause, clock: .continuous)
                    continue
                }
                let bytes: [UInt8]?
                do {
                    bytes = try await withDeadline(next.deadline) { [socket] in try await socket.read(upTo: Self.part) }
                } catch let error as KithError where error.code == .timedOut {
                    continue
                }
                guard let bytes else { return .left }
                try state.withLock { state throws(RFBError) in try state.server.receive(bytes) }
            }
        } catch let error as RFBError {
            state.withLock { $0.failure = error }
            signal.yield()
            return .failed(error)
        } catch {
            return .broken
        }
    }

    private func handleEvents(
        _ display: RFBDisplay, _ session: ScreenViewer
    ) async throws -> (isCongested: Bool, pause: ContinuousClock.Instant?, deadline: ContinuousClock.Instant?) {
        while let event = try state.withLock({ state throws(RFBError) in
            try state.server.nextEvent(at: .now)
        }) {
            switch event {
            case .connected:
                state.withLock { $0.isAdmitted = true }
                display.admitted(self)
            case .clipboard(let event): received(event, display, session)
            case .resizeRequested: state.withLock { $0.server.answerDesktopSize(.prohibited) }
            case .key, .pointer:
                let inputs = state.withLock { $0.input.inputs(for: event) }
                guard display.takesInput else { break }
                for input in inputs { try await session.send(input) }
            }
        }
        signal.yield()
        return state.withLock { ($0.server.isCongested, $0.server.resumesAt, $0.server.nextDeadline) }
    }

    private func received(_ event: RFBClipboardEvent, _ display: RFBDisplay, _ session: ScreenViewer) {
        switch event {
        case .offered(let formats): display.copied(nil, formats, by: self, session)
        case .received(let contents):
            let fetch = state.withLock { $0.fetch.take() }
            fetch?.fulfil(.success(contents))
            if fetch == nil { display.copied(contents, contents.formats, by: self, session) }
        case .refused:
            let fetch = state.withLock { $0.fetch.take() }
            fetch?.fulfil(.failure(KithError(.exhausted, "The viewer's clipboard has more than 10 MB.")))
        }
    }

    private func write(_ display: RFBDisplay) async -> Ending {
        do {
            for await _ in signals {
                while true {
                    let bytes = nextBytes(display)
                    if bytes.isEmpty { break }
                    var start = 0
                    while start < bytes.count {
                        let part = Array(bytes[start..<min(start + Self.part, bytes.count)])
                        try await withDeadline(Self.writePatience) { [socket] in try await socket.write(part) }
                        start += part.count
                    }
                    room.yield()
                }
                if state.withLock({ $0.failure != nil }) {
                    try await socket.finish()
                    // One that is closed while something waits to be read may lose the reason on its way.
                    while try await socket.read(upTo: Self.part) != nil {}
                    break
                }
            }
        } catch {
            return .broken
        }
        return .left
    }

    /// What is to be written next; none while there is nothing new, or the viewer has not asked.
    private func nextBytes(_ display: RFBDisplay) -> [UInt8] {
        let picture = display.state.withLock { $0.picture }
        return state.withLock { state in
            let waiting = state.server.takeOutput()
            guard waiting.isEmpty, state.failure == nil else { return waiting }
            update(&state, picture)
            let restBegins = lastChange.withLock { $0 } + Self.rest
            let isAtRest = restBegins <= .now
            if state.server.isUpdateDue || isAtRest && !state.server.lossy.isEmpty {
                let frame = state.server.drawsCursor ? picture.frame : picture.frameWithPointer
                state.server.update(from: frame, isExact: isAtRest)
            }
            if !isAtRest, !state.server.lossy.isEmpty, !state.isRestScheduled {
                state.isRestScheduled = true
                _ = display.timers.schedule(at: restBegins) { [weak self] in
                    self?.state.withLock { $0.isRestScheduled = false }
                    self?.signal.yield()
                }
            }
            return state.server.takeOutput()
        }
    }

    /// Brings the encoder to the picture that is there.
    private func update(_ state: inout State, _ picture: RFBPicture) {
        let (bounds, screens) = (picture.frame.bounds, picture.screens)
        if bounds != state.bounds || screens != state.screens {
            do {
                try state.server.resize(width: bounds.width, height: bounds.height, screens: screens)
            } catch {
                // No encoder has a picture of that size: the viewer goes.
                state.failure = error
                return socket.abort(.closed)
            }
            (state.bounds, state.screens) = (bounds, screens)
        }
        let pending = pending.withLock { pending in
            defer { pending = Pending() }
            return pending
        }
        for rectangle in pending.damage.rectangles { state.server.changed(rectangle) }
        if let cursor = pending.cursor { state.server.setCursor(cursor) }
        if state.server.isRunning, !state.server.drawsCursor {
            for place in pending.pointer.rectangles { state.server.changed(place) }
        }
        if let name = pending.name { state.server.setName(name) }
        // One that is too large is not offered: there is nobody to tell.
        if let clipboard = pending.clipboard { try? state.server.offerClipboard(clipboard) }
    }
}
