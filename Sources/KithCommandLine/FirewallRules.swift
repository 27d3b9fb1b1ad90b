/// The rules on a port in a firewall's own files.
package enum FirewallRules {
    /// Tells whether the rules that a person has given ufw (`/etc/ufw/user.rules`) let a UDP port in from anywhere.
    package static func ufw(_ rules: String, letsIn port: UInt16) -> Bool {
        rules.split(separator: "\n").contains { line in
            let words = line.split(separator: " ")
            guard line.hasPrefix("-A ufw-user-input "), value(of: "-p", in: words) == "udp",
                value(of: "-j", in: words) == "ACCEPT", !words.contains("-s"), !words.contains("-i")
            else { return false }
            guard let ports = value(of: "--dport", in: words) ?? value(of: "--dports", in: words) else { return true }
            return ports.split(separator: ",").contains { part in
                let ends = part.split(separator: ":").compactMap { UInt16($0) }
                guard let first = ends.first, let last = ends.last else { return false }
                return first <= port && port <= last
            }
        }
    }

    private static func value(of option: String, in words: [Substring]) -> Substring? {
        words.firstIndex { $0 == option }.flatMap { $0 + 1 < words.count ? words[$0 + 1] : nil }
    }
}
