/// The way in which two devices are behind one NAT.
enum Sharing: String, CaseIterable {
    /// Behind one router at home, which passes packets between their networks.
    case lan
    /// Behind one router at home, which keeps their networks apart, as it does with that for guests.
    case apart
    /// The same, and what they send to its public address comes back to the other one (RFC 4787 §6).
    case hairpin
    /// Each behind a router of its own, and both routers behind a carrier's, which keeps its customers apart.
    case carrier
    /// The same, and what they send to the carrier's public address comes back to the other one.
    case carrierHairpin = "carrier-hairpin"

    var isByCarrier: Bool { self == .carrier || self == .carrierHairpin }

    /// The rules by which the router they share differs from one with a single network, for nft.
    struct Rules {
        private let sharing: Sharing
        private let interfaces: String
        private let network: String

        /// The interfaces that lead to the devices, and the network that all of them are in.
        init(_ sharing: Sharing, interfaces: [String], network: String) {
            (self.sharing, self.network) = (sharing, network)
            self.interfaces = "{ \(interfaces.joined(separator: ", ")) }"
        }

        private var hairpins: Bool { sharing == .hairpin || sharing == .carrierHairpin }

        /// What goes from one to the other: nothing but what came to the public address.
        var filter: [String] {
            guard sharing != .lan else { return [] }
            return ["accept", "drop"].map {
                "iifname \(interfaces) oifname \(interfaces) \($0 == "accept" ? "ct status dnat " : "")\($0)"
            }
        }

        func destination(_ address: String) -> String? {
            hairpins ? "ip daddr \(address) meta l4proto udp dnat ip to udp dport map @mapped" : nil
        }

        /// The sender is seen at the public address, as it is from outside.
        func translation(_ address: String) -> [String] {
            let isBack = "ip saddr \(network) ct status dnat meta l4proto udp"
            return hairpins
                ? ["\(isBack) update @mapped { udp sport : ip saddr . udp sport }", "\(isBack) snat to \(address)"] : []
        }
    }
}
