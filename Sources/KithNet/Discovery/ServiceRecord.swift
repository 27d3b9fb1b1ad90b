import KithIdentity
import KithWire

/// The DNS-SD service of a device on one network: its signed announcement, sealed, as a TXT record of `_kith._udp`.
///
/// It says what the announcement to the group says, the device's key and its addresses there, to those who know the key.
/// Service and host go by names of the hour, see `ServiceName`. Nobody needs the host's addresses, the announcement holds
/// them; other tools do.
///
/// ```
/// <service>._kith._udp.local  SRV  <host>.local, port
///                             TXT  "txtvers=1" "a0=<base64url>" "a1=<base64url>" …
/// ```
struct ServiceRecord: Hashable {
    /// A name it may go by, and the strings of the TXT record then.
    struct Attempt: Hashable {
        let name: ServiceName
        let text: [[UInt8]]
    }

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
    /// The hour of its names.
    let hour: UInt64
    /// The names, in the order in which they are tried.
    let attempts: [Attempt]

    /// Makes a service; `nil` for an announcement that does not fit.
    init?(of device: DeviceID, hour: UInt64, interface: UInt32, addresses: [NetworkAddress], announcement: [UInt8]) {
        var attempts: [Attempt] = []
        for attempt in 0..<ServiceName.maxAttempts {
            let name = ServiceName(of: device, hour: hour, attempt: UInt8(attempt))
            guard let text = Self.text(name.seal(announcement)) else { return nil }
            attempts.append(Attempt(name: name, text: text))
        }
        self.interface = interface
        self.addresses = addresses
        self.hour = hour
        self.attempts = attempts
    }

    private static func text(_ bytes: [UInt8]) -> [[UInt8]]? {
        let letters = Array(Base64.encodeURL(bytes).utf8)
        guard letters.count <= maxParts * partLength else { return nil }
        return [Array("txtvers=1".utf8)]
            + stride(from: 0, to: letters.count, by: partLength).enumerated().map { index, start in
                Array("a\(index)=".utf8) + letters[start..<min(start + partLength, letters.count)]
            }
    }

    /// The port of its SRV record.
    var port: UInt16 { addresses.first?.port ?? 0 }

    /// Returns the strings in the data of a TXT record; `nil` when they are none, or too long.
    static func strings(in data: [UInt8]) -> [[UInt8]]? {
        guard data.count <= maxBytes else { return nil }
        var strings: [[UInt8]] = []
        var rest = data[...]
        while let length = rest.popFirst() {
            guard rest.count >= Int(length) else { return nil }
            strings.append(Array(rest.prefix(Int(length))))
            rest = rest.dropFirst(Int(length))
        }
        return strings
    }

    /// Returns the sealed announcement in the strings of a TXT record; `nil` when there is none.
    ///
    /// Anybody on the network can have written it.
    static func sealed(in strings: [[UInt8]]) -> [UInt8]? {
        guard strings.reduce(0, { $0 + 1 + $1.count }) <= maxBytes else { return nil }
        var parts: [Int: ArraySlice<UInt8>] = [:]
        for string in strings {
            for index in 0..<maxParts where string.starts(with: "a\(index)=".utf8) {
                // Of a key that is there twice the first counts (RFC 6763 §6.4).
                if parts[index] == nil { parts[index] = string.dropFirst(3) }
            }
        }
        guard !parts.isEmpty, parts.keys.allSatisfy({ $0 < parts.count }) else { return nil }
        let letters = (0..<parts.count).flatMap { parts[$0] ?? [] }
        guard let text = String(validating: letters, as: UTF8.self) else { return nil }
        return Base64.decodeURL(text)
    }
}

/// The names by which paired devices may be services now: those of this hour, the one before and the one after.
struct KnownServices {
    private struct Known {
        let device: DeviceID
        let name: ServiceName
    }

    private var hour: UInt64?
    private var devices: Set<DeviceID> = []
    private var names: [String: Known] = [:]

    /// Notes the hour and the paired devices; returns whether other names are looked for now.
    mutating func update(hour: UInt64, devices: [DeviceID]) -> Bool {
        let devices = Set(devices.sorted().prefix(DiscoveryEngine.maxDevices))
        guard hour != self.hour || devices != self.devices else { return false }
        if hour != self.hour { (names, self.devices) = ([:], []) }
        let gone = self.devices.subtracting(devices)
        if !gone.isEmpty { names = names.filter { !gone.contains($0.value.device) } }
        for device in devices.subtracting(self.devices) {
            for hour in [hour.saturatingSubtracting(1), hour, hour.saturatingAdding(1)] {
                for attempt in 0..<ServiceName.maxAttempts {
                    let name = ServiceName(of: device, hour: hour, attempt: UInt8(attempt))
                    names[name.service] = Known(device: device, name: name)
                }
            }
        }
        (self.hour, self.devices) = (hour, devices)
        return true
    }

    /// The device that has a name.
    func device(named label: String) -> DeviceID? { names[label]?.device }

    /// What the device of that name has said; `nil` when it is of nobody here, or not what that device says.
    func open(_ strings: [[UInt8]], named label: String) -> [UInt8]? {
        guard let known = names[label], let sealed = ServiceRecord.sealed(in: strings) else { return nil }
        return known.name.open(sealed)
    }
}
