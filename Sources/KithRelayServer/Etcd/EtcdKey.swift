import KithIdentity
import KithReach

/// The keys of a directory's rows in etcd.
///
/// ```
///  kith/record/KEY   a device's packet: key 32 │ signature 64 │ time 8 │ message; no lease
///  kith/at/KEY       the id of the relay that it is connected to now; the lease of that relay's process
///  kith/relay/ID     {"url": …, "load": clients, "region": …}; the same lease
/// ```
/// KEY is in z-base-32, as in the addresses of records.
enum EtcdKey: Hashable {
    case record(DeviceID)
    case at(DeviceID)
    case relay(String)

    /// The first of all keys, and the first behind them.
    static let range = (start: Array("kith/".utf8), end: Array("kith0".utf8))

    /// The most letters of a relay's id.
    static let maxRelayID = 64

    private static let (record, at, relay) = ("kith/record/", "kith/at/", "kith/relay/")

    /// Reads a key; `nil` for one that is none of a directory's.
    init?(_ bytes: [UInt8]) {
        guard bytes.count <= 128, bytes.starts(with: Self.range.start) else { return nil }
        let text = String(decoding: bytes, as: UTF8.self)
        if text.hasPrefix(Self.record) {
            guard let device = DeviceID(zBase32: text.dropFirst(Self.record.count)) else { return nil }
            self = .record(device)
        } else if text.hasPrefix(Self.at) {
            guard let device = DeviceID(zBase32: text.dropFirst(Self.at.count)) else { return nil }
            self = .at(device)
        } else if text.hasPrefix(Self.relay), Self.isRelayID(text.dropFirst(Self.relay.count)) {
            self = .relay(String(text.dropFirst(Self.relay.count)))
        } else {
            return nil
        }
    }

    /// The key as etcd has it.
    var bytes: [UInt8] {
        switch self {
        case .record(let device): Array((Self.record + device.zBase32).utf8)
        case .at(let device): Array((Self.at + device.zBase32).utf8)
        case .relay(let id): Array((Self.relay + id).utf8)
        }
    }

    /// True for 1 to ``maxRelayID`` letters, digits and hyphens.
    static func isRelayID(_ text: some StringProtocol) -> Bool {
        (1...maxRelayID).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte) || byte == 45
            }
    }
}
