internal import KithIdentity
internal import KithReach
internal import KithWire

/// What anybody may send to a directory, to who asks one, and to who listens for DNS.
enum FuzzedRecords {
    /// A DNS message.
    static func dns(_ bytes: [UInt8]) {
        if let name = DNSName(String(decoding: bytes, as: UTF8.self)) {
            precondition(DNSName(name.description) == name, "A name survives its text form")
            precondition(name.length <= DNSName.maxLength, "A name that is too long is refused")
        }
        guard let message = try? DNSMessage(bytes) else { return }
        let records = message.answers + message.authorities + message.additional
        precondition(records.count <= bytes.count / 11, "A record has eleven bytes at least")
        precondition(
            records.allSatisfy { $0.name.length <= DNSName.maxLength }, "A name that is too long is refused")
        // What many pointers stood for may not fit when written: the host of a service is never compressed.
        guard let written = try? message.encoded() else { return }
        precondition((try? DNSMessage(written)) == message, "A message survives")
    }

    /// A signed record behind its key.
    static func record(_ bytes: [UInt8]) {
        if let id = DeviceID(zBase32: String(decoding: bytes, as: UTF8.self)) {
            precondition(DeviceID(zBase32: id.zBase32) == id, "A key survives z-base-32")
        }
        guard let device = try? DeviceID(publicKey: Array(bytes.prefix(32))),
            let record = try? SignedRecord(unverified: device, body: Array(bytes.dropFirst(32)))
        else { return }
        precondition(record.body == Array(bytes.dropFirst(32)), "A record survives")
        precondition(!record.replaces(record), "A record is not newer than itself")
        // The seeds are of a key that is written here; whoever fuzzes could sign by it, and does not.
        _ = record.isGenuine
        guard let said = try? DeviceRecord(record) else { return }
        precondition(
            said.relays.count <= DeviceRecord.maxRelays && said.addresses.count <= DeviceRecord.maxAddresses,
            "No more than there may be")
    }

    /// The public key of the bytes 0 to 31 as a private key.
    private static let key = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"

    static let seeds: (dns: [[UInt8]], record: [[UInt8]]) = {
        let (all, body) = (RecordVectors.everyType, RecordVectors.body)
        let message = Array(body.dropFirst(SignedRecord.prefixLength))
        var dns = [all, message]
        // A pointer to itself, one ahead, two to each other, a name of 256 bytes, counts of what is not there.
        let head: [UInt8] = [0, 0, 0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0]
        dns.append(head + [0xC0, 12, 0, 1, 0, 1])
        dns.append(head + [0xC0, 14, 0, 1, 0, 1])
        dns.append(head + [0xC0, 14, 0xC0, 12, 0, 1, 0, 1])
        dns.append(
            head + Array(repeating: [63] + [UInt8](repeating: 97, count: 63), count: 4).joined() + [0, 0, 1, 0, 1])
        dns.append([0, 0, 0x80, 0] + [UInt8](repeating: 0xFF, count: 8))
        let id = Hex.decode(key) ?? []
        return (dns, [id + body, id + body.prefix(72) + all, Array(ZBase32.encode(id).utf8)])
    }()
}
