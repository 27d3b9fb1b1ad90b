import KithAPI
import KithWire

/// The lines that say who sees this screen, or asks to.
enum ScreenNotices {
    /// One session, with the command that answers it or ends it.
    static func line(_ session: ScreenSessions.Session) -> String {
        let name = String(session.id.prefix(6))
        let may = ScreenSessionsCommand.words(session.permissions)
        return switch session.state {
        case .waiting:
            "\(printable(session.name)) asks to see this screen (\(may)): kith screen allow \(name), or kith screen refuse \(name)"
        default: "\(printable(session.name)) sees this screen (\(may)): kith screen end \(name) puts it out"
        }
    }

    /// Says so whenever it changes; returns when this device shows no screen.
    static func follow(_ client: Client) async throws {
        let stream: MethodStream<ScreenSessions.Watch.Downstream, ScreenSessions.Watch.Upstream>
        do {
            stream = try await client.open(ScreenSessions.Watch.self, Nothing()).stream
        } catch let error as KithError where error.code == .unsupported {
            return
        }
        defer { stream.abort(.cancelled) }
        var before: [ScreenSessions.Session] = []
        for try await update in stream.messages {
            // The owner knows what it looks at itself.
            let now = update.sessions.filter { $0.device != nil }
            for session in now where !before.contains(where: { $0.id == session.id && $0.state == session.state }) {
                note(line(session))
            }
            for session in before where session.state == .active && !now.contains(where: { $0.id == session.id }) {
                note("\(printable(session.name)) sees this screen no more.")
            }
            before = now
        }
    }
}
