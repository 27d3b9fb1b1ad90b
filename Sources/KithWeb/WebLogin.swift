import Crypto
import KithRPC
import KithWire

/// What a page and this device say to each other before anything else.
enum WebLogin {
    /// The version of this exchange.
    static let version = 1

    /// The first message of the device.
    struct Hello: Codable, Hashable {
        var nonce: String
        var device: String
        var version: Int
    }

    /// The first message of a page.
    struct Request: Codable, Hashable {
        var key: String
        var signature: String
        var name: String?
        var proof: String?
        /// 32 random bytes, which the answer is to be signed with.
        var challenge: String
    }

    /// The answer to a page that is let in.
    struct Welcome: Codable, Hashable {
        var device: String
        var name: String
        var browser: String
        var ends: String
        /// The device's Ed25519 public key, and its signature over ``welcomeText(_:challenge:)``: what answers is that device.
        var key: String?
        var signature: String?
    }

    /// The answer to one that is not.
    struct Refused: Codable, Hashable, Error {
        /// The reason, for the page.
        enum Code: String, Codable {
            /// Its key is not known: it needs a link.
            case unknown
            /// Its right has ended.
            case expired
            /// Something in it is not as it has to be.
            case wrong
            /// Others are tried first.
            case crowded
        }

        var code: Code
        var message: String
    }

    private struct Frame<Value: Codable>: Codable {
        var hello: Value?
        var login: Value?
        var welcome: Value?
        var refused: Value?
    }

    static func frame(_ hello: Hello) throws -> [UInt8] { try JSONText.encode(Frame(hello: hello)) }
    static func frame(_ welcome: Welcome) throws -> [UInt8] { try JSONText.encode(Frame(welcome: welcome)) }
    static func frame(_ refused: Refused) throws -> [UInt8] { try JSONText.encode(Frame(refused: refused)) }

    /// What a page has proven: that it has a key, and perhaps that it was led here by a link.
    struct Claim: Hashable {
        /// Its Ed25519 public key, 32 bytes.
        var key: [UInt8]
        /// The name it calls itself, fit to be shown.
        var name: String
        /// The proof that it knows a link's secret, to be checked; `nil`: it says it is known already.
        var proof: [UInt8]?
        /// The text that the proof is over.
        var transcript: [UInt8]
        /// What the page wants to see signed, as it was written.
        var challenge: String
    }

    /// Reads a page's first message, and checks its signature.
    static func claim(_ message: [UInt8], nonce: String, device: String, origin: String) throws(Refused) -> Claim {
        guard let frame = try? JSONText(message).decode(Frame<Request>.self),  // whatever else it is, it is not that
            let request = frame.login
        else { throw wrong("it does not begin with a login") }
        guard let key = exactly(32, request.key) else { throw wrong("its key is not one") }
        guard exactly(32, request.challenge) != nil else { throw wrong("its challenge is not one") }
        guard let signature = exactly(64, request.signature) else { throw wrong("its signature is not one") }
        var proof: [UInt8]?
        if let text = request.proof {
            guard let bytes = exactly(32, text) else { throw wrong("its proof is not one") }
            proof = bytes
        }
        let transcript = transcript(nonce: nonce, device: device, origin: origin, key: request.key)
        // A key that is not a point is as good as a wrong signature.
        guard let publicKey = try? Curve25519.Signing.PublicKey(rawRepresentation: key),
            publicKey.isValidSignature(signature, for: transcript)
        else { throw wrong("its signature is not over what this device sent") }
        return Claim(
            key: key, name: name(request.name ?? ""), proof: proof, transcript: transcript, challenge: request.challenge
        )
    }

    /// The text that a page signs.
    static func transcript(nonce: String, device: String, origin: String, key: String) -> [UInt8] {
        Array("kith web 1\n\(nonce)\n\(device)\n\(origin)\n\(key)".utf8)
    }

    /// The text that the device signs when it lets a page in.
    static func welcomeText(_ transcript: [UInt8], challenge: String) -> [UInt8] {
        Array("kith web welcome 1\n".utf8) + transcript + Array("\n\(challenge)".utf8)
    }

    /// A browser's name as it is shown: 1 to 48 characters, none of them hidden.
    static func name(_ text: String) -> String {
        var scalars = String.UnicodeScalarView()
        for scalar in text.unicodeScalars.prefix(256) {
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned: break
            default: scalars.append(scalar)
            }
        }
        var name = String(String(scalars).prefix(48))
        while name.utf8.count > 96 { name.removeLast() }
        name = name.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        return name.isEmpty ? "browser" : name
    }

    private static func exactly(_ count: Int, _ text: String) -> [UInt8]? {
        guard text.utf8.count <= 2 * count, let bytes = Base64.decodeURL(text), bytes.count == count else { return nil }
        return bytes
    }

    private static func wrong(_ why: String) -> Refused {
        Refused(code: .wrong, message: "The page could not be signed in: \(why). Load it again.")
    }
}
