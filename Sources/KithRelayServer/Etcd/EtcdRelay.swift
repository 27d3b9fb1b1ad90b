import Foundation
package import KithReach
import KithWire

/// A relay that lives, as its row in etcd says.
package struct EtcdRelay: Hashable, Sendable, Codable {
    /// The most bytes of a row.
    static let maxLength = 1_024

    /// Where devices reach it.
    package var url: String
    /// The number of its clients, lately.
    package var load: Int
    /// Where it stands, in its operator's words; empty when that is not said.
    package var region: String

    package init(url: RelayAddress, load: Int, region: String) {
        (self.url, self.load, self.region) = (url.description, load, region)
    }

    /// Reads a row; `nil` for one that is none.
    init?(_ bytes: [UInt8]) {
        guard bytes.count <= Self.maxLength,
            let relay = try? JSONDecoder().decode(Self.self, from: Data(bytes)),  // a refusal is an answer
            RelayAddress(relay.url)?.description == relay.url, relay.load >= 0, Self.isRegion(relay.region)
        else { return nil }
        self = relay
    }

    /// The row.
    var bytes: [UInt8] { EtcdMessages.json(self) }

    /// True for at most 64 printable letters of ASCII.
    package static func isRegion(_ text: String) -> Bool {
        text.utf8.count <= 64 && text.utf8.allSatisfy { (0x20..<0x7F).contains($0) }
    }
}
