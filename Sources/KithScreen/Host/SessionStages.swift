import KithAPI
import KithIO
import KithIdentity
import KithNode

/// A device that asks to see the screen.
struct WaitingSession: Sendable {
    let id: String
    let caller: Caller
    let permissions: Screen.Permissions
    let since: Int64
    let display: UInt32
    let decision = Promise<Screen.Permissions?>()

    var description: ScreenSessions.Session {
        let name = if case .device(_, let name, _) = caller { name } else { "this device" }
        return ScreenSessions.Session(
            id: id, device: caller.device, name: name, state: .waiting, permissions: permissions, display: display,
            since: since)
    }
}

/// What a session leaves to the one that takes its place.
struct FormerSession: Hashable, Sendable {
    let permissions: Screen.Permissions
    /// The name of the display that its viewer chose.
    let chosen: String
    /// When the first of them began, in seconds since 1970.
    let since: Int64
}

/// A session whose viewer was lost.
struct LostSession: Sendable {
    /// The time within which it may come back.
    static let life = Duration.seconds(600)

    let caller: Caller
    let former: FormerSession
    let until: ContinuousClock.Instant
}
