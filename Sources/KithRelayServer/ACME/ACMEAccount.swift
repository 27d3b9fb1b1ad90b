import Crypto
import Foundation
import KithWire

/// An account at an authority: a key, and what was agreed to with it.
package struct ACMEAccount: Sendable {
    /// The key that signs every request.
    let key: P256.Signing.PrivateKey
    /// The account's URL, once the authority knows it.
    var url: ACMEURL?
    /// The URL of the terms that were agreed to; empty where the authority has none.
    var terms: String?
    /// The address of mail the authority knows.
    var email: String?

    /// Makes an account that no authority knows.
    init(key: P256.Signing.PrivateKey = P256.Signing.PrivateKey()) { self.key = key }
}

extension ACMEAccount: Equatable {
    package static func == (left: ACMEAccount, right: ACMEAccount) -> Bool {
        left.key.publicKey.rawRepresentation == right.key.publicKey.rawRepresentation && left.url == right.url
            && left.terms == right.terms && left.email == right.email
    }
}

// MARK: - Signatures

extension ACMEAccount {
    private struct Key: Encodable {
        var crv = "P-256"
        var kty = "EC"
        var x: String
        var y: String
    }

    private struct Header: Encodable {
        var alg = "ES256"
        var jwk: Key?
        var kid: String?
        var nonce: String
        var url: String
    }

    private struct Signed: Encodable {
        var payload: String
        var protected: String
        var signature: String
    }

    private var publicKey: Key {
        let raw = key.publicKey.rawRepresentation
        return Key(x: Base64.encodeURL(raw.prefix(32)), y: Base64.encodeURL(raw.suffix(32)))
    }

    /// The SHA-256 of the public key in the form of RFC 7638.
    var thumbprint: String {
        let (x, y) = (publicKey.x, publicKey.y)
        return Base64.encodeURL(SHA256.hash(data: Data(#"{"crv":"P-256","kty":"EC","x":"\#(x)","y":"\#(y)"}"#.utf8)))
    }

    /// A signed request (RFC 8555 §6.2): by the account's URL, or by the key itself while there is none.
    func signed(_ payload: [UInt8], for url: ACMEURL, nonce: String) -> [UInt8] {
        var header = Header(nonce: nonce, url: url.description)
        if let account = self.url { header.kid = account.description } else { header.jwk = publicKey }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do {
            let protected = Base64.encodeURL(try encoder.encode(header))
            let body = Base64.encodeURL(payload)
            let signature = try key.signature(for: Data("\(protected).\(body)".utf8)).rawRepresentation
            return Array(
                try encoder.encode(
                    Signed(payload: body, protected: protected, signature: Base64.encodeURL(signature))))
        } catch {
            preconditionFailure("texts are always JSON, and a key in memory always signs: \(error)")
        }
    }
}

// MARK: - On disk

extension ACMEAccount {
    private struct Kept: Codable {
        var key: String
        var url: String?
        var terms: String?
        var email: String?
    }

    /// The bytes that are kept.
    var bytes: [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        let kept = Kept(key: key.pemRepresentation, url: url?.description, terms: terms, email: email)
        do {
            return Array(try encoder.encode(kept)) + [UInt8(ascii: "\n")]
        } catch {
            preconditionFailure("texts are always JSON: \(error)")
        }
    }

    /// Reads what was kept; `nil` when it is none.
    init?(bytes: [UInt8]) {
        guard let kept = try? JSONDecoder().decode(Kept.self, from: Data(bytes)),
            let key = try? P256.Signing.PrivateKey(pemRepresentation: kept.key)
        else { return nil }
        self.init(key: key)
        (url, terms, email) = (kept.url.flatMap { ACMEURL($0) }, kept.terms, kept.email)
    }
}
