import KithReach
import KithWire

/// The members of etcd that are asked, one after the other, and the pauses between.
///
/// One that fails is left for the next at once; when all have failed in a row there is a pause, 0.25 s at first and twice
/// as long each time, to 8 s.
struct EtcdEndpoints: Hashable {
    /// The most that may be given.
    static let limit = 16

    /// The port of etcd's clients, when none is written.
    private static let port = 2_379

    private let all: [RelayAddress]
    private var index = 0
    /// The failures since the last answer.
    private var failures = 0

    /// The one to ask now.
    var current: RelayAddress { all[index] }

    /// True when each has failed since the last answer.
    var haveAllFailed: Bool { failures >= all.count }

    init(_ all: [RelayAddress]) {
        precondition(!all.isEmpty, "somebody is asked")
        self.all = all
    }

    /// Reads `http://HOST:2379,…`.
    ///
    /// - Throws: `KithError` `.invalid`.
    static func parse(_ text: String) throws(KithError) -> [RelayAddress] {
        let parts = text.split(separator: ",", omittingEmptySubsequences: false)
        guard parts.count <= limit else {
            throw KithError(.invalid, "etcd has at most \(limit) endpoints here; these are \(parts.count).")
        }
        var all: [RelayAddress] = []
        for part in parts {
            var url = part.trimming(" ")
            if url.hasSuffix("/") { url.removeLast() }
            let scheme = url.hasPrefix("https://") ? "https://" : "http://"
            let place = url.dropFirst(scheme.count)
            let hasPort = place.last != "]" && place.contains(":")
            // A name and a password in a URL are seen by everybody on this machine.
            guard url.hasPrefix(scheme), !place.contains(where: { "/?#@".contains($0) }),
                let address = RelayAddress(hasPort ? url : "\(url):\(port)")
            else {
                throw KithError(
                    .invalid,
                    "etcd's endpoints are URLs of a scheme, a host and a port, such as http://10.0.0.5:2379, separated by "
                        + "commas.")
            }
            all.append(address)
        }
        guard Set(all).count == all.count else { throw KithError(.invalid, "An endpoint of etcd is given twice.") }
        return all
    }

    /// Notes an answer.
    mutating func succeeded() { failures = 0 }

    /// Goes on to the next, and returns how long to wait before it is asked; `jitter` is 0 to 1.
    mutating func failed(jitter: Double) -> Duration {
        failures += 1
        index = (index + 1) % all.count
        guard failures.isMultiple(of: all.count) else { return .zero }
        let rounds = failures / all.count - 1
        // It need not be counted further.
        if rounds == 15 { failures -= all.count }
        return .milliseconds(min(8_000, 250 << min(rounds, 5))) * (0.75 + 0.5 * jitter)
    }
}

extension StringProtocol {
    /// The text without that character at both ends.
    fileprivate func trimming(_ character: Character) -> String {
        String(drop { $0 == character }.reversed().drop { $0 == character }.reversed())
    }
}
