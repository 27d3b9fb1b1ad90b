import KithIdentity
import KithTrust
import Testing

@Suite struct IntroductionProofTests {
    private let laptop = DeviceKey()
    private let phone = DeviceKey()
    private let certificate: [UInt8] = [1, 2, 3]

    private func connection(_ exporter: UInt8 = 1) -> IntroductionProof {
        IntroductionProof(
            dialing: phone.id, dialed: laptop.id, exporter: [UInt8](repeating: exporter, count: 32))
    }

    @Test func `each end proves its own certificate, on this connection`() throws {
        let connection = connection()
        let dialing = try connection.signature(of: .dialing, with: certificate, by: phone)
        let dialed = try connection.signature(of: .dialed, with: certificate, by: laptop)
        #expect(connection.isValid(dialing, of: .dialing, with: certificate))
        #expect(connection.isValid(dialed, of: .dialed, with: certificate))
    }

    @Test func `a proof is worth nothing on another connection, at the other end, or for another certificate`() throws {
        let connection = connection()
        let proof = try connection.signature(of: .dialing, with: certificate, by: phone)
        #expect(!self.connection(2).isValid(proof, of: .dialing, with: certificate))
        #expect(!connection.isValid(proof, of: .dialed, with: certificate))
        #expect(!connection.isValid(proof, of: .dialing, with: [1, 2, 4]))
        var turned = connection
        swap(&turned.dialing, &turned.dialed)
        #expect(!turned.isValid(proof, of: .dialed, with: certificate))
        // Reflected: what the dialed end signed is not what the dialing one would.
        let other = try connection.signature(of: .dialed, with: certificate, by: phone)
        #expect(!connection.isValid(other, of: .dialing, with: certificate))
        #expect(!connection.isValid([], of: .dialing, with: certificate))
    }

    @Test func `another device's signature is not this one's`() throws {
        let connection = connection()
        let proof = try connection.signature(of: .dialing, with: certificate, by: laptop)
        #expect(!connection.isValid(proof, of: .dialing, with: certificate))
    }
}
