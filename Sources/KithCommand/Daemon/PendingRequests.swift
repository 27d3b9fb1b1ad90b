import KithAPI
import KithIdentity
import KithWire

/// The requests that wait for this device's person: pairings, files that are offered, sessions of the screen.
///
/// With those who see the screen, as not every screen can show that itself.
struct PendingRequests {
    private let pairings: [PairingMethods.Request]
    private let offers: [Inbox.Entry]
    private let attempts: [PairingMethods.Attempt]
    private let screens: [ScreenSessions.Session]

    /// Asks the device.
    init(_ client: Client) async throws {
        pairings = try await client.call(PairingMethods.Waiting.self, Nothing())
        offers = try await client.call(Inbox.List.self, Nothing()).filter { $0.state == .waiting }
        do {
            attempts = try await client.call(PairingMethods.Failed.self, Nothing())
        } catch let error as KithError where error.code == .unsupported {
            attempts = []  // a daemon that was started before they were counted
        }
        do {
            screens = try await client.call(ScreenSessions.List.self, Nothing()).sessions.filter { $0.device != nil }
        } catch let error as KithError where error.code == .unsupported {
            screens = []  // one that shows no screen
        }
    }

    /// The number of requests that wait.
    var count: Int { pairings.count + offers.count + screens.count }

    /// Shows each waiting request on a line, with the command that answers it; nothing when nothing waits.
    func show() {
        for request in pairings { note("\(Self.line(request)): kith accept \(request.id)") }
        for offer in offers {
            note(
                "\(printable(offer.device)) offers \(InboxList.summary(offer)), \(ProgressLine.size(offer.bytes)): "
                    + "kith inbox accept \(offer.id)")
        }
        for session in screens { note(ScreenNotices.line(session)) }
        showAttempts()
    }

    /// Shows the attempts to pair that failed in the last week, a line for each invitation.
    func showAttempts() {
        var shown: Set<String> = []
        for attempt in attempts where shown.insert(attempt.invitation).inserted {
            let count = attempts.count { $0.invitation == attempt.invitation }
            let keys = Set(attempts.lazy.filter { $0.invitation == attempt.invitation }.map(\.device)).count
            let whose = keys == 1 ? "" : ", of \(keys) keys"
            note(
                "\(count == 1 ? "1 attempt" : "\(count) attempts") to pair by invitation \(attempt.invitation) came to nothing\(whose); the latest \(relative(attempt.time)) of \(attempt.device.short)\(Self.origin(attempt)): \(printable(attempt.reason)). `kith audit` shows each."
            )
        }
    }

    /// The origin of an attempt: ` from 192.0.2.1:4433`, or nothing when that is unknown.
    static func origin(_ attempt: PairingMethods.Attempt) -> String {
        attempt.address.isEmpty ? "" : " from \(printable(attempt.address))"
    }

    /// One pairing that waits.
    static func line(_ request: PairingMethods.Request) -> String {
        "\(printable(request.name)) (\(request.device.short)) wants to pair; both devices must show the code \(request.code)"
    }
}
