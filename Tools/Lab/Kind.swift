import ArgumentParser

/// What stands between a device and the internet.
enum Kind: String, CaseIterable, ExpressibleByArgument, Codable {
    case open
    case fullCone = "full-cone"
    case restricted
    case portRestricted = "port-restricted"
    case symmetric
    case sequential
    case blocked
    case web

    var summary: String {
        switch self {
        case .open: "no NAT: the device has a public address, and no filter"
        case .fullCone: "one mapping for all destinations; whoever knows it reaches the device"
        case .restricted: "one mapping for all destinations; hosts the device has sent to reach it from any port"
        case .portRestricted: "one mapping for all destinations; only who was sent to, at that port, reaches the device"
        case .symmetric: "a mapping for each destination, at a random port; only that destination reaches the device"
        case .sequential: "a mapping for each destination, at the next port; only that destination reaches the device"
        case .blocked: "like port-restricted, and no UDP goes through"
        case .web: "like port-restricted, and nothing but TCP to the ports 80 and 443 goes through"
        }
    }

    /// The rules of a router, for nft.
    ///
    /// The router has the interfaces `wan`, with the public address, and `lan`. What is sent to its own UDP ports is
    /// dropped, or else a probe that comes early would take the port that a device behind it is about to be mapped to.
    func rules(public address: String, sharing: Sharing.Rules? = nil) -> String {
        """
        flush ruleset
        table ip lab {
          map mapped { type inet_service : ipv4_addr . inet_service; flags dynamic,timeout; timeout 120s; }
          set talked { type inet_service . ipv4_addr; flags dynamic,timeout; timeout 120s; }
          chain switch { type filter hook forward priority 10; }
          chain to_router { type filter hook input priority 0; iifname "wan" meta l4proto udp drop;
            \(sharing == nil ? "" : "ip daddr \(address) meta l4proto udp drop")
          }
          chain filter { type filter hook forward priority 0;
            \(((sharing?.filter ?? []) + filter).joined(separator: "\n    "))
          }
          chain before { type nat hook prerouting priority -100;
            \(isOneMapping ? "iifname \"wan\" meta l4proto udp dnat ip to udp dport map @mapped" : "")
            \(isOneMapping ? sharing?.destination(address) ?? "" : "")
          }
          chain after { type nat hook postrouting priority 100;
            \(((sharing?.translation(address) ?? []) + translation(address)).joined(separator: "\n    "))
          }
        }
        table ip6 lab {
          chain switch { type filter hook forward priority 10; }
          chain filter { type filter hook forward priority 0;
            \(filter6.joined(separator: "\n    "))
          }
        }

        """
    }

    private var isOneMapping: Bool {
        switch self {
        case .fullCone, .restricted, .portRestricted, .blocked, .web: true
        case .open, .symmetric, .sequential: false
        }
    }

    private func translation(_ address: String) -> [String] {
        switch self {
        case .open: []
        case .symmetric: ["oifname \"wan\" masquerade random,fully-random"]
        case .sequential:
            [
                // By a map: the generator's numbers would be taken for ports in the other byte order.
                "oifname \"wan\" meta l4proto udp snat ip to \(address):numgen inc mod 256 map { \(ports) }",
                "oifname \"wan\" snat to \(address)",
            ]
        case .fullCone, .restricted, .portRestricted, .blocked, .web:
            [
                // The map has to be written before the packet is: `snat` ends the chain.
                "oifname \"wan\" meta l4proto udp update @mapped { udp sport : ip saddr . udp sport }",
                "oifname \"wan\" snat to \(address)",
            ]
        }
    }

    private var ports: String { (0..<256).map { "\($0) : \(40_000 + $0)" }.joined(separator: ", ") }

    private static let known = "ct state established,related accept"

    private var filter: [String] {
        switch self {
        case .open, .fullCone: []
        case .restricted:
            [
                "oifname \"wan\" meta l4proto udp update @talked { udp sport . ip daddr }", Self.known,
                "iifname \"wan\" meta l4proto udp udp dport . ip saddr @talked accept", "iifname \"wan\" drop",
            ]
        case .portRestricted, .symmetric, .sequential: [Self.known, "iifname \"wan\" drop"]
        case .blocked: ["meta l4proto udp drop", Self.known, "iifname \"wan\" drop"]
        case .web: [Self.known, "oifname \"wan\" tcp dport { 80, 443 } accept", "drop"]
        }
    }

    /// IPv6 has no translation; its filter is that of home routers.
    private var filter6: [String] {
        switch self {
        case .open: []
        case .blocked: ["meta l4proto udp drop", Self.known, "iifname \"wan\" drop"]
        case .web: [Self.known, "oifname \"wan\" tcp dport { 80, 443 } accept", "drop"]
        default: [Self.known, "iifname \"wan\" drop"]
        }
    }
}
