package import KithAPI
import KithIO
import KithNode
package import KithPixels
import KithRFB
import KithRFBCodecs
import KithSocket
package import KithWire
import Synchronization

/// A session's picture for viewers of the remote framebuffer protocol: any VNC viewer on this machine shows it.
///
/// It listens on loopback addresses with a password, or at a Unix socket that only this user may connect to. Each viewer
/// has an encoder of its own; a slow one gets fewer pictures and holds nobody up.
package final class RFBDisplay: ScreenDisplay {
    /// The place where viewers connect.
    package enum Endpoint: Sendable {
        /// Both loopback addresses, with a password of which eight bytes count; port 0 is one that is free.
        case loopback(port: UInt16, password: [UInt8])
        /// A Unix socket, for processes of this user.
        case socket(path: String)
    }

    /// Something that a person is told.
    package enum Notice: Hashable, Sendable {
        case connected(String)
        case left(String, reason: String?)
        case refused(String, reason: String)
        /// The session is lost, and sought again; or back.
        case reconnecting, active
        /// Another viewer of the device controls it.
        case controlled(by: String?)
        /// The screen there is dark no more, though that was asked for.
        case lit
    }

    struct State: ~Copyable {
        var picture: RFBPicture
        var viewers: [UInt64: RFBViewer] = [:]
        var lastViewer: UInt64 = 0
        var admission = RFBAdmission()
        var permissions = Screen.Permissions()
        var isActive = false
        /// Whoever controls the screen instead.
        var controller: String?
        /// What the last viewer that copied something has.
        var copied: (viewer: UInt64, contents: RFBClipboard?)?
        /// What the screen has; its content once it was fetched.
        var pasted: RFBClipboard?
        var announced: Announcement?
    }

    /// The clipboard of the screen, to be fetched.
    struct Announcement: Sendable {
        var formats: [ScreenClipboard.Format]
        var content: @Sendable (ScreenClipboard.Format) async throws -> [UInt8]
    }

    /// The name of the desktop.
    private let name: String
    private let password: [UInt8]?
    private let listeners: [ListeningSocket]
    private let report: @Sendable (Notice) -> Void
    private let jpeg: TurboJPEG?
    let state: Mutex<State>
    private let hasPicture = AsyncEvent()
    let executor = DiskExecutor()
    let timers = TimerQueue()
    let announcements: AsyncStream<Void>
    let announcement: AsyncStream<Void>.Continuation

    /// Listens; viewers are let in once there is a picture.
    ///
    /// - Throws: `KithError` `.conflict` when something listens there already, `.denied` when this user may not.
    package init(
        at endpoint: Endpoint, name: String, report: @escaping @Sendable (Notice) -> Void
    ) throws(KithError) {
        self.name = name
        self.report = report
        jpeg = TurboJPEG()
        (announcements, announcement) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
        let reactor: Reactor
        do {
            state = Mutex(State(picture: try RFBPicture()))
            reactor = try Reactor(name: "kith-vnc")
        } catch {
            throw KithError(.exhausted, "The system gives no descriptor to wait for viewers at.", cause: error)
        }
        switch endpoint {
        case .loopback(let port, let password):
            self.password = password
            let first = try ListeningSocket(at: NetworkAddress(ipv4: 0x7F00_0001, port: port), on: reactor)
            var actual = port
            if case .address(let address) = first.endpoint { actual = address.port }
            // A machine without IPv6 has no such address; one where somebody else has the port is not ours to share.
            do {
                listeners = [first, try ListeningSocket(at: NetworkAddress(ipv6: 0, 1, port: actual), on: reactor)]
            } catch {
                guard error.code != .conflict else { throw error }
                listeners = [first]
            }
        case .socket(let path):
            password = nil
            listeners = [try ListeningSocket(path: path, on: reactor)]
        }
    }

    /// The endpoints it listens at, with the actual port.
    package var endpoints: [Forward.Endpoint] { listeners.map(\.endpoint) }

    // MARK: - The session

    package func handle(_ event: ScreenViewer.Event, of viewer: ScreenViewer) async throws {
        switch event {
        case .opened(let output):
            state.withLock { state in
                state.permissions = output.permissions
                state.picture.displays = output.displays
                state.picture.shown = output.display.number
            }
        case .picture(let region, _):
            let (changed, viewers) = try state.withLock { state in
                let changed = try viewer.withPicture { try state.picture.update(region, from: $0) }
                return (changed, Array(state.viewers.values))
            }
            for viewer in viewers { viewer.changed(changed) }
            hasPicture.happen()
        case .pointer:
            let pointer = viewer.pointer
            let (places, cursor, viewers) = state.withLock { state in
                let places = state.picture.setPointer(pointer.shape, at: pointer.position)
                return (places, state.picture.cursor, Array(state.viewers.values))
            }
            for viewer in viewers { viewer.pointerChanged(cursor, in: places) }
        case .displays(let displays, let shown):
            state.withLock { state in
                state.picture.displays = displays
                state.picture.shown = shown
            }
        case .permissions(let permissions):
            let wasDark = state.withLock { state in
                defer { state.permissions = permissions }
                return state.permissions.privacy == true
            }
            if wasDark, permissions.privacy != true { report(.lit) }
        case .control(let isInControl, let name):
            // The host says it again and again.
            let controller = isInControl ? nil : name ?? "somebody else"
            let isNew = state.withLock { state in
                defer { state.controller = controller }
                return state.controller != controller
            }
            if isNew { report(.controlled(by: controller)) }
        // There is no place for lines, and the host is told so.
        case .said: break
        }
    }

    package func phaseChanged(_ phase: SessionState.Phase) async {
        let isActive = phase == .active
        let (viewers, wasActive) = state.withLock { state in
            defer { state.isActive = isActive }
            return (Array(state.viewers.values), state.isActive)
        }
        guard isActive != wasActive else { return }
        for viewer in viewers { viewer.rename(isActive ? name : "\(name) (connecting again)") }
        if !isActive, case .ended = phase { return }
        report(isActive ? .active : .reconnecting)
    }

    package func run(_ viewer: ScreenViewer) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { [self] in await fetchAnnounced() }
            guard await hasPicture.wait() else { throw CancellationError() }
            for listener in listeners {
                group.addTask { [self] in
                    try await withThrowingDiscardingTaskGroup { connections in
                        while true {
                            let (socket, _) = try await listener.accept()
                            connections.addTask { [self] in await serve(socket, viewer) }
                        }
                    }
                }
            }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    // MARK: - Viewers

    /// Serves one viewer to its end.
    private func serve(_ socket: StreamSocket, _ session: ScreenViewer) async {
        let place = socket.peer.map { "\($0)" } ?? "a process of this user"
        if socket.peer == nil, !PeerCredentials(ofSocket: socket.descriptor).isOwnUser {
            return report(.refused("a process of another user", reason: "The socket is this user's."))
        }
        let (refusal, number) = state.withLock { state in
            state.lastViewer += 1
            return (state.admission.arrived(at: .now), state.lastViewer)
        }
        if let refusal {
            report(.refused(place, reason: refusal))
            // Best effort: one that does not take it learns that the connection is closed.
            try? await withDeadline(.seconds(2)) {
                try await socket.write(RFBServer.refusal(refusal))
                try await socket.finish()
                while try await socket.read(upTo: 4_096) != nil {}
            }
            return
        }
        let viewer: RFBViewer
        do {
            viewer = try makeViewer(number, place, socket)
        } catch {
            state.withLock { $0.admission.left(wasAdmitted: false) }
            return report(.refused(place, reason: error.description))
        }
        state.withLock { $0.viewers[number] = viewer }
        let outcome = await withTaskExecutorPreference(executor) { await viewer.run(self, session) }
        let isAdmitted = viewer.isAdmitted
        state.withLock { state in
            state.viewers[number] = nil
            if case .authenticationFailed = outcome {
                state.admission.failed(at: .now)
            } else {
                state.admission.left(wasAdmitted: isAdmitted)
            }
            // What it copied and was not asked for is gone with it.
            if state.copied?.viewer == number, state.copied?.contents == nil { state.copied = nil }
        }
        if isAdmitted {
            report(.left(place, reason: outcome?.description))
        } else {
            report(.refused(place, reason: outcome?.description ?? "It left before it was let in."))
        }
    }

    private func makeViewer(_ number: UInt64, _ place: String, _ socket: StreamSocket) throws(RFBError) -> RFBViewer {
        var options = RFBServer.Options(name: name, password: password)
        options.limits.handshakeTime = .seconds(60)
        var random = SystemRandomNumberGenerator()
        let challenge = (0..<16).map { _ in UInt8.random(in: 0...255, using: &random) }
        let (frame, screens) = state.withLock { ($0.picture.frame, $0.picture.screens) }
        return RFBViewer(
            number, place, socket,
            try RFBServer(
                options, width: frame.width, height: frame.height, screens: screens, challenge: challenge, jpeg: jpeg))
    }

    /// Notes that a viewer has proved itself.
    func admitted(_ viewer: RFBViewer) {
        let (cursor, clipboard) = state.withLock { state in
            state.admission.admitted()
            return (state.picture.cursor, state.pasted)
        }
        viewer.pointerChanged(cursor, in: [])
        if let clipboard { viewer.offer(clipboard) }
        announcement.yield()
        report(.connected(viewer.place))
    }

    /// True while what viewers type and point at has an effect.
    var takesInput: Bool { state.withLock { $0.isActive && $0.permissions.control } }
}
