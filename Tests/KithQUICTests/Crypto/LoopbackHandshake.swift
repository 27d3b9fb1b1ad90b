import Crypto
import KithQUIC

/// Two TLS sessions in memory that exchange CRYPTO bytes until neither has any left.
///
/// Works as a connection does: bytes of a level are only handed over once the receiver has that level's keys.
struct LoopbackHandshake {
    let client: TLSSession
    let server: TLSSession

    /// The alert each end has thrown.
    var clientAlert: TLSAlert?
    var serverAlert: TLSAlert?

    /// Secrets in the order they were produced.
    var clientSecrets: [TrafficSecret] = []
    var serverSecrets: [TrafficSecret] = []

    /// How many bytes the client's first flight has.
    var clientHelloLength = 0

    /// How many bytes go into one `provide`.
    var fragment = Int.max

    init(_ client: TLSConfiguration, _ server: TLSConfiguration) throws(TLSAlert) {
        self.client = try TLSSession(client)
        self.server = try TLSSession(server)
    }

    mutating func run() {
        do throws(TLSAlert) { try client.advance() } catch { clientAlert = error }
        var turns = 0
        while turns < 20 {
            turns += 1
            var moved = false
            clientSecrets += Self.secrets(of: client)
            while let output = client.nextOutput() {
                moved = true
                if output.level == .initial, clientHelloLength == 0 { clientHelloLength = output.bytes.count }
                Self.feed(output, to: server, fragment: fragment, alert: &serverAlert)
            }
            serverSecrets += Self.secrets(of: server)
            while let output = server.nextOutput() {
                moved = true
                Self.feed(output, to: client, fragment: fragment, alert: &clientAlert)
            }
            if !moved { return }
        }
    }

    private static func secrets(of session: TLSSession) -> [TrafficSecret] {
        var found: [TrafficSecret] = []
        while let secret = session.nextSecret() { found.append(secret) }
        return found
    }

    private static func feed(
        _ output: (level: EncryptionLevel, bytes: [UInt8]), to session: TLSSession, fragment: Int,
        alert: inout TLSAlert?
    ) {
        guard alert == nil else { return }
        var rest = output.bytes[...]
        do throws(TLSAlert) {
            while !rest.isEmpty {
                try session.provide(output.level, Array(rest.prefix(fragment)))
                rest = rest.dropFirst(fragment)
                try session.advance()
            }
        } catch {
            alert = error
        }
    }
}

/// A device with a key, for a handshake.
struct Identity {
    let seed: [UInt8]
    let publicKey: [UInt8]

    init(_ byte: UInt8) throws {
        seed = [UInt8](repeating: byte, count: 32)
        publicKey = Array(try Curve25519.Signing.PrivateKey(rawRepresentation: seed).publicKey.rawRepresentation)
    }

    var rawPublicKey: Credential { .rawPublicKey(seed: seed) }

    func x509() throws -> Credential { .x509(chain: [try certificate()], seed: seed) }

    /// A self-signed Ed25519 certificate, valid 2020…2040, as RFC 5280 and RFC 8410 lay it out.
    func certificate() throws -> [UInt8] {
        let ed25519 = Self.der(0x30, [0x06, 0x03, 0x2b, 0x65, 0x70])
        let commonName = Self.der(0x30, [0x06, 0x03, 0x55, 0x04, 0x03] + Self.der(0x0c, Array("kith".utf8)))
        let name = Self.der(0x30, Self.der(0x31, commonName))
        let validity = Self.der(
            0x30, Self.der(0x17, Array("200101000000Z".utf8)) + Self.der(0x17, Array("400101000000Z".utf8)))
        let key = Self.der(0x30, ed25519 + Self.der(0x03, [0] + publicKey))
        let body = Self.der(
            0x30,
            Self.der(0xa0, [0x02, 0x01, 0x02]) + [0x02, 0x01, 0x01] + ed25519 + name + validity + name + key)
        let signature = try Curve25519.Signing.PrivateKey(rawRepresentation: seed).signature(for: body)
        return Self.der(0x30, body + ed25519 + Self.der(0x03, [0] + Array(signature)))
    }

    private static func der(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        switch content.count {
        case ..<0x80: [tag, UInt8(content.count)] + content
        case ..<0x100: [tag, 0x81, UInt8(content.count)] + content
        default: [tag, 0x82, UInt8(content.count >> 8), UInt8(content.count & 0xff)] + content
        }
    }
}

/// Bytes written as hex, spaces ignored.
func fromHex(_ hex: String) -> [UInt8] {
    let digits = hex.utf8.compactMap { Character(UnicodeScalar($0)).hexDigitValue }
    return stride(from: 0, to: digits.count - 1, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
}
