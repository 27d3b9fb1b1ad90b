import KithAPI
import KithIdentity
import KithNode
import KithWire

/// Decides whether a session may begin, and whether a person is asked before.
struct ConsentPolicy {
    /// The answer about one session.
    enum Decision: Hashable {
        /// It begins.
        case letIn
        /// A person at the screen decides.
        case ask
        /// It does not, for this reason.
        case refuse(String)
    }

    /// A moment in the device's own time zone.
    struct Moment: Hashable {
        /// 1 is Monday, 7 Sunday.
        var day: UInt8
        /// 0…1439.
        var minute: UInt16
    }

    let rules: ScreenSessions.Rules

    /// Decides about a caller with its grants, `isOwn` when it is one of this person's own devices.
    func decide(_ caller: Caller, holding grants: [Grant], isOwn: Bool, at now: Moment) -> Decision {
        if caller == .owner { return .letIn }
        if let reason = closed(at: now) { return .refuse(reason) }
        if grants.allows(.screen(.unattended)) { return .letIn }
        switch rules.consent {
        case .unattended: return .letIn
        case .trusted: return isOwn ? .letIn : .ask
        case .ask: return .ask
        }
    }

    /// The reason why nobody sees the screen at a time of the week; `nil` when somebody may.
    private func closed(at now: Moment) -> String? {
        rules.windows.isEmpty || rules.windows.contains { Self.contains($0, now) }
            ? nil : "This screen is not shown at this time of the week."
    }

    /// The reason why a session of a caller that has lasted for so many seconds is over now; `nil` when it goes on.
    func ends(_ caller: Caller, lasting seconds: Int64, at now: Moment) -> String? {
        guard caller != .owner else { return nil }
        let longest = Int64(rules.longestSeconds ?? ScreenSessions.Rules.standardLongest)
        guard longest == 0 || seconds < longest else { return "The session has lasted as long as it may." }
        return closed(at: now)
    }

    private static func contains(_ window: ScreenSessions.Rules.Window, _ now: Moment) -> Bool {
        if window.from < window.to {
            return window.days.contains(now.day) && (window.from..<window.to).contains(now.minute)
        }
        // Into the next day.
        let before = now.day == 1 ? 7 : now.day - 1
        return window.days.contains(now.day) && now.minute >= window.from
            || window.days.contains(before) && now.minute < window.to
    }

    /// Refuses rules that no day or number fits.
    static func check(_ rules: ScreenSessions.Rules) throws(KithError) {
        guard (1...16).contains(rules.limit) else { throw KithError(.invalid, "1 to 16 sessions run at once.") }
        guard (5...600).contains(rules.waitSeconds) else {
            throw KithError(.invalid, "A person has 5 to 600 seconds to answer.")
        }
        guard rules.longestSeconds.map({ $0 == 0 || $0 >= 60 }) ?? true else {
            throw KithError(.invalid, "A session may last a minute or more; 0 is for as long as it likes.")
        }
        guard rules.windows.count <= 32 else { throw KithError(.invalid, "There are at most 32 windows of time.") }
        for window in rules.windows {
            guard !window.days.isEmpty, window.days.allSatisfy({ (1...7).contains($0) }), window.from < 1_440,
                window.to <= 1_440
            else {
                throw KithError(.invalid, "A window has days 1 to 7, and begins and ends within the minutes of a day.")
            }
        }
    }
}
