import Crypto
@testable import KithIdentity
import KithWire
import Testing

@Suite struct PairingTests {
    private let inviterKey = DeviceKey()
    private let joinerKey = DeviceKey()
    private let exporter = [UInt8](repeating: 0x42, count: 32)

    private var channel: Pairing.Channel {
        Pairing.Channel(inviter: inviterKey.id, joiner: joinerKey.id, exporter: exporter)
    }

    private func invitation() -> Invitation {
        Invitation(ticket: Ticket(id: inviterKey.id, addresses: []), name: "one", expiresAt: 2_000_000_000)
    }

    private func join(
        _ invitation: Invitation, on channel: Pairing.Channel? = nil, nonce: [UInt8]? = nil
    ) -> Pairing.Joiner {
        guard let nonce else {
            return Pairing.Joiner(invitation, channel: channel ?? self.channel, name: "two", addresses: [])
        }
        return Pairing.Joiner(invitation, channel: channel ?? self.channel, name: "two", addresses: [], nonce: nonce)
    }

    private func invite(
        _ invitation: Invitation, _ present: Pairing.Present, on channel: Pairing.Channel? = nil
    ) throws -> Pairing.Inviter {
        try Pairing.Inviter(
            present, proofKey: invitation.proofKey, channel: channel ?? self.channel, name: "one", addresses: [])
    }

    // MARK: - The behaviour

    @Test func `both ends show the same six digits`() throws {
        var codes: Set<String> = []
        for _ in 0..<200 {
            let invitation = invitation()
            let joiner = join(invitation)
            #expect(joiner.present.invitation == invitation.id)
            let inviter = try invite(invitation, joiner.present)
            let (reveal, code) = try joiner.answer(inviter.challenge)
            #expect(try inviter.code(for: reveal) == code)
            #expect(code.wholeMatch(of: /[0-9]{3} [0-9]{3}/) != nil)
            codes.insert(code)
        }
        // Two of 200 random codes are equal now and then, twenty never.
        #expect(codes.count > 180)
    }

    @Test func `the messages survive the wire and hold neither the secret nor the nonce`() throws {
        let invitation = invitation()
        let nonce = [UInt8](100..<116)
        let joiner = join(invitation, nonce: nonce)
        let encoded = try CBOREncoder().encode(joiner.present)
        #expect(try CBORDecoder().decode(Pairing.Present.self, from: encoded) == joiner.present)
        for secret in [invitation.secret, invitation.proofKey, nonce] { #expect(!contains(encoded, secret)) }
        let inviter = try invite(invitation, joiner.present)
        let answer = try CBOREncoder().encode(inviter.challenge)
        #expect(try CBORDecoder().decode(Pairing.Challenge.self, from: answer) == inviter.challenge)
    }

    // MARK: - The attacks

    @Test func `a wrong secret is refused`() throws {
        let right = invitation()
        let wrong = invitation()
        #expect(throws: KithError(.unpaired, "")) { _ = try invite(right, join(wrong).present) }
        // Nor does it help to name the right invitation, or to know its public id.
        var present = join(wrong).present
        present.invitation = right.id
        #expect(throws: KithError(.unpaired, "")) { _ = try invite(right, present) }
    }

    @Test func `a proof made for one connection is worth nothing on another`() throws {
        let invitation = invitation()
        let present = join(invitation).present
        let others = [
            Pairing.Channel(
                inviter: inviterKey.id, joiner: joinerKey.id, exporter: [UInt8](repeating: 0x43, count: 32)),
            Pairing.Channel(inviter: inviterKey.id, joiner: DeviceKey().id, exporter: exporter),
            Pairing.Channel(inviter: DeviceKey().id, joiner: joinerKey.id, exporter: exporter),
            Pairing.Channel(inviter: joinerKey.id, joiner: inviterKey.id, exporter: exporter),
        ]
        for channel in others {
            #expect(throws: KithError(.unpaired, "")) { _ = try invite(invitation, present, on: channel) }
        }
    }

    @Test func `every changed bit of proof and commitment is refused`() throws {
        let invitation = invitation()
        let present = join(invitation).present
        for bit in 0..<256 {
            var changed = present
            changed.proof.bytes[bit / 8] ^= 1 << (bit % 8)
            #expect(throws: KithError(.unpaired, "")) { _ = try invite(invitation, changed) }
            changed = present
            changed.commitment.bytes[bit / 8] ^= 1 << (bit % 8)
            #expect(throws: KithError(.unpaired, "")) { _ = try invite(invitation, changed) }
        }
        for length in [0, 16, 31, 33, 64] {
            var changed = present
            changed.proof = ByteString([UInt8](repeating: 0, count: length))
            #expect(throws: KithError(.unpaired, "")) { _ = try invite(invitation, changed) }
            changed = present
            changed.commitment = ByteString([UInt8](repeating: 0, count: length))
            #expect(throws: KithError(.unpaired, "")) { _ = try invite(invitation, changed) }
        }
    }

    /// Somebody who knows the secret (a leaked invitation) stands between two honest ends with two connections.
    @Test func `somebody in the middle makes the codes differ`() throws {
        let invitation = invitation()
        let middle = DeviceKey().id
        var same = 0
        for round in 0..<200 {
            let left = Pairing.Channel(
                inviter: middle, joiner: joinerKey.id, exporter: [UInt8](repeating: UInt8(round), count: 32))
            let right = Pairing.Channel(
                inviter: inviterKey.id, joiner: middle, exporter: [UInt8](repeating: UInt8(round) ^ 0xFF, count: 32))
            let victim = join(invitation, on: left)
            // It must commit towards the inviter before it sees the victim's nonce: it can only choose its own.
            let mine = join(invitation, on: right)
            let inviter = try invite(invitation, mine.present, on: right)
            // It passes the inviter's own nonce on, the best it can do.
            let (_, shownToVictim) = try victim.answer(inviter.challenge)
            let shownToInviter = try inviter.code(for: try mine.answer(inviter.challenge).0)
            if shownToVictim == shownToInviter { same += 1 }
        }
        #expect(same <= 1)
    }

    @Test func `a nonce other than the one committed to is refused, so codes cannot be tried`() throws {
        let invitation = invitation()
        let joiner = join(invitation)
        let inviter = try invite(invitation, joiner.present)
        for number in 0..<1_000 as Range<UInt16> {
            let nonce = [UInt8(number >> 8), UInt8(number & 255)] + [UInt8](repeating: 9, count: 14)
            #expect(throws: KithError(.corrupt, "")) {
                _ = try inviter.code(for: Pairing.Reveal(nonce: ByteString(nonce)))
            }
        }
        for length in [0, 15, 17, 1_000] {
            let nonce = ByteString([UInt8](repeating: 1, count: length))
            #expect(throws: KithError(.corrupt, "")) { _ = try inviter.code(for: Pairing.Reveal(nonce: nonce)) }
        }
    }

    @Test func `a recorded pairing cannot be played again`() throws {
        let invitation = invitation()
        let nonce = [UInt8](repeating: 5, count: 16)
        let joiner = join(invitation, nonce: nonce)
        let first = try invite(invitation, joiner.present)
        let (reveal, code) = try joiner.answer(first.challenge)
        #expect(try first.code(for: reveal) == code)
        // The same messages on the same channel meet another challenge: the recorded code is not shown again.
        var repeated = 0
        for _ in 0..<50 {
            let second = try invite(invitation, joiner.present)
            #expect(second.challenge.nonce != first.challenge.nonce)
            if try second.code(for: reveal) == code { repeated += 1 }
        }
        #expect(repeated <= 1)
        // On another connection they are not even looked at.
        let other = Pairing.Channel(
            inviter: inviterKey.id, joiner: joinerKey.id, exporter: [UInt8](repeating: 1, count: 32))
        #expect(throws: KithError(.unpaired, "")) { _ = try invite(invitation, joiner.present, on: other) }
    }

    @Test func `a challenge of another length is refused`() throws {
        let joiner = join(invitation())
        for length in [0, 15, 17, 4_096] {
            let challenge = Pairing.Challenge(
                nonce: ByteString([UInt8](repeating: 0, count: length)), name: "", addresses: [])
            #expect(throws: KithError(.invalid, "")) { _ = try joiner.answer(challenge) }
        }
    }

    private func contains(_ bytes: [UInt8], _ part: [UInt8]) -> Bool {
        (0...max(0, bytes.count - part.count)).contains { bytes.dropFirst($0).starts(with: part) }
    }
}
