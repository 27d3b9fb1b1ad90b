internal import KithIdentity
internal import KithTrust
internal import KithWire

/// What is encrypted to the keys of people: envelopes, messages to one key, labelled members, and the ring that holds
/// the keys, as it is inside its seal.
enum FuzzedEnvelopes {
    private enum NoteLabel: FieldLabel { static let label = "note" }

    private struct Note: Codable {
        var place: String
        @Labelled<NoteLabel, String> var text: String?
    }

    private struct Keys {
        var device: DeviceKey
        var mine: AgreementKey
        var other: AgreementKey
    }

    private static let context = Array("kith fuzz".utf8)
    private static let ringLabel = "kith key ring 1"

    private static let keys: Keys = {
        do {
            return Keys(
                device: try DeviceKey(seed: [UInt8](repeating: 4, count: 32)),
                mine: try AgreementKey(scalar: [UInt8](repeating: 5, count: 32)),
                other: try AgreementKey(scalar: [UInt8](repeating: 6, count: 32)))
        } catch {
            preconditionFailure("keys can be made: \(error)")
        }
    }()

    private static var fields: FieldKeys {
        FieldKeys(context: "fuzz", sealing: ["note": [keys.mine.publicKey]], opening: [keys.mine])
    }

    /// One of each, and envelopes that announce more than they have.
    static let seeds: [[UInt8]] = {
        do {
            let both = [keys.mine.publicKey, keys.other.publicKey]
            let envelope = try Envelope(sealing: [1, 2, 3], to: both, metadata: [7], context: context)
            var ring = KeyRing()
            try ring.hold(RootKey(scalar: [UInt8](repeating: 8, count: 32)))
            try ring.add(NetworkKey(named: KeyLabel("home")))
            guard let opened = keys.device.unseal(try ring.sealed(by: keys.device, generation: 1), ringLabel) else {
                preconditionFailure("a ring is sealed under another label than the fuzzer's")
            }
            let note = try fields.use { try CBOREncoder().encode(Note(place: "here", text: "hidden")) }
            var seeds = [
                envelope.bytes, try Envelope(sealing: [], to: [keys.other.publicKey], context: []).bytes,
                try keys.mine.publicKey.seal([9], authenticating: context), keys.mine.publicKey.bytes, opened, note,
                Array(keys.mine.publicKey.id.description.utf8),
            ]
            // The length of the metadata, and the number of the recipients behind its one byte.
            for place in [8, 11] {
                for number: [UInt8] in [[0, 0], [0x10, 0], [0x10, 1], [1, 0], [1, 1], [0xFF, 0xFF]] {
                    var bytes = envelope.bytes
                    bytes.replaceSubrange(place..<place + 2, with: number)
                    seeds.append(bytes)
                }
            }
            return seeds
        } catch {
            preconditionFailure("seeds can be made: \(error)")
        }
    }()

    static func run(_ bytes: [UInt8]) {
        if let envelope = try? Envelope(bytes) {
            precondition(envelope.bytes == bytes, "An envelope is kept as it came")
            precondition((1...Envelope.recipientLimit).contains(envelope.recipients.count), "Recipients are bounded")
            precondition(envelope.metadata.count <= Envelope.metadataLimit, "Metadata is bounded")
            // The other holder is not asked: a recipient that an envelope names itself opens nothing for this one.
            if !envelope.isFor([keys.mine]) {
                precondition((try? envelope.open(with: [keys.mine], context: context)) == nil, "It is not for this key")
            }
            _ = try? envelope.open(with: [keys.mine], context: context)
        }
        _ = try? keys.mine.open(bytes, authenticating: context)
        if let key = try? AgreementPublicKey(bytes) { precondition(key.bytes == bytes, "A key has one form") }
        if let note = try? fields.use({ try CBORDecoder().decode(Note.self, from: bytes) }) {
            precondition(!note.$text.isSealed || note.text == nil, "What is sealed shows no value")
        }
        let sealed = keys.device.seal(bytes, ringLabel)
        if let ring = try? KeyRing(sealed, by: keys.device, generation: 1) {
            precondition(ring.networks.count <= KeyRing.networkLimit, "A ring is bounded")
            guard let again = try? ring.sealed(by: keys.device, generation: 2),
                (try? KeyRing(again, by: keys.device, generation: 1)) == nil,
                let second = try? KeyRing(again, by: keys.device, generation: 2)
            else { preconditionFailure("A ring that was read can be written, and is read as its generation only") }
            precondition(second.networks.map(\.id) == ring.networks.map(\.id), "A ring survives")
        }
        let text = String(decoding: bytes, as: UTF8.self)
        if let id = KeyID(text) { precondition(KeyID(id.description) == id, "A key's id survives its text form") }
        if let label = try? KeyLabel(text) {
            precondition((try? KeyLabel(label.text)) == label, "A label that was accepted is accepted again")
        }
    }
}
