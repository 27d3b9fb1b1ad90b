import Foundation
import KithTesting
import KithWire
import Testing

@testable import KithTrust

@Suite struct `An envelope` {
    private let home = AgreementKey()
    private let work = AgreementKey()
    private let other = AgreementKey()
    private let text = Array("the 3rd of May".utf8)
    private let context = Array("diary".utf8)

    private func sealed(metadata: [UInt8] = [1, 2, 3]) throws -> Envelope {
        try Envelope(
            sealing: text, to: [home.publicKey, work.publicKey, home.publicKey], metadata: metadata, context: context)
    }

    @Test func `is opened by each recipient, and by nobody else`() throws {
        let envelope = try sealed()
        #expect(envelope.recipients == [home, work].map(\.publicKey.id).sorted())
        let read = try Envelope(envelope.bytes)
        #expect(read == envelope && read.metadata == [1, 2, 3] && read.recipients == envelope.recipients)
        for key in [home, work] {
            #expect(try read.open(with: [other, key], context: context) == text)
            #expect(throws: KithError(.denied, "")) { try read.open(with: [key], context: []) }
        }
        #expect(throws: KithError(.notFound, "")) { try read.open(with: [other], context: context) }
        #expect(throws: KithError(.notFound, "")) { try read.open(with: [], context: context) }
        #expect(try sealed() != envelope)
    }

    @Test func `is not opened with any bit changed, or any byte more or less`() throws {
        let envelope = try sealed()
        for index in envelope.bytes.indices {
            var changed = envelope.bytes
            changed[index] ^= 1 << UInt8(index % 8)
            #expect(throws: KithError.self) { try Envelope(changed).open(with: [home], context: context) }
        }
        for count in 0..<envelope.bytes.count {
            #expect(throws: KithError.self) {
                try Envelope(Array(envelope.bytes.prefix(count))).open(with: [home], context: context)
            }
        }
        #expect(throws: KithError.self) { try Envelope(envelope.bytes + [0]).open(with: [home], context: context) }
    }

    @Test func `keeps its recipients: nobody is left out or smuggled in`() throws {
        let envelope = try Envelope(sealing: text, to: [home.publicKey], context: context)
        let two = try sealed(metadata: [])
        // One recipient's record beside the content of another envelope, and one record taken out.
        let start = 12
        let record = Array(two.bytes[start..<start + 142])
        var smuggled = Array(envelope.bytes[..<10]) + [0, 2]
        smuggled += [record, Array(envelope.bytes[12..<154])].sorted { $0.lexicographicallyPrecedes($1) }.joined()
        smuggled += envelope.bytes[154...]
        let cut = Array(two.bytes[..<10]) + [0, 1] + record + two.bytes[(start + 284)...]
        for bytes in [smuggled, cut] {
            guard let changed = try? Envelope(bytes) else { continue }
            #expect(throws: KithError.self) { try changed.open(with: [home, work], context: context) }
        }
    }

    @Test func `has a few recipients, and little metadata`() throws {
        #expect(throws: KithError(.invalid, "")) { try Envelope(sealing: text, to: [], context: context) }
        #expect(throws: KithError(.exhausted, "")) { try sealed(metadata: [UInt8](repeating: 0, count: 4_097)) }
        #expect(try Envelope(sealed(metadata: [UInt8](repeating: 7, count: 4_096)).bytes).metadata.count == 4_096)
        let many = (0...256).map { _ in AgreementKey().publicKey }
        #expect(throws: KithError(.exhausted, "")) { try Envelope(sealing: text, to: many, context: context) }
    }
}

private enum MedicalLabel: FieldLabel { static let label = "medical" }
private enum HouseholdLabel: FieldLabel { static let label = "household" }
private typealias Medical<Value: Codable & Sendable> = Labelled<MedicalLabel, Value>
private typealias Household<Value: Codable & Sendable> = Labelled<HouseholdLabel, Value>

@Suite struct `Labelled members` {
    private struct Reading: Codable, Equatable {
        var room: String
        @Medical var pulse: Int?
        @Medical var pressure: Int?
        @Household var guests: [String]?
    }

    /// As a sender without the newest members has it, and as an attacker writes it.
    private struct Raw: Codable {
        var room: String
        var pulse: ByteString?
        var pressure: ByteString?
        var guests: ByteString?
    }

    private let doctor = AgreementKey()
    private let family = AgreementKey()

    private func keys(_ opening: [AgreementKey], context: String = "clinic") -> FieldKeys {
        FieldKeys(
            context: context,
            sealing: ["medical": [doctor.publicKey], "household": [family.publicKey, doctor.publicKey]],
            opening: opening)
    }

    private var reading: Reading {
        Reading(room: "3", pulse: 61, pressure: nil, guests: ["Ann"])
    }

    private func decode(_ bytes: [UInt8], _ keys: FieldKeys?) throws -> Reading {
        guard let keys else { return try CBORDecoder().decode(Reading.self, from: bytes) }
        return try keys.use { try CBORDecoder().decode(Reading.self, from: bytes) }
    }

    @Test func `are read by who holds a key of their label, the plain ones by anybody`() throws {
        let bytes = try keys([]).use { try CBOREncoder().encode(reading) }
        #expect(try decode(bytes, keys([doctor])) == reading)
        let home = try decode(bytes, keys([family]))
        #expect(home.room == "3" && home.guests == ["Ann"] && home.pulse == nil)
        #expect(home.$pulse.isSealed && !home.$guests.isSealed && !home.$pressure.isSealed)
        for keys in [keys([AgreementKey()]), nil] {
            let nobody = try decode(bytes, keys)
            #expect(nobody.room == "3" && nobody.pulse == nil && nobody.guests == nil)
            #expect(nobody.$pulse.isSealed && nobody.$guests.isSealed)
        }
        #expect(!bytes.containsSequence(Array("Ann".utf8)) && bytes.containsSequence(Array("room".utf8)))
    }

    @Test func `travel as JSON, too`() async throws {
        let data = try keys([]).use { try JSONEncoder().encode(reading) }
        #expect(!String(decoding: data, as: UTF8.self).contains("Ann"))
        let back = try keys([doctor]).use { try JSONDecoder().decode(Reading.self, from: data) }
        #expect(back == reading)
        // In whatever a task does meanwhile, and nowhere else.
        try await keys([doctor]).use {
            await Task.yield()
            #expect(try JSONDecoder().decode(Reading.self, from: data) == reading)
            let elsewhere = try await Task.detached { try JSONDecoder().decode(Reading.self, from: data) }.value
            #expect(elsewhere.$pulse.isSealed)
        }
    }

    @Test func `are never written in the clear`() throws {
        #expect(throws: KithError(.notFound, "")) { try CBOREncoder().encode(reading) }
        let without = FieldKeys(context: "clinic", sealing: ["medical": [doctor.publicKey], "household": []])
        #expect(throws: KithError(.notFound, "")) { try without.use { try CBOREncoder().encode(reading) } }
        // And nothing that is in the clear is taken for what was encrypted.
        struct Plain: Codable { var room = "3", pulse = 61 }
        #expect(throws: (any Error).self) { try decode(CBOREncoder().encode(Plain()), keys([doctor])) }
    }

    @Test func `go on as they are through whoever cannot read them`() throws {
        let bytes = try keys([]).use { try CBOREncoder().encode(reading) }
        var passed = try decode(bytes, nil)
        passed.room = "4"
        let on = try CBOREncoder().encode(passed)
        let back = try decode(on, keys([doctor]))
        #expect(back.room == "4" && back.pulse == 61 && back.guests == ["Ann"])
    }

    @Test func `belong to their member, their label and their context`() throws {
        let bytes = try keys([]).use { try CBOREncoder().encode(reading) }
        let raw = try CBORDecoder().decode(Raw.self, from: bytes)
        var moved = raw
        (moved.pulse, moved.pressure) = (nil, raw.pulse)
        var relabelled = raw
        relabelled.pulse = raw.guests
        for wrong in [moved, relabelled] {
            #expect(throws: KithError(.denied, "")) { try decode(CBOREncoder().encode(wrong), keys([doctor])) }
        }
        #expect(throws: KithError(.denied, "")) { try decode(bytes, keys([doctor], context: "office")) }
        // A missing one is none.
        var fewer = raw
        fewer.guests = nil
        #expect(try decode(CBOREncoder().encode(fewer), keys([doctor])).guests == nil)
    }
}

extension [UInt8] {
    fileprivate func containsSequence(_ part: [UInt8]) -> Bool {
        indices.contains { self[$0...].starts(with: part) }
    }
}
