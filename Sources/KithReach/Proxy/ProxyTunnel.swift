import KithWire

/// A client's part in having a proxy connect to a relay (RFC 9110 §9.3.6): one request, one answer.
package struct ProxyTunnel: Hashable, Sendable {
    /// The most bytes of the answer.
    package static let maxLength = 8 << 10

    /// What the answer comes to.
    package enum Action: Hashable, Sendable {
        /// More of it must come.
        case wait
        /// The tunnel is open; these bytes have come through it already.
        case open([UInt8])
        /// It will not be, for this reason.
        case refused(reason: String)
        /// It will not be before somebody gives the right name and password: asking again may lock the account.
        case signInRefused(reason: String)
        /// A captive portal answers in the proxy's place.
        case captive(CaptivePortal)
    }

    private let proxy: ProxyServer
    private let relay: RelayAddress
    private var bytes: [UInt8] = []
    /// The length of the interim answers that came before.
    private var passed = 0

    /// Starts with nothing asked.
    package init(by proxy: ProxyServer, to relay: RelayAddress) { (self.proxy, self.relay) = (proxy, relay) }

    /// The request.
    package var request: [UInt8] {
        var lines = ["CONNECT \(relay.authority) HTTP/1.1", "Host: \(relay.authority)"]
        if let authorization = proxy.authorization { lines.append("Proxy-Authorization: \(authorization)") }
        return Array((lines + ["", ""]).joined(separator: "\r\n").utf8)
    }

    /// Takes what the proxy sends.
    package mutating func received(_ new: [UInt8]) -> Action {
        bytes += new
        while true {
            let head: HTTPAnswerHead
            do throws(WireError) {
                head = try HTTPAnswerHead(Array(bytes.prefix(Self.maxLength - passed)))
            } catch {
                switch error {
                case .truncated where passed + bytes.count < Self.maxLength: return .wait
                case .truncated, .tooLong: return .refused(reason: "the proxy \(proxy) gives an answer that has no end")
                default: return .refused(reason: "what answers in place of the proxy \(proxy) is none")
                }
            }
            let rest = Array(bytes[head.length...])
            // An interim answer: the real one follows.
            guard (100...199).contains(head.status) else { return action(head, rest) }
            passed += head.length
            bytes = rest
        }
    }

    private func action(_ head: HTTPAnswerHead, _ rest: [UInt8]) -> Action {
        switch head.status {
        case 200...299: .open(rest)
        // Some answer a wrong password as a web server does (tinyproxy).
        case 401, 407: signInRefused(head)
        // No proxy sends somebody elsewhere.
        case 300...399, 511: .captive(CaptivePortal(redirectedTo: head["location"], host: relay.host))
        case 403, 405:
            .refused(reason: "the proxy \(proxy) does not allow connections to \(relay.authority) (\(head.status))")
        case 500, 502, 503, 504:
            .refused(reason: "the proxy \(proxy) does not reach \(relay.authority) (\(head.status))")
        default: .refused(reason: "the proxy \(proxy) answers with HTTP status \(head.status)")
        }
    }

    private func signInRefused(_ head: HTTPAnswerHead) -> Action {
        let schemes = (head.values(of: "proxy-authenticate") + head.values(of: "www-authenticate")).map {
            $0.prefix { $0 != " " && $0 != "," }.lowercased()
        }
        let place = "(in HTTPS_PROXY, or by kith up --proxy)"
        if !schemes.isEmpty, !schemes.contains("basic") {
            return .signInRefused(
                reason: "the proxy \(proxy) wants a sign-in of another kind than Basic, which is all that Kith knows")
        }
        return .signInRefused(
            reason: proxy.hasPassword
                ? "the proxy \(proxy) does not accept the name and password it is given \(place)"
                : "the proxy \(proxy) wants a name and a password \(place)")
    }
}
