package import KithAPI
import KithIO
import KithNode
import KithRFB
import KithRFBCodecs
package import KithWire
import Synchronization

/// The screen of a server of the remote framebuffer protocol: wayvnc, x11vnc, Xtigervnc, macOS, Windows.
///
/// It asks for exact pictures, which a local server makes cheaply. When the server goes every call fails with
/// `.unreachable`, now and later; whoever opened it opens another one.
package final class RFBSource: ScreenSource {
    /// The time a server may take nothing of what is sent.
    private static let writePatience = Duration.seconds(30)

    struct State: ~Copyable {
        var client: RFBClient
        var input = RFBSourceInput()
        var changes = RFBSourceChanges()
        var clipboard = RFBSourceClipboard()
        var failure: KithError?
        /// Waits for a change.
        var next: AsyncEvent?
    }

    package let name: String
    let state: Mutex<State>
    /// `nil` once it has ended: the last reference closes it.
    private let socket: Mutex<StreamSocket?>
    private let isConnected = AsyncEvent()
    private let isReady = AsyncEvent()
    /// One writes at a time.
    private let writing = AsyncMutex()
    private let tasks = Mutex<[Task<Void, Never>]>([])
    private let signals: AsyncStream<Void>
    private let signal: AsyncStream<Void>.Continuation

    /// Opens the screen of a server, which has `patience` to answer, and again to let this end in.
    ///
    /// - Throws: `KithError` `.unreachable` when there is no such server, `.denied` when the password is missing or wrong,
    ///   `.unsupported` when it wants another kind of security.
    package static func open(
        _ address: RFBAddress, patience: Duration = .seconds(10)
    ) async throws -> RFBSource {
        let reactor: Reactor
        do {
            reactor = try Reactor(name: "kith-vnc")
        } catch {
            throw KithError(.exhausted, "The system gives no descriptor to wait for \(address) at.", cause: error)
        }
        var options = RFBClient.Options()
        options.password = try address.password()
        let client: RFBClient
        do {
            client = try RFBClient(options, jpeg: TurboJPEG())
        } catch {
            throw KithError(.internal, error.description, cause: error)
        }
        let socket: StreamSocket
        do {
            socket = try await withDeadline(patience) { try await address.connect(on: reactor) }
        } catch let error as KithError where error.code == .timedOut {
            throw KithError(.unreachable, "The screen \(address) does not answer.")
        }
        let source = RFBSource("\(address)", socket, client)
        do {
            try await source.start(patience)
        } catch {
            await source.close()
            throw error
        }
        return source
    }

    private init(_ name: String, _ socket: StreamSocket, _ client: consuming RFBClient) {
        self.name = name
        self.socket = Mutex(socket)
        state = Mutex(State(client: client))
        (signals, signal) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    private func start(_ patience: Duration) async throws {
        // Both end with the socket, at the latest when this is closed.
        let socket = socket.withLock { $0 }
        let reader = Task(name: "kith vnc in") { [weak self] in
            do {
                while let bytes = try await socket?.read(upTo: 256 << 10) {
                    guard let self else { return }
                    self.received(bytes)
                    self.signal.yield()
                }
                self?.fail(
                    KithError(.unreachable, "The screen \(self?.name ?? "") is gone: its server ended the connection."))
            } catch {
                self?.fail(KithError(.unreachable, "The screen \(self?.name ?? "") is gone.", cause: error))
            }
        }
        let writer = Task(name: "kith vnc out") { [weak self, signals] in
            for await _ in signals {
                guard let self else { return }
                await self.flush()
                // What waited for room can be read now.
                self.received([])
            }
        }
        tasks.withLock { $0 = [reader, writer] }
        do {
            try await withDeadline(patience) { [self] in
                await isConnected.wait()
                try Task.checkCancellation()
            }
        } catch let error as KithError where error.code == .timedOut {
            throw KithError(.unreachable, "The screen \(name) does not answer as a VNC server does.")
        }
        try check()
        // A server that has nothing to show yet is believed.
        _ = try? await withDeadline(patience / 4) { [self] in await isReady.wait() }
        try check()
    }

    deinit {
        signal.finish()
        endConnection()
        for task in tasks.withLock({ $0 }) { task.cancel() }
    }

    /// - Throws: why it has ended.
    private func check() throws(KithError) {
        if let failure = state.withLock({ $0.failure }) { throw failure }
    }

    // MARK: - The connection

    private func received(_ bytes: [UInt8]) {
        let (failure, woken) = state.withLock { state -> (RFBError?, AsyncEvent?) in
            guard state.failure == nil else { return (nil, nil) }
            do throws(RFBError) {
                if !bytes.isEmpty { try state.client.receive(bytes) }
                while let event = try state.client.nextEvent() { note(event, in: &state) }
            } catch {
                return (error, nil)
            }
            return (nil, state.changes.isEmpty ? nil : state.next.take())
        }
        woken?.happen()
        if let failure { fail(error(for: failure)) }
    }

    private func note(_ event: RFBClient.Event, in state: inout State) {
        switch event {
        case .connected:
            state.changes.displays = Self.displays(of: state.client)
            isConnected.happen()
        case .updated(let region):
            for rectangle in region.rectangles { state.changes.damage.insert(rectangle) }
            isReady.happen()
        case .resized:
            state.changes.displays = Self.displays(of: state.client)
            state.changes.damage = RFBRegion(state.client.frameBuffer.bounds)
        case .cursor(let cursor): state.changes.cursor = CursorImage(cursor)
        case .clipboard(let event):
            if let formats = state.clipboard.received(event) { state.changes.clipboard = formats }
        case .bell, .renamed, .fence: break
        }
    }

    /// Sends what waits, in order.
    private func flush() async {
        await writing.lock()
        defer { writing.unlock() }
        while true {
            let bytes = state.withLock { $0.failure == nil ? $0.client.takeOutput() : [] }
            guard !bytes.isEmpty, let socket = socket.withLock({ $0 }) else { return }
            do {
                try await withDeadline(Self.writePatience) { try await socket.write(bytes) }
            } catch {
                fail(
                    KithError(
                        .unreachable, "The screen \(name) is gone: its server takes nothing any more.", cause: error))
            }
        }
    }

    /// Ends it; the first reason counts.
    private func fail(_ error: KithError) {
        let next = state.withLock { state -> AsyncEvent? in
            state.failure = state.failure ?? error
            state.clipboard.end(with: error)
            return state.next.take()
        }
        next?.happen()
        isConnected.happen()
        isReady.happen()
        endConnection()
        signal.finish()
    }

    /// Closes the socket, as soon as whoever waits for it has let go of it.
    private func endConnection() { socket.withLock { $0.take() }?.abort(.closed) }

    private func error(for error: RFBError) -> KithError {
        switch error {
        case .passwordNeeded:
            KithError(
                .denied, "The screen \(name) asks for a password. There: kith up --screen-source-password-file FILE.",
                cause: error)
        case .authenticationFailed(let reason):
            KithError(.denied, "The screen \(name) did not accept the password: \(reason)", cause: error)
        case .unsupportedSecurity:
            KithError(
                .unsupported,
                "The screen \(name) wants a kind of security other than a VNC password. \(error.description)",
                cause: error)
        default: KithError(.unreachable, "The screen \(name) cannot be used. \(error.description)", cause: error)
        }
    }

    /// Ends the connection at once, as if the system had.
    func breakOff() { endConnection() }

    package func close() async {
        await releaseAll()
        fail(KithError(.closed, "The screen \(name) was closed."))
        for task in tasks.withLock({ tasks in
            defer { tasks = [] }
            return tasks
        }) {
            task.cancel()
        }
    }

    // MARK: - Seeing

    package var displays: [Screen.Display] {
        get async throws(KithError) {
            try state.withLock { state throws(KithError) in
                if let failure = state.failure { throw failure }
                return Self.displays(of: state.client)
            }
        }
    }

    /// All monitors together, and each; a server that tells of none has one.
    private static func displays(of client: borrowing RFBClient) -> [Screen.Display] {
        let bounds = client.frameBuffer.bounds
        let monitors = client.screens.map { $0.frame.intersection(bounds) }.filter { !$0.isEmpty }
        let whole = Screen.Display(number: 0, name: "all", bounds: Screen.Rectangle(bounds), isPrimary: false)
        return [whole]
            + (monitors.isEmpty ? [bounds] : monitors).prefix(63).enumerated().map { index, frame in
                Screen.Display(
                    number: UInt32(index + 1), name: monitors.count < 2 ? "screen" : "screen \(index + 1)",
                    bounds: Screen.Rectangle(frame), isPrimary: index == 0)
            }
    }

    package func nextChanges() async throws(KithError) -> [ScreenChange] {
        while true {
            let event = AsyncEvent()
            let changes = try state.withLock { state throws(KithError) -> [ScreenChange] in
                if let failure = state.failure { throw failure }
                let changes = state.changes.take()
                if changes.isEmpty { state.next = event }
                return changes
            }
            if !changes.isEmpty { return changes }
            guard await event.wait() else { throw KithError(.cancelled, "Waiting for changes was cancelled.") }
        }
    }

    package func capture(
        _ area: Screen.Rectangle, into target: UnsafeMutableRawBufferPointer, stride: Int
    ) async throws(KithError) {
        try unsafe copy(area, into: target, stride: stride)
    }

    private func copy(
        _ area: Screen.Rectangle, into target: UnsafeMutableRawBufferPointer, stride: Int
    ) throws(KithError) {
        let wanted = RFBRectangle(x: Int(area.x), y: Int(area.y), width: Int(area.width), height: Int(area.height))
        let failure = state.withLock { state -> KithError? in
            if let failure = state.failure { return failure }
            let there = wanted.intersection(state.client.frameBuffer.bounds)
            var offset = (there.y - wanted.y) * stride + (there.x - wanted.x) * 4
            unsafe state.client.frameBuffer.forEachRow(of: there) { row in
                let line = unsafe UnsafeMutableRawBufferPointer(rebasing: target[offset..<offset + row.count * 4])
                let pixels = unsafe line.bindMemory(to: UInt32.self)
                for index in 0..<row.count { unsafe pixels[index] = row[index] | 0xFF00_0000 }
                offset += stride
            }
            return nil
        }
        if let failure { throw failure }
    }

    // MARK: - Controlling

    package func perform(_ input: ScreenInput) async throws(KithError) {
        let woken = try state.withLock { state throws(KithError) -> AsyncEvent? in
            if let failure = state.failure { throw failure }
            guard state.input.perform(input, by: &state.client) else { return nil }
            // The server does not say where the pointer is: it is where it was put.
            state.changes.pointer = (Int32(state.input.x), Int32(state.input.y))
            return state.next.take()
        }
        woken?.happen()
        await flush()
        try check()
    }

    package func releaseAll() async {
        state.withLock { state in
            guard state.failure == nil else { return }
            state.input.releaseAll(by: &state.client)
        }
        await flush()
    }

    // MARK: - The clipboard

    package func clipboard(
        _ selection: ScreenClipboard.Selection, as format: ScreenClipboard.Format
    ) async throws(KithError) -> [UInt8] {
        guard selection == .clipboard, let wanted = RFBClipboardFormats(format) else {
            throw KithError(.notFound, "The clipboard of \(name) has nothing in that format.")
        }
        let answer = try state.withLock { state throws(KithError) -> RFBSourceClipboard.Answer in
            if let failure = state.failure { throw failure }
            return state.clipboard.content(wanted) { state.client.requestClipboard($0) }
        }
        signal.yield()
        switch answer {
        case .content(let bytes): return bytes
        case .none: throw KithError(.notFound, "The clipboard of \(name) has nothing in that format.")
        case .coming(let promise):
            do {
                return try await withDeadline(.seconds(2)) { try await promise.valueUnlessCancelled().get() }
            } catch let error as KithError {
                state.withLock { $0.clipboard.giveUp(promise) }
                throw error.code == .timedOut
                    ? KithError(.timedOut, "The server of \(name) did not send its clipboard in time.") : error
            } catch {
                state.withLock { $0.clipboard.giveUp(promise) }
                throw KithError(.cancelled, "Reading the clipboard was cancelled.")
            }
        }
    }

    package func offerClipboard(
        _ selection: ScreenClipboard.Selection, formats: [ScreenClipboard.Format],
        content: @escaping @Sendable (ScreenClipboard.Format) async throws -> [UInt8]
    ) async throws(KithError) {
        let wanted = formats.filter { RFBClipboardFormats($0) != nil }
        guard selection == .clipboard, !wanted.isEmpty else { return }
        let number = state.withLock { $0.clipboard.beginOffer() }
        // The protocol has no way to ask for it later that all servers know. The content comes through whoever calls this.
        Task(name: "kith vnc clipboard") { [weak self] in
            var contents = RFBClipboard()
            for format in wanted {
                // A content that cannot be had is left out.
                guard let bytes = try? await content(format) else { continue }
                if format == .text { contents.text = String(decoding: bytes, as: UTF8.self) }
                if format == .html { contents.html = String(decoding: bytes, as: UTF8.self) }
            }
            self?.offer(contents, number)
        }
    }

    private func offer(_ contents: RFBClipboard, _ number: UInt64) {
        state.withLock { state in
            guard state.failure == nil, state.clipboard.lastOffer == number, !contents.formats.isEmpty else { return }
            // One that is too large is not offered: there is nobody to tell.
            try? state.client.offerClipboard(contents)
        }
        signal.yield()
    }

    // MARK: - Showing

    /// False: the protocol shows nothing at the server.
    package func show(
        _ notices: [ScreenNotice], decide: @escaping @Sendable (ScreenNotice.Answer) -> Void
    ) async -> Bool { false }
}
