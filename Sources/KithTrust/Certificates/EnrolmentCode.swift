import Crypto
import CryptoExtras
public import KithIdentity
public import KithWire

/// The short code by which two devices prove to each other that one person stands at both.
///
/// Eight letters of base32, 40 random bits, as `abcd-efgh`. A proof is an HMAC under the code stretched by scrypt; it names
/// the root, both devices and the nonce of the request, so it is worth nothing for another root, between others, or again.
public struct EnrolmentCode: Hashable, Sendable {
    /// The wrong proofs after which a request is void.
    public static let attemptLimit = 3

    /// The letters, without the hyphen.
    private let letters: String

    /// Makes a random code.
    public init() { letters = Base32.encode((0..<5).map { _ in UInt8.random(in: 0 ... .max) }) }

    /// Reads one as a person types it: case, blanks and hyphens do not matter.
    public init?(_ text: String) {
        guard text.utf8.count <= 64 else { return nil }
        let letters = text.lowercased().filter { $0 != "-" && $0 != " " }
        guard letters.utf8.count == 8, Base32.decode(letters)?.count == 5 else { return nil }
        self.letters = letters
    }

    /// The ends of an enrolment, and what they agree on.
    public struct Terms: Hashable, Sendable {
        /// The nonce of the request.
        public var nonce: [UInt8]
        /// The public key of the root, 65 bytes.
        public var root: [UInt8]
        /// The device that holds the root key.
        public var holder: DeviceID
        /// The device that asks for a certificate.
        public var device: DeviceID

        /// Describes an enrolment.
        public init(nonce: [UInt8], root: [UInt8], holder: DeviceID, device: DeviceID) {
            self.nonce = nonce
            self.root = root
            self.holder = holder
            self.device = device
        }

        var bytes: [UInt8] { nonce + root + holder.bytes + device.bytes }
    }

    /// The code, stretched for one request: costs about 50 ms and 16 MiB, once.
    public func secret(for nonce: [UInt8], of device: DeviceID) throws(KithError) -> EnrolmentSecret {
        do {
            return EnrolmentSecret(
                key: try KDF.Scrypt.deriveKey(
                    from: Array(letters.utf8), salt: Array("kith enrolment 1 code".utf8) + nonce + device.bytes,
                    outputByteCount: 32, rounds: 1 << 14, blockSize: 8, parallelism: 1))
        } catch {
            throw KithError(.exhausted, "There is not enough memory to check the code.", cause: error)
        }
    }
}

extension EnrolmentCode: CustomStringConvertible {
    /// The text form, `abcd-efgh`: a secret until it is used.
    public var description: String { "\(letters.prefix(4))-\(letters.suffix(4))" }
}

/// The secret made of a code for one request.
public struct EnrolmentSecret: Sendable {
    let key: SymmetricKey

    /// The holder's proof that its person knows the code, and means this root.
    public func holderProof(_ terms: EnrolmentCode.Terms) -> [UInt8] { code("holder", terms.bytes) }

    /// Tells whether it is the holder's proof, in the same time whatever is wrong.
    public func isHolderProof(_ proof: [UInt8], _ terms: EnrolmentCode.Terms) -> Bool {
        isCode(proof, "holder", terms.bytes)
    }

    /// The device's proof that the request is the one the code belongs to.
    public func deviceProof(_ terms: EnrolmentCode.Terms, of request: [UInt8]) -> [UInt8] {
        code("device", terms.bytes + Array(SHA256.hash(data: request)))
    }

    /// Tells whether it is the device's proof of that request.
    public func isDeviceProof(_ proof: [UInt8], _ terms: EnrolmentCode.Terms, of request: [UInt8]) -> Bool {
        isCode(proof, "device", terms.bytes + Array(SHA256.hash(data: request)))
    }

    private func message(_ end: String, _ bytes: [UInt8]) -> [UInt8] {
        Array("kith enrolment 1 \(end)".utf8) + [0] + bytes
    }

    private func code(_ end: String, _ bytes: [UInt8]) -> [UInt8] {
        Array(HMAC<SHA256>.authenticationCode(for: message(end, bytes), using: key))
    }

    private func isCode(_ proof: [UInt8], _ end: String, _ bytes: [UInt8]) -> Bool {
        HMAC<SHA256>.isValidAuthenticationCode(proof, authenticating: message(end, bytes), using: key)
    }
}
