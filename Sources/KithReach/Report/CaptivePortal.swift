import KithWire

/// A network's page that answers in place of the internet until somebody has signed in there.
///
/// Found as iroh does: a relay's host is asked for `/generate_204` with a random challenge, to which only a relay gives
/// the right answer.
package struct CaptivePortal: Hashable, Sendable {
    /// The page to open, to sign in.
    package let url: String

    /// The most bytes of a page's URL that is shown.
    private static let maxLength = 256

    /// Makes one that sends to a page, or answers itself for `host`.
    init(redirectedTo location: String?, host: String) {
        // It comes from whoever runs the network: what is not plainly a URL is not shown to anybody.
        if let location, location.utf8.count <= Self.maxLength, Self.host(of: location) != nil,
            location.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
        {
            url = location
        } else {
            url = "http://\(host.contains(":") ? "[\(host)]" : host)/"
        }
    }

    /// Judges the answer to ``request(to:challenge:)``; nil when no portal gave it.
    ///
    /// A redirection to the host itself is its web server's, and so is an error: a relay that is down may have one.
    package init?(answer: HTTPAnswerHead, from host: String, challenge: String) {
        switch answer.status {
        case 204 where answer["x-iroh-response"] == "response \(challenge)": return nil
        case 200...299, 511: self.init(redirectedTo: nil, host: host)
        case 300...399:
            let location = answer["location"]
            if let location, location.hasPrefix("/") && !location.hasPrefix("//") || Self.host(of: location) == host {
                return nil
            }
            self.init(redirectedTo: location, host: host)
        default: return nil
        }
    }

    /// The host of a URL of the web.
    private static func host(of url: String) -> String? {
        guard let colon = url.firstRange(of: "://"), ["http", "https"].contains(url[..<colon.lowerBound].lowercased())
        else { return nil }
        let authority = url[colon.upperBound...].prefix { !"/?#".contains($0) }
        guard let place = RelayAddress.place(authority) else { return nil }
        return RelayAddress(host: String(place.host), port: place.port, isSecure: false)?.host
    }

    /// The request to a host.
    package static func request(to host: String, port: UInt16, challenge: String) -> [UInt8] {
        let name = host.contains(":") ? "[\(host)]" : host
        return Array(
            """
            GET /generate_204 HTTP/1.1\r
            Host: \(name)\(port == 80 ? "" : ":\(port)")\r
            X-Iroh-Challenge: \(challenge)\r
            Connection: close\r
            \r

            """.utf8)
    }

    /// A challenge that nobody guesses.
    package static func challenge(using random: inout some RandomNumberGenerator) -> String {
        Hex.encode((0..<16).map { _ in UInt8.random(in: 0...255, using: &random) })
    }
}
