/// A version of the relay protocol, as WebSocket subprotocols name it.
package enum RelayVersion: UInt8, Hashable, Sendable, CaseIterable, Comparable {
    /// Without status frames: health is text.
    case v1 = 1
    /// With status frames.
    case v2 = 2

    /// The name in `Sec-WebSocket-Protocol`.
    package var name: String { "iroh-relay-v\(rawValue)" }

    /// The header of a client that speaks all of them, the best first.
    package static let offer = allCases.reversed().map(\.name).joined(separator: ", ")

    /// Reads a name; `nil` for one that is not known.
    package init?(name: some StringProtocol) {
        guard let version = Self.allCases.first(where: { $0.name == name }) else { return nil }
        self = version
    }

    /// The highest version of a list parted by commas; `nil` when none is known.
    package static func best(of offer: String) -> RelayVersion? {
        offer.split(separator: ",").compactMap { RelayVersion(name: $0.filter { $0 != " " && $0 != "\t" }) }.max()
    }

    /// Orders by number.
    package static func < (left: RelayVersion, right: RelayVersion) -> Bool { left.rawValue < right.rawValue }
}
