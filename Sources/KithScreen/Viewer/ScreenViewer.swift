package import KithAPI
import KithIO
package import KithPixels
import KithVideo
package import KithWire
import Synchronization

/// A session with another device's screen, as its viewer has it: the picture, the pointer, and a way to type and point.
///
/// ``run(_:)`` is one connection, from the request to the end. Whoever shows the picture reads it when it is told of a
/// change, as often as it likes; input does not wait for it.
package final class ScreenViewer: Sendable {
    /// The choices of a session.
    package struct Options: Sendable {
        /// The number of the display; `nil`: all of them together.
        package var display: UInt32?
        /// Pictures a second, at most 1…240.
        package var rate: UInt16 = 60
        /// The quality of what moves, 1…100.
        package var quality: UInt8 = 80
        /// What is asked for besides seeing.
        package var wants = Screen.Permissions()
        /// Whether what moves may come as video; false: all changes come exactly.
        package var takesVideo = VideoCodec.isAvailable
        /// Whether lines of the person there can be read here.
        package var readsChat = false
        /// The most pixels a host may make this end hold.
        package var areaLimit = 1 << 25

        /// Sees all displays.
        package init() {}
    }

    /// What happens in a session.
    package enum Event: Sendable {
        /// It has begun, or begun again.
        case opened(Screen.View.Output)
        /// The picture has changed there; `isExact` says that it equals the host's bit for bit.
        case picture(PixelRegion, isExact: Bool)
        /// The pointer has another shape or place.
        case pointer
        /// The displays, and the one that is shown.
        case displays([Screen.Display], shown: UInt32)
        /// What the session may do now.
        case permissions(Screen.Permissions)
        /// Whether input has an effect, and who is in control instead.
        case control(Bool, by: String?)
        /// The person at the screen wrote a line.
        case said(Screen.ChatLine)
    }

    private struct State: ~Copyable {
        var decoder: TileDecoder
        var pointer = CursorReceiver()
        var parts: [UInt8] = []
        /// When the first of them came.
        var firstPart: UInt64?
        var session: Screen.View.Output?
        /// The display that is shown, or was when the session was lost.
        var shown: UInt32?
        /// The display that a person chose, until the host shows one.
        var chosen: UInt32?
        /// The quality of what moves, 1…100.
        var quality: UInt8
        /// Whether what shows the picture answers; while it does not, the last confirmation waits here.
        var isShown = true
        var unconfirmed: ScreenReply?
        var traffic = Traffic()
    }

    private let client: Client
    private let device: String?
    private let options: Options
    private let state: Mutex<State>
    private let inputs = BoundedQueue<ScreenInput>(capacity: 1_024)
    private let replies = BoundedQueue<ScreenReply>(capacity: 256)
    private let lines = BoundedQueue<Screen.ChatLine>(capacity: 32)
    private let mayWrite = Mutex(false)
    /// The clipboard of this end, when it is exchanged.
    private let clipboard: ClipboardLink.Local?
    private let link = Mutex<ClipboardLink?>(nil)

    /// Makes a viewer of `device`; `nil`: this device.
    package init(_ client: Client, of device: String?, options: Options, clipboard: ClipboardLink.Local? = nil) {
        self.client = client
        self.device = device
        self.options = options
        self.clipboard = clipboard
        state = Mutex(State(decoder: TileDecoder(areaLimit: options.areaLimit), quality: options.quality))
    }

    // MARK: - What is seen

    /// Gives the picture to `body`; it has no pixels before the first event.
    package func withPicture<Result>(_ body: (borrowing PixelView) throws -> Result) rethrows -> Result {
        try state.withLock { state in try body(state.decoder.picture.view) }
    }

    /// The pointer: its shape, `nil` when it is hidden, and the place of its hot spot.
    package var pointer: (shape: CursorShape?, position: (x: Int, y: Int)?) {
        state.withLock { ($0.pointer.shape, $0.pointer.position) }
    }

    /// The session, once it has begun.
    package var session: Screen.View.Output? { state.withLock { $0.session } }

    /// What came since the beginning.
    package struct Traffic: Hashable, Sendable {
        /// Changes of the picture.
        package var pictures: UInt64 = 0
        /// Frames of video.
        package var frames: UInt64 = 0
        /// The bytes of all of them.
        package var bytes: UInt64 = 0
    }

    /// What came since the beginning.
    package var traffic: Traffic { state.withLock { $0.traffic } }

    // MARK: - What is done

    /// Types or points; waits only when the host takes nothing.
    ///
    /// Without effect while the session may not control.
    package func send(_ input: ScreenInput) async throws {
        guard state.withLock({ $0.session?.permissions.control ?? false }) else { return }
        try await inputs.send(input)
    }

    /// Has what moves come in another quality, 1…100; what rests is exact at any.
    package func setQuality(_ quality: UInt8) async throws {
        state.withLock { $0.quality = quality }
        try await send(.limits(rate: options.rate, quality: quality))
    }

    /// Says something about the pictures.
    package func send(_ reply: ScreenReply) async throws {
        if case .show(let number) = reply { state.withLock { $0.chosen = number } }
        try await replies.send(reply)
    }

    /// Takes in whether what shows the picture answers: while it does not, the host is not told that pictures are seen.
    package func showing(_ isShown: Bool) {
        let reply = state.withLock { state in
            state.isShown = isShown
            return isShown ? state.unconfirmed.take() : nil
        }
        if let reply { _ = replies.offered(reply) }
    }

    /// Tells the host of a picture that has come; those that do not fit are of no use: later ones say the same.
    private func confirm(_ reply: ScreenReply) {
        let isShown = state.withLock { state in
            state.unconfirmed = state.isShown ? nil : reply
            return state.isShown
        }
        if isShown { _ = replies.offered(reply) }
    }

    /// Writes a line to the person at the screen.
    ///
    /// - Throws: `KithError` `.unsupported` when the device there knows nothing of lines, `.exhausted` when it takes none
    ///   for the moment.
    package func say(_ line: Screen.ChatLine) throws(KithError) {
        guard mayWrite.withLock({ $0 }) else {
            throw KithError(.unsupported, "Nobody there can be written to now.")
        }
        guard lines.offered(line) else { throw KithError(.exhausted, "That was too much at once. Wait a little.") }
    }

    /// Offers what is on the clipboard here.
    package func offerClipboard(_ selection: ScreenClipboard.Selection, _ formats: [ScreenClipboard.Format]) {
        link.withLock { $0 }?.offer(selection, formats)
    }

    // MARK: - The session

    /// Opens the session and follows it to its end; called again, it goes on where it was lost.
    ///
    /// - Throws: `KithError`: why it did not begin, or ended other than by this end's leaving.
    package func run(_ handle: @escaping @Sendable (Event) async throws -> Void) async throws {
        // What was typed while nothing could be seen is not typed later.
        _ = inputs.removeAll()
        let (former, shown, chosen, quality) = state.withLock {
            ($0.session?.session, $0.shown, $0.chosen, $0.quality)
        }
        let opened = try await client.open(
            Screen.View.self,
            .init(
                display: chosen ?? shown ?? options.display, rate: options.rate, quality: quality,
                wants: options.wants,
                resumes: former, takesVideo: options.takesVideo ? true : nil), on: device)
        let output = opened.output
        state.withLock { state in
            state.session = output
            state.parts = []
            state.firstPart = nil
            state.unconfirmed = nil
            state.pointer = CursorReceiver()
        }
        // A session that goes on shows the display it was for; what was chosen meanwhile is said anew.
        if former != nil, let chosen, chosen != output.display.number { _ = replies.offered(.show(display: chosen)) }
        try await handle(.opened(output))
        try await withThrowingTaskGroup(of: Void.self) { group in
            let (stream, began) = (opened.stream, ContinuousClock.now)
            group.addTask { [self] in
                try await receive(stream, since: began, handle)
                throw Finished()
            }
            group.addTask { [self] in
                while let reply = try await replies.receive() { try await stream.send(reply) }
            }
            if output.permissions.control { group.addTask { [self] in try await control(output.session, handle) } }
            if output.permissions.clipboard, let clipboard {
                group.addTask { [self] in try await exchange(clipboard, output.session) }
            }
            if options.readsChat { group.addTask { [self] in try await chat(output.session, handle) } }
            defer {
                group.cancelAll()
                // Who leaves says so at once: the host lets go of what is held.
                stream.abort(.cancelled)
            }
            do {
                while let _ = try await group.next() {}
            } catch is Finished {}
        }
    }

    /// The end of the pictures, which is the session's.
    private struct Finished: Error {}

    private func receive(
        _ stream: MethodStream<ScreenUpdate, ScreenReply>, since began: ContinuousClock.Instant,
        _ handle: @Sendable (Event) async throws -> Void
    ) async throws {
        var video = VideoReceiver(options.takesVideo ? VideoCodec.decoder() : nil)
        while let update = try await stream.receive() {
            switch update {
            case .video(let part):
                let now = UInt64((ContinuousClock.now - began) / .microseconds(1))
                state.withLock { $0.traffic.bytes += UInt64(part.bytes.bytes.count) }
                guard let frame = try video.received(part, on: screenSize, at: now) else { continue }
                confirm(.received(number: part.number, first: frame.first, last: now))
                if let region = try draw(frame.layout, from: video.planes) {
                    try await handle(.picture(region, isExact: false))
                }
                // One that does not fit is asked for again with the next frame.
                if let request = frame.request, replies.offered(request) { video.requested() }
            case .picture(let picture):
                let now = UInt64((ContinuousClock.now - began) / .microseconds(1))
                guard let (region, first) = try decode(picture, at: now) else { continue }
                confirm(.received(number: picture.number, first: first, last: now))
                try await handle(.picture(region, isExact: picture.isExact))
            case .cursor(let message):
                let isChanged = try state.withLock { state in
                    do {
                        return try state.pointer.received(message.bytes)
                    } catch {
                        throw KithError(.invalid, "The other device sent a pointer that makes no sense.", cause: error)
                    }
                }
                if isChanged { try await handle(.pointer) }
            case .displays(let displays, let shown):
                state.withLock { state in
                    state.shown = shown
                    state.chosen = nil
                }
                try await handle(.displays(displays, shown: shown))
            case .permissions(let permissions):
                state.withLock { $0.session?.permissions = permissions }
                try await handle(.permissions(permissions))
            case .ended(let code, let message): throw KithError(code, message, cause: EndedByHost())
            }
        }
    }

    private var screenSize: PixelSize { state.withLock { $0.decoder.picture.size } }

    /// Draws a frame of video; `nil` when nothing changes by it.
    private func draw(_ layout: VideoLayout?, from planes: borrowing PlanarBuffer) throws(KithError) -> PixelRegion? {
        guard let layout else { return nil }
        return try state.withLock { state throws(KithError) in
            do {
                let region = try state.decoder.draw(layout, from: planes)
                state.traffic.frames += 1
                return region.isEmpty ? nil : region
            } catch {
                throw KithError(.invalid, "The other device sent video that makes no sense.", cause: error)
            }
        }
    }

    /// Draws a change, once all of its parts are there; `nil` before.
    private func decode(
        _ picture: ScreenUpdate.Picture, at now: UInt64
    ) throws -> (changed: PixelRegion, first: UInt64)? {
        try state.withLock { state throws(KithError) in
            let first = state.firstPart ?? now
            state.firstPart = picture.continues ? first : nil
            state.traffic.bytes += UInt64(picture.tiles.bytes.count)
            if picture.continues || !state.parts.isEmpty {
                // A change is never larger than the picture's pixels, four bytes each, and then some.
                guard state.parts.count + picture.tiles.bytes.count <= options.areaLimit * 4 + 1 << 20 else {
                    throw KithError(.invalid, "The other device sent a picture that is too large.")
                }
                state.parts += picture.tiles.bytes
                guard !picture.continues else { return nil }
            }
            let message = state.parts.isEmpty ? picture.tiles.bytes : state.parts
            state.parts = []
            state.traffic.pictures += 1
            do {
                return (try state.decoder.decode(message), first)
            } catch {
                throw KithError(.invalid, "The other device sent a picture that makes no sense.", cause: error)
            }
        }
    }

    private func control(
        _ session: String, _ handle: @escaping @Sendable (Event) async throws -> Void
    ) async throws {
        do {
            let stream = try await client.open(Screen.Control.self, .init(session: session), on: device).stream
            defer { stream.abort(.cancelled) }
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    while let notice = try await stream.receive() {
                        try await handle(.control(notice.isInControl, by: notice.controller))
                    }
                }
                group.addTask { [self] in
                    while let input = try await inputs.receive() { try await stream.send(input) }
                }
                defer { group.cancelAll() }
                try await group.next()
            }
        } catch let error as KithError where error.code == .denied {
            // Control was taken away; the picture stays, and nobody is left to wait for what is typed.
            state.withLock { $0.session?.permissions.control = false }
            _ = inputs.removeAll()
        }
    }

    private func exchange(_ clipboard: ClipboardLink.Local, _ session: String) async throws {
        do {
            let stream = try await client.open(Screen.Clipboard.self, .init(session: session), on: device).stream
            defer { stream.abort(.cancelled) }
            let link = ClipboardLink(clipboard)
            self.link.withLock { $0 = link }
            defer { self.link.withLock { $0 = nil } }
            try await link.run(over: stream)
        } catch let error as KithError where error.code == .denied {
            // The clipboard was taken away; the picture stays.
        }
    }

    /// Exchanges lines with the person there, where the device has a place for them.
    private func chat(_ session: String, _ handle: @escaping @Sendable (Event) async throws -> Void) async throws {
        _ = lines.removeAll()
        let stream: MethodStream<Screen.ChatLine, Screen.ChatLine>
        do {
            stream = try await client.open(Screen.Chat.self, .init(session: session), on: device).stream
        } catch let error as KithError where [.notFound, .unsupported, .denied].contains(error.code) {
            // An older device: the picture is worth more.
            return
        }
        defer { stream.abort(.cancelled) }
        mayWrite.withLock { $0 = true }
        defer { mayWrite.withLock { $0 = false } }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { while let line = try await stream.receive() { try await handle(.said(line)) } }
            group.addTask { [self] in while let line = try await lines.receive() { try await stream.send(line) } }
            defer { group.cancelAll() }
            try await group.next()
        }
    }
}
