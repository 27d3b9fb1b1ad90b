import Foundation
import KithAPI
import KithIO
import KithNode
import KithTerminal
import KithWire
import Synchronization

extension ShellService {
    /// Opens a shell anywhere, or attaches to one, and draws its screen for the caller.
    func screen(
        _ input: Shell.Screen.Input, context: CallContext, pending: PendingStream<Shell.Screen>
    ) async throws {
        try input.check()
        let (place, before) = try await screens.enter(input.viewer, session: input.session)
        var after = before
        defer { screens.leave(place, after) }
        let session = try await Self.session(for: input, client: context.client)
        let stream: ShellScreenViewer.Stream
        do {
            stream = try await pending.accept(
                Shell.Screen.Output(
                    session: session.id, process: session.process,
                    keep: session.keep.map { UInt32(clamping: Int64($0 / .seconds(1))) }, taken: before.messages))
        } catch {
            if input.session == nil { session.close() } else { await session.detach() }
            throw error
        }
        screens.note(place, session: session.id)
        let viewer = ShellScreenViewer(
            session,
            ShellScreenEngine(
                columns: input.columns, rows: input.rows, prediction: input.prediction.mode,
                isInteractive: !input.view, reportsTaken: input.viewer != nil, taken: before.messages,
                skipped: before.bytes),
            clock: screenClock)
        defer { after = viewer.taken }
        try await viewer.run(over: stream, until: place.isReplaced)
    }

    private static func session(for input: Shell.Screen.Input, client: Client) async throws -> ShellSession {
        let size = Shell.Size(columns: UInt16(input.columns), rows: UInt16(input.rows))
        let viewer = Shell.Client(wantsEchoes: !input.view && input.prediction != .never)
        if let session = input.session {
            return try await ShellSession.attach(
                Shell.Attach.Input(
                    session: session, isInteractive: !input.view, size: size, scrollback: input.scrollback,
                    client: viewer),
                on: input.device, client: client)
        }
        return try await ShellSession.open(
            Shell.Open.Input(
                terminal: Shell.Terminal(size: size, type: "xterm-256color"), command: input.command,
                commandLine: input.commandLine, environment: environment(input.environment),
                directory: input.directory, keep: input.keep, sharing: input.sharing, client: viewer),
            on: input.device, client: client)
    }

    /// The language and the time zone of this device, colours, and what was asked for.
    private static func environment(_ asked: [String: String]) -> [String: String] {
        let here = ProcessInfo.processInfo.environment
        var result = here.filter { name, _ in
            name.hasPrefix("LC_") || ["LANG", "LANGUAGE", "TZ"].contains(name)
        }
        // The screen is drawn from UTF-8, whatever language this process was started in.
        if ["LC_ALL", "LC_CTYPE", "LANG"].allSatisfy({ result[$0] == nil }) { result["LC_CTYPE"] = "C.UTF-8" }
        result["COLORTERM"] = "truecolor"
        return result.merging(asked) { $1 }
    }
}

extension Shell.Screen.Input {
    /// The longest name of a viewer.
    private static let viewerLimit = 64
    private static let scrollbackLimit: UInt32 = 10_000

    fileprivate func check() throws(KithError) {
        try Shell.Screen.Action.check(columns: columns, rows: rows)
        guard scrollback <= Self.scrollbackLimit else {
            throw KithError(.invalid, "At most \(Self.scrollbackLimit) lines of the scrollback can be kept.")
        }
        if let viewer {
            guard !viewer.isEmpty, viewer.utf8.count <= Self.viewerLimit * 4, viewer.count <= Self.viewerLimit else {
                throw KithError(.invalid, "A viewer's name has 1 to \(Self.viewerLimit) characters.")
            }
        }
        guard !view || session != nil else {
            throw KithError(.invalid, "Name the session to view; a new one has nothing to see.")
        }
        guard session == nil || (command == nil && commandLine == nil) else {
            throw KithError(.invalid, "A command opens a session of its own: name no session with it.")
        }
    }
}

extension Shell.Screen.Prediction {
    fileprivate var mode: PredictiveEcho.Mode {
        switch self {
        case .always: .always
        case .never: .never
        default: .adaptive
        }
    }
}

/// The screens that are drawn for callers now, and how far those that may come back had come.
final class ShellScreens: Sendable {
    /// One screen.
    struct Place: Sendable {
        fileprivate let viewer: String?
        fileprivate let number: UInt64
        /// The viewer has come back elsewhere.
        let isReplaced = AsyncEvent()
        fileprivate let isGone = AsyncEvent()
    }

    fileprivate struct Known {
        var session: String?
        var taken = ShellScreenViewer.Taken()
        /// The screen that is drawn now.
        var place: Place?
        var lastUsed: UInt64
    }

    fileprivate struct State {
        var count = 0
        var viewers: [String: Known] = [:]
        var next: UInt64 = 0
    }

    /// The number of screens at once.
    static let limit = 64
    /// The number of viewers that are remembered.
    static let memory = 256

    private let state = Mutex(State())

    /// The number of viewers that are remembered now.
    var remembered: Int { state.withLock { $0.viewers.count } }

    /// Takes a place for a viewer; one of the same name gives its own up first.
    ///
    /// - Returns: the place, and what was taken of the viewer's input to that session before.
    /// - Throws: `.exhausted` when there is none.
    func enter(
        _ viewer: String?, session: String?
    ) async throws(KithError) -> (Place, ShellScreenViewer.Taken) {
        while let old = viewer.flatMap({ name in state.withLock { $0.viewers[name]?.place } }) {
            old.isReplaced.happen()
            await old.isGone.wait()
            if Task.isCancelled { throw KithError(.cancelled, "The caller is gone.") }
        }
        let (place, taken) = state.withLock { state -> (Place?, ShellScreenViewer.Taken) in
            guard state.count < Self.limit else { return (nil, ShellScreenViewer.Taken()) }
            state.count += 1
            state.next += 1
            let place = Place(viewer: viewer, number: state.next)
            guard let viewer else { return (place, ShellScreenViewer.Taken()) }
            var known = state.viewers[viewer] ?? Known(lastUsed: state.next)
            // What went to another session says nothing about this one.
            if session == nil || known.session != session { known = Known(lastUsed: state.next) }
            known.place = place
            known.lastUsed = state.next
            state.viewers[viewer] = known
            state.forget(limit: Self.memory)
            return (place, known.taken)
        }
        guard let place else {
            throw KithError(.exhausted, "\(Self.limit) screens of shells are open already. Close one, or try later.")
        }
        return (place, taken)
    }

    /// Notes the session that a screen is of.
    func note(_ place: Place, session: String) {
        state.withLock { state in
            guard let viewer = place.viewer, state.viewers[viewer]?.place?.number == place.number else { return }
            state.viewers[viewer]?.session = session
        }
    }

    /// Gives a place up.
    func leave(_ place: Place, _ taken: ShellScreenViewer.Taken) {
        state.withLock { state in
            state.count -= 1
            guard let viewer = place.viewer, state.viewers[viewer]?.place?.number == place.number else { return }
            state.viewers[viewer]?.place = nil
            state.viewers[viewer]?.taken = taken
        }
        place.isGone.happen()
    }
}

extension ShellScreens.State {
    /// Forgets the viewers that were not seen for the longest time.
    fileprivate mutating func forget(limit: Int) {
        while viewers.count > limit {
            let gone = viewers.filter { $0.value.place == nil }.min { $0.value.lastUsed < $1.value.lastUsed }
            guard let gone else { return }
            viewers[gone.key] = nil
        }
    }
}
