#if Screen && os(Linux) && canImport(CXCB)
import CXCB
import Glibc
package import KithAPI
import KithIO
package import KithWire
import Synchronization

/// An X server's screen, seen by DAMAGE and MIT-SHM and controlled by XTEST.
///
/// One thread owns the connection and is this actor's executor, so that waiting for the server holds up nobody else. When
/// the server goes, every call fails with `.unreachable`, now and later; whoever opened it opens another one.
package actor X11Source: ScreenSource {
    package nonisolated let name: String
    private let thread: X11Thread
    /// The connection's descriptor, to break it off when the server does not answer at the end.
    private let descriptor = Mutex<Int32?>(nil)
    private(set) var session: X11Session?
    private var failure: KithError?
    /// The program that keeps the screen dark, by its path.
    private let darkness: String?
    private var darkening: X11Darkness?
    private var wantsDark = false

    package nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe thread.asUnownedSerialExecutor() }

    /// Opens the screen of `display`, `:0` or `host:0`; `nil` is what the variable `DISPLAY` names.
    ///
    /// The server's cookie is where `XAUTHORITY` says, or in `~/.Xauthority`. `darkness` is the path of `kith-dark`,
    /// without which the screen cannot be darkened.
    ///
    /// - Throws: `KithError` `.unreachable` when there is no such server, or it does not let this user in; `.unsupported`
    ///   when it lacks an extension, or has a depth of other than 24 or 32 bits.
    package static func open(
        display: String? = nil, darkness: String? = nil
    ) async throws(KithError) -> X11Source {
        let source: X11Source
        do {
            source = try X11Source(display, darkness)
        } catch {
            throw KithError(.exhausted, "A thread for the screen cannot be started.", cause: error)
        }
        try await source.connect(display)
        return source
    }

    private init(_ display: String?, _ darkness: String?) throws(SystemError) {
        self.darkness = darkness
        let fromEnvironment = unsafe getenv("DISPLAY").map { unsafe String(cString: $0) }
        name = "x11 \(display ?? fromEnvironment ?? "(no DISPLAY)")"
        thread = try X11Thread()
    }

    isolated deinit {
        finish()
        thread.stop()
    }

    private func connect(_ display: String?) throws(KithError) {
        let connection = try X11Connection(display: display, name: name)
        let session = try X11Session(connection)
        let number = unsafe xcb_get_file_descriptor(connection.raw)
        do {
            try thread.watch(number) { [weak self] in self?.assumeIsolated { $0.receive() } }
        } catch {
            throw KithError(.exhausted, "The screen \(name) cannot be watched.", cause: error)
        }
        descriptor.withLock { $0 = number }
        self.session = session
        session.owner = self
        session.clipboards.owner = self
        session.clipboards.begin()
        connection.flush()
    }

    /// What lives as long as the connection.
    ///
    /// - Throws: why it has ended.
    func live() throws(KithError) -> X11Session {
        if let session {
            if !session.connection.isGone { return session }
            end(session.connection.gone)
        }
        throw failure ?? KithError(.closed, "The screen \(name) was closed.")
    }

    /// Takes in all that the server has sent.
    private func receive() {
        guard let session else { return }
        session.takeEvents()
        if session.connection.isGone { end(session.connection.gone) }
    }

    private func end(_ failure: KithError) {
        guard let session else { return }
        self.failure = failure
        let number = descriptor.withLock { $0.take() }
        if let number { thread.unwatch(number) }
        self.session = nil
        endDarkness()
        session.end(failure)
    }

    /// Gives everything back; a server that does not answer within 2 s is left as it is.
    package nonisolated func close() async {
        let watchdog = Task(name: "x11 close") { [weak self] in
            guard (try? await Task.sleep(for: .seconds(2))) != nil else { return }  // closed in time
            self?.descriptor.withLock { if let number = $0 { _ = shutdown(number, Int32(SHUT_RDWR)) } }
        }
        // It does not wait for the server: the program has a connection of its own.
        try? await light()
        await finish()
        watchdog.cancel()
    }

    private func finish() {
        endDarkness()
        guard let session else { return }
        session.input.end()
        session.notices.hide()
        try? session.connection.synchronize()  // it may be gone, and then there is nothing to give back
        end(KithError(.closed, "The screen \(name) was closed."))
    }

    // MARK: - Seeing

    package var displays: [Screen.Display] {
        get async throws(KithError) { try live().displays }
    }

    package func nextChanges() async throws(KithError) -> [ScreenChange] {
        while true {
            let session = try live()
            let changes = try session.takeChanges()
            if !changes.isEmpty { return changes }
            // Nothing can happen between the look and this: both are on the one thread.
            let event = AsyncEvent()
            session.nextChange = event
            guard await event.wait() else { throw KithError(.cancelled, "Waiting for changes was cancelled.") }
        }
    }

    package nonisolated func capture(
        _ area: Screen.Rectangle, into target: UnsafeMutableRawBufferPointer, stride: Int
    ) async throws(KithError) {
        let picture = unsafe Picture(bytes: target, stride: stride)
        try await unsafe copy(area, into: picture)
    }

    /// Memory that the caller keeps until the call returns.
    @unsafe private struct Picture: @unchecked Sendable {
        let bytes: UnsafeMutableRawBufferPointer
        let stride: Int
    }

    private func copy(_ area: Screen.Rectangle, into picture: Picture) throws(KithError) {
        let session = try live()
        do {
            try unsafe session.capture.copy(area, into: picture.bytes, stride: picture.stride)
        } catch {
            guard error == KithError(.conflict, "") else { throw error }
            try session.readDisplays()
            do {
                try unsafe session.capture.copy(area, into: picture.bytes, stride: picture.stride)
            } catch {
                // It shrank again: the news of it has everything captured anew.
                guard error == KithError(.conflict, "") else { throw error }
            }
        }
    }

    /// Has the pointer asked for at the next look.
    func pointerIsDue() { session?.pointerIsDue() }

    /// Tells of a clipboard with the next changes.
    func clipboardChanged(_ selection: ScreenClipboard.Selection, _ formats: [ScreenClipboard.Format]) {
        session?.clipboardChanged(selection, formats)
    }

    // MARK: - Controlling

    /// One input at a time: text that waits for a key is not overtaken.
    private let inputs = AsyncMutex()

    package func perform(_ input: ScreenInput) async throws(KithError) {
        await inputs.lock()
        defer { inputs.unlock() }
        var work = try live().input.begin(input)
        defer { session?.input.finish(work) }
        while let wait = try live().input.proceed(&work) {
            do {
                try await Task.sleep(until: wait, clock: .continuous)
            } catch {
                throw KithError(.cancelled, "Typing was cancelled.")
            }
        }
        if session?.input.beginsLending() == true { keysAreDue() }
    }

    private func keysAreDue() {
        guard let pause = session?.input.giveBackKeysIfUnused() else { return }
        Task(name: "x11 keys") { [weak self] in
            try? await Task.sleep(for: pause)  // nobody cancels it
            await self?.keysAreDue()
        }
    }

    package func releaseAll() async {
        guard let session else { return }
        session.input.releaseAll()
        try? session.connection.synchronize()  // gone: then nothing is held
    }

    // MARK: - Showing

    package func show(
        _ notices: [ScreenNotice], decide: @escaping @Sendable (ScreenNotice.Answer) -> Void
    ) async -> Bool {
        guard let session else { return false }
        return session.notices.show(notices, decide)
    }

    package func setDark(_ isDark: Bool) async throws(KithError) {
        guard isDark else { return try await light() }
        guard !wantsDark else { return }
        wantsDark = true
        do throws(KithError) {
            try await darken()
        } catch {
            wantsDark = false
            throw error
        }
    }

    private func darken() async throws(KithError) {
        let display = try live().connection.display
        guard let darkness else {
            throw KithError(.unsupported, "kith-dark, which keeps a screen dark, is not installed beside kith there.")
        }
        let new = try await X11Darkness(darkness, display: display)
        guard wantsDark, session != nil else {
            _ = await new.end()
            return
        }
        darkening = new
        Task(name: "x11 dark") { [weak self] in
            await new.hasEnded()
            await self?.darkenAgain(after: new)
        }
    }

    /// Takes in that the program that kept the screen dark has ended; when nobody wanted that, another one does it.
    private func darkenAgain(after old: X11Darkness) async {
        guard darkening === old else { return }
        darkening = nil
        do {
            try await darken()
        } catch {
            // It is lit, or its server is gone.
            wantsDark = false
            session?.screenIsLit()
        }
    }

    /// Has the screen lit that nobody can ask about any more.
    private func endDarkness() {
        wantsDark = false
        guard let old = darkening else { return }
        darkening = nil
        Task(name: "x11 light") { _ = await old.end() }
    }

    private func light() async throws(KithError) {
        guard wantsDark else { return }
        wantsDark = false
        let old = darkening
        darkening = nil
        if let old, await old.end() { return }
        // It was killed, or stands still: another one finds the screen dark, and lights it at its end.
        if let darkness, let other = try? await X11Darkness(darkness, display: session?.connection.display),
            await other.end()
        {
            return
        }
        throw KithError(.internal, "The screen \(name) may be dark yet: xrandr --output NAME --brightness 1 lights it.")
    }
}
#endif
