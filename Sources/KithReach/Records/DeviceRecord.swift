public import KithIdentity
public import KithWire

/// How to reach a device, as its record says it: by which relays, and, for those who want that, at which addresses.
///
/// In the message of a ``SignedRecord`` these are strings, one for each TXT record:
///
/// ```
///  _iroh.KEY  relay=https://relay.example.org   at most 4, the home relay first
///             addr=192.0.2.1:4433               at most 16, only by choice
///             user-data=TEXT                    at most 245 bytes
///  _kith.KEY  relay=https://relay.example.org#RELAY-KEY
/// ```
/// iroh reads the strings of `_iroh`, and refuses all of them for one name it does not know or two `=` in one: what is
/// Kith's own stands under `_kith`. What is unknown here is passed over.
public struct DeviceRecord: Hashable, Sendable {
    /// The most relays.
    public static let maxRelays = 4
    /// The most addresses.
    public static let maxAddresses = 16
    /// The most bytes of ``userData``.
    public static let maxUserDataLength = 245
    /// The seconds after which a reader asks again.
    public static let timeToLive: UInt32 = 30
    /// The name that iroh reads.
    public static let irohName = "_iroh"
    /// The name of what is Kith's own.
    public static let kithName = "_kith"

    /// The relays where the device is, its home relay first.
    public var relays: [RelayAddress]
    /// Addresses in clear.
    public var addresses: [NetworkAddress]
    /// Whatever an application puts there for others to read.
    public var userData: String?

    /// Makes a record; without addresses, as is the default, it says nothing of where a device is.
    public init(relays: [RelayAddress] = [], addresses: [NetworkAddress] = [], userData: String? = nil) {
        self.relays = relays
        self.addresses = addresses
        self.userData = userData
    }

    /// Says nothing.
    public var isEmpty: Bool { relays.isEmpty && addresses.isEmpty && userData == nil }
}

// MARK: - Writing

extension DeviceRecord {
    /// Returns the record of the device with `key`, signed.
    ///
    /// - Throws: `KithError` `.invalid` for what a record has no room for, or cannot say.
    public func signed(by key: DeviceKey, at time: UInt64) throws(KithError) -> SignedRecord {
        try check()
        var message = DNSMessage()
        message.isResponse = true
        func add(_ label: String, _ strings: [String]) {
            let name = DNSName(checked: [Array(label.utf8), Array(key.id.zBase32.utf8)])
            message.answers += strings.map { DNSRecord(name, timeToLive: Self.timeToLive, .text([Array($0.utf8)])) }
        }
        add(
            Self.irohName,
            relays.map { "relay=\($0.withoutKey)" } + addresses.map { "addr=\($0)" }
                + (userData.map { ["user-data=\($0)"] } ?? []))
        add(Self.kithName, relays.filter { $0.key != nil }.map { "relay=\($0)" })
        do {
            return try SignedRecord(signing: try message.encoded(), at: time, by: key)
        } catch let error as KithError {
            throw error
        } catch {
            throw KithError(.invalid, "The record of this device cannot be written: \(error).", cause: error)
        }
    }

    private func check() throws(KithError) {
        guard relays.count <= Self.maxRelays else {
            throw KithError(.invalid, "A record names at most \(Self.maxRelays) relays, not \(relays.count).")
        }
        for relay in relays where "relay=\(relay)".utf8.count > 255 {
            throw KithError(.invalid, "The address of the relay \(relay.host) is too long for a record.")
        }
        guard addresses.count <= Self.maxAddresses else {
            throw KithError(.invalid, "A record names at most \(Self.maxAddresses) addresses, not \(addresses.count).")
        }
        for address in addresses where !Self.canPublish(address) {
            throw KithError(.invalid, "\(address) cannot be published: no other device can send to it.")
        }
        if let userData {
            guard userData.utf8.count <= Self.maxUserDataLength, !userData.utf8.contains(UInt8(ascii: "=")) else {
                throw KithError(
                    .invalid,
                    "The user data of a record has at most \(Self.maxUserDataLength) bytes, and no equals sign.")
            }
        }
    }

    /// Tells whether an address means the same to whoever reads it, and can be sent to.
    private static func canPublish(_ address: NetworkAddress) -> Bool {
        address.port != 0 && address.zone == 0 && !address.isUnspecified && !address.isMulticast && !address.isLoopback
    }
}

// MARK: - Reading

extension DeviceRecord {
    /// Reads what a device's record says.
    ///
    /// A string that says nothing readable is passed over, as is what exceeds the limits.
    ///
    /// - Throws: `WireError` when it holds no DNS message.
    public init(_ record: SignedRecord) throws(WireError) {
        self.init(try DNSMessage(record.message), of: record.device.zBase32)
    }

    /// Reads what the answers of a message say under the names of `labels`, a device's key and what follows it.
    private init(_ message: DNSMessage, of key: String) {
        self.init()
        func strings(_ label: String) -> [(name: Substring, value: String)] {
            let name = DNSName(checked: [Array(label.utf8), Array(key.utf8)])
            return message.answers.flatMap { answer -> [(name: Substring, value: String)] in
                guard answer.name == name, case .text(let parts) = answer.content else { return [] }
                return parts.compactMap { part in
                    guard let text = String(validating: part, as: UTF8.self),
                        let sign = text.firstIndex(of: "=")
                    else { return nil }
                    return (text[..<sign], String(text[text.index(after: sign)...]))
                }
            }
        }
        for (name, value) in strings(Self.irohName) {
            switch name {
            case "relay":
                if let relay = RelayAddress(value), relays.count < Self.maxRelays, !relays.contains(relay) {
                    relays.append(relay)
                }
            case "addr":
                if let address = NetworkAddress(value), Self.canPublish(address),
                    addresses.count < Self.maxAddresses, !addresses.contains(address)
                {
                    addresses.append(address)
                }
            case "user-data":
                if userData == nil, value.utf8.count <= Self.maxUserDataLength { userData = value }
            default: break
            }
        }
        for (name, value) in strings(Self.kithName) where name == "relay" {
            guard let relay = RelayAddress(value), relay.key != nil else { continue }
            if let index = relays.firstIndex(where: { $0 == relay.withoutKey }) {
                relays[index] = relay
            } else if relays.count < Self.maxRelays, !relays.contains(relay) {
                relays.append(relay)
            }
        }
    }
}
