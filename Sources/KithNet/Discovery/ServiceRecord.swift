import KithIO
import KithIdentity
import KithWire

/// The DNS-SD service of a device on one network: its signed announcement, as a TXT record of `_kith._udp`.
///
/// It says what the announcement to the group says, the device's key and its addresses there, and no name: the service
/// and its host are called by the key. Nobody needs the host's addresses, the announcement holds them; other tools do.
///
/// ```
/// <key>._kith._udp.local  SRV  <key>.local, port
///                         TXT  "txtvers=1" "a0=<base64url>" "a1=<base64url>" …
/// ```
struct ServiceRecord: Hashable {
    /// The service's type.
    static let type = "_kith._udp"
    /// The domain of the local network.
    static let domain = "local"
    /// The most strings that an announcement is spread over.
    private static let maxParts = 4
    /// The letters in one of them: with its key it stays below the 255 bytes that a string of TXT has.
    private static let partLength = 248
    /// The longest TXT record that is read, in bytes (RFC 6763 §6.2: it should fit into one packet).
    static let maxBytes = 1_300

    /// The system's number of the interface.
    let interface: UInt32
    /// The addresses the device listens at there.
    let addresses: [NetworkAddress]
    /// The strings of the TXT record.
    let text: [[UInt8]]

    /// Makes a service; `nil` for an announcement that does not fit.
    init?(interface: UInt32, addresses: [NetworkAddress], announcement: [UInt8]) {
        let letters = Array(Base64.encodeURL(announcement).utf8)
        guard letters.count <= Self.maxParts * Self.partLength else { return nil }
        self.interface = interface
        self.addresses = addresses
        text =
            [Array("txtvers=1".utf8)]
            + stride(from: 0, to: letters.count, by: Self.partLength).enumerated().map { index, start in
                Array("a\(index)=".utf8) + letters[start..<min(start + Self.partLength, letters.count)]
            }
    }

    /// The port of its SRV record.
    var port: UInt16 { addresses.first?.port ?? 0 }

    /// Returns the announcement in the data of a TXT record; `nil` when there is none.
    ///
    /// Anybody on the network can have written it: it is then read like a datagram.
    static func announcement(in data: [UInt8]) -> [UInt8]? {
        guard data.count <= maxBytes else { return nil }
        var parts: [Int: ArraySlice<UInt8>] = [:]
        var rest = data[...]
        while let length = rest.popFirst() {
            guard rest.count >= Int(length) else { return nil }
            let string = rest.prefix(Int(length))
            rest = rest.dropFirst(Int(length))
            for index in 0..<maxParts where string.starts(with: "a\(index)=".utf8) {
                // Of a key that is there twice the first counts (RFC 6763 §6.4).
                if parts[index] == nil { parts[index] = string.dropFirst(3) }
            }
        }
        guard !parts.isEmpty, parts.keys.allSatisfy({ $0 < parts.count }) else { return nil }
        let letters = (0..<parts.count).flatMap { parts[$0] ?? [] }
        guard let text = String(validating: letters, as: UTF8.self), let bytes = Base64.decodeURL(text),
            bytes.count <= LocalAnnouncement.maxBytes
        else { return nil }
        return bytes
    }

    // MARK: - Names

    /// Returns what a device's service is called; `attempt` counts the names that others on the network have taken.
    static func name(of device: DeviceID, attempt: Int = 0) -> String {
        let letters = device.description.filter { $0 != "-" }
        return attempt == 0 ? letters : "\(letters)-\(attempt + 1)"
    }

    /// Returns the device that a service is called by; `nil` for another name.
    ///
    /// Such a name holds letters, digits and hyphens only: there is nothing in it to escape.
    static func device(named name: String) -> DeviceID? {
        let parts = name.split(separator: "-", omittingEmptySubsequences: false)
        guard let letters = parts.first, letters.utf8.count == 55, parts.count <= 2 else { return nil }
        if parts.count == 2 {
            guard (1...3).contains(parts[1].utf8.count), parts[1].utf8.allSatisfy({ (48...57).contains($0) }) else {
                return nil
            }
        }
        return DeviceID(String(letters))
    }
}

/// The platform's DNS-SD responder, as discovery uses it.
protocol ServiceResponder: Sendable {
    /// Why it does nothing now; `nil` while it makes the device known.
    var problem: String? { get }

    /// Offers the services, and looks for those of other devices, until the task is cancelled.
    ///
    /// Comes back to a responder that was away.
    func run(on reactor: Reactor) async

    /// Offers these services, in place of those before.
    func publish(_ records: [ServiceRecord])

    /// Looks again at which services are wanted: others are paired now, or other networks used.
    func examine()

    /// Says goodbye with these, and waits until that is out.
    func leave(_ records: [ServiceRecord]) async
}
