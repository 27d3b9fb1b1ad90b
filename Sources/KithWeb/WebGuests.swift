import KithAPI
import KithWire
import Synchronization

/// The browsers that are signed in or were a moment ago: what each has open, and its tickets.
///
/// Who may sign in is the database's; this is what ends at once when a right does.
final class WebGuests: Sendable {
    /// The time a ticket is good for.
    static let ticketLifetime = Duration.seconds(3_600)
    /// The most tickets of a browser; one more makes the oldest void.
    static let ticketLimit = 4_096

    /// Something to get by a ticket.
    enum Ticket: Sendable {
        case download(DownloadTicket)
        case upload(UploadTicket)
    }

    private struct Guest {
        /// What a page, a download or an upload is cut off by.
        var cuts: [UInt64: @Sendable () -> Void] = [:]
        /// The pages that are open.
        var pages = 0
        var tickets: [TicketID: (ticket: Ticket, ends: ContinuousClock.Instant)] = [:]
        /// Those, the oldest first; some may be gone.
        var order: [TicketID] = []
    }

    private struct State {
        var guests: [String: Guest] = [:]
        var owners: [TicketID: String] = [:]
        var number: UInt64 = 0
    }

    private let state = Mutex(State())

    /// Something open of a browser, until ``leave(_:)``.
    struct Stay: Hashable, Sendable {
        fileprivate let browser: String
        fileprivate let number: UInt64
        fileprivate let isPage: Bool
    }

    /// Notes that a browser has a page open, which `cut` ends.
    func enter(_ browser: String, cut: @escaping @Sendable () -> Void) -> Stay {
        state.withLock { Self.enter(browser, isPage: true, cut, &$0) }
    }

    private static func enter(
        _ browser: String, isPage: Bool, _ cut: @escaping @Sendable () -> Void, _ state: inout State
    ) -> Stay {
        state.number += 1
        state.guests[browser, default: Guest()].cuts[state.number] = cut
        if isPage { state.guests[browser]?.pages += 1 }
        return Stay(browser: browser, number: state.number, isPage: isPage)
    }

    /// Notes that something is not open any more.
    func leave(_ stay: Stay) {
        state.withLock { state in
            guard state.guests[stay.browser]?.cuts.removeValue(forKey: stay.number) != nil else { return }
            if stay.isPage { state.guests[stay.browser]?.pages -= 1 }
            if let guest = state.guests[stay.browser], guest.cuts.isEmpty, guest.tickets.isEmpty {
                state.guests[stay.browser] = nil
            }
        }
    }

    /// Makes a ticket of a browser; `nil` when its right has ended meanwhile.
    func add(_ ticket: Ticket, of browser: String, at now: ContinuousClock.Instant) -> TicketID? {
        let id = TicketID.random()
        return state.withLock { state in
            guard var guest = state.guests[browser] else { return nil }
            while let oldest = guest.order.first,
                guest.order.count >= Self.ticketLimit || guest.tickets[oldest].map({ $0.ends <= now }) ?? true
            {
                guest.order.removeFirst()
                guest.tickets[oldest] = nil
                state.owners[oldest] = nil
            }
            guest.tickets[id] = (ticket, now + Self.ticketLifetime)
            guest.order.append(id)
            state.owners[id] = browser
            state.guests[browser] = guest
            return id
        }
    }

    /// Takes what a ticket is for, and notes that it is being used, which `cut` ends; `nil` when it is not valid.
    func use(
        _ id: TicketID, at now: ContinuousClock.Instant, cut: @escaping @Sendable () -> Void
    ) -> (ticket: Ticket, stay: Stay)? {
        state.withLock { state in
            guard let browser = state.owners[id], let held = state.guests[browser]?.tickets[id] else { return nil }
            guard held.ends > now else {
                state.guests[browser]?.tickets[id] = nil
                state.owners[id] = nil
                return nil
            }
            return (held.ticket, Self.enter(browser, isPage: false, cut, &state))
        }
    }

    /// Ends everything of a browser, at once.
    func cut(_ browser: String) {
        let guest = state.withLock { state in
            let guest = state.guests.removeValue(forKey: browser)
            for id in guest?.order ?? [] { state.owners[id] = nil }
            return guest
        }
        for cut in guest?.cuts.values ?? [:].values { cut() }
    }

    /// The browsers that have something open, or a ticket.
    var all: [String] { state.withLock { Array($0.guests.keys) } }

    /// Tells whether a browser has a page open.
    func isConnected(_ browser: String) -> Bool { state.withLock { $0.guests[browser]?.pages ?? 0 > 0 } }

    /// Ends everything.
    func cutAll() { for browser in all { cut(browser) } }
}
