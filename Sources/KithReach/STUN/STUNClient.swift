package import KithWire

/// Asks STUN servers from which address they see this device's packets come.
///
/// A value: the driver sends what ``nextDatagram(at:)`` gives, from the socket whose mapping is wanted, feeds datagrams
/// and the time, and takes results from ``nextResult()``. A request is sent at 0, 100, 300, 700 and 1500 ms and given
/// up after 3.1 s. An answer counts only when it comes from where it is expected and carries a transaction id that was
/// sent there, 96 random bits: what anybody else sends changes nothing.
package struct STUNClient: Sendable {
    /// What became of a request.
    package struct Result: Hashable, Sendable {
        /// What was asked for.
        package let request: Request
        /// What came of it.
        package let outcome: Outcome
    }

    /// What a request came to.
    package enum Outcome: Hashable, Sendable {
        /// The server says where it sees the device; the round trip is that since the first sending, so an upper bound
        /// when a request or its answer was lost.
        case answered(mapped: NetworkAddress, otherAddress: NetworkAddress?, roundTrip: Duration)
        /// The server refused, with that number.
        case refused(code: UInt16)
        /// No answer came.
        case timedOut
    }

    /// What to ask whom.
    package struct Request: Hashable, Sendable {
        /// The server.
        package var server: NetworkAddress
        /// From where the server shall answer; `nil` for the address it is asked at.
        package var change: STUNMessage.ChangeRequest?
        /// The address from which the answer comes then: of OTHER-ADDRESS, in an earlier answer.
        package var answersFrom: NetworkAddress

        /// Makes a request.
        package init(
            server: NetworkAddress, change: STUNMessage.ChangeRequest? = nil, answersFrom: NetworkAddress? = nil
        ) {
            (self.server, self.change, self.answersFrom) = (server, change, answersFrom ?? server)
        }
    }

    private struct Transaction {
        let id: STUNTransactionID
        let request: Request
        var firstSent: ContinuousClock.Instant?
        var sendings = 0
        /// When it is sent again, or given up.
        var deadline: ContinuousClock.Instant
    }

    /// The most requests at a time; one more is refused.
    package static let maxRequests = 64
    /// The wait after the first sending; it doubles.
    package static let firstInterval = Duration.milliseconds(100)
    /// How often a request is sent.
    package static let maxSendings = 5
    /// The bytes of a request: as many as its answer can have, with two IPv6 addresses more.
    package static let requestLength = 100

    private var transactions: [Transaction] = []
    private var results: [Result] = []

    /// Starts with nothing asked.
    package init() {}

    /// Asks; returns false when as many requests are under way as may be.
    package mutating func ask(
        _ request: Request, at now: ContinuousClock.Instant, using random: inout some RandomNumberGenerator
    ) -> Bool {
        guard transactions.count < Self.maxRequests else { return false }
        transactions.append(
            Transaction(id: STUNTransactionID(using: &random), request: request, deadline: now))
        return true
    }

    /// Forgets all requests, as when the network has changed.
    package mutating func removeAll() { (transactions, results) = ([], []) }

    /// The next datagram to send now, and to which server; `nil` for none.
    package mutating func nextDatagram(
        at now: ContinuousClock.Instant
    ) -> (bytes: [UInt8], server: NetworkAddress)? {
        guard
            let index = transactions.firstIndex(where: { $0.deadline <= now && $0.sendings < Self.maxSendings })
        else { return nil }
        let request = transactions[index].request
        transactions[index].firstSent = transactions[index].firstSent ?? now
        transactions[index].deadline = now + Self.firstInterval * (1 << transactions[index].sendings)
        transactions[index].sendings += 1
        var message = STUNMessage(.request, transaction: transactions[index].id)
        message.changeRequest = request.change
        message.hasFingerprint = true
        message.paddingLength = Self.requestLength - STUNMessage.headerLength - 8 - 4 - (request.change == nil ? 0 : 8)
        return (message.encoded, request.server)
    }

    /// Takes a datagram in; returns whether it was the answer to a request.
    package mutating func receive(
        _ datagram: [UInt8], from source: NetworkAddress, at now: ContinuousClock.Instant
    ) -> Bool {
        guard let message = try? STUNMessage(parsing: datagram),  // a damaged answer is as good as none
            message.kind == .success || message.kind == .failure,
            let index = transactions.firstIndex(where: { $0.id == message.transaction }),
            let firstSent = transactions[index].firstSent
        else { return false }
        let request = transactions[index].request
        // A refusal may come from where it was asked, whatever was asked for.
        guard source == request.answersFrom || message.kind == .failure && source == request.server else {
            return false
        }
        let outcome: Outcome
        if let refusal = message.refusal, message.kind == .failure {
            outcome = .refused(code: refusal.code)
        } else if let mapped = message.mappedAddress, message.unknownAttributes.isEmpty {
            outcome = .answered(mapped: mapped, otherAddress: message.otherAddress, roundTrip: now - firstSent)
        } else {
            return false
        }
        transactions.remove(at: index)
        results.append(Result(request: request, outcome: outcome))
        return true
    }

    /// Gives up what has waited long enough.
    package mutating func timedOut(at now: ContinuousClock.Instant) {
        func isOver(_ transaction: Transaction) -> Bool {
            transaction.sendings == Self.maxSendings && transaction.deadline <= now
        }
        results += transactions.filter(isOver).map { Result(request: $0.request, outcome: .timedOut) }
        transactions.removeAll(where: isOver)
    }

    /// The next result; `nil` when there is none.
    package mutating func nextResult() -> Result? { results.isEmpty ? nil : results.removeFirst() }

    /// The time at which ``timedOut(at:)`` and then ``nextDatagram(at:)`` are to be called; `nil` for never.
    package var nextDeadline: ContinuousClock.Instant? { transactions.map(\.deadline).min() }
}
