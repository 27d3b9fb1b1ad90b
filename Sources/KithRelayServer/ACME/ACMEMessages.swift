import Foundation
import KithCommandLine
import KithWire

/// What an authority answers, as JSON (RFC 8555 §7.1).
enum ACMEMessages {
    struct Directory: Decodable {
        struct Meta: Decodable {
            var termsOfService: String?
            var externalAccountRequired: Bool?
            var profiles: [String: String]?
        }

        var newNonce: String
        var newAccount: String
        var newOrder: String
        var meta: Meta?
    }

    struct Order: Decodable {
        enum Status: String, Decodable {
            case pending
            case ready
            case processing
            case valid
            case invalid
        }

        var status: Status
        var authorizations: [String]
        var finalize: String
        var certificate: String?
        var error: Problem?
    }

    struct Authorization: Decodable {
        struct Identifier: Decodable {
            var value: String
        }

        enum Status: String, Decodable {
            case pending
            case valid
            case invalid
            case deactivated
            case expired
            case revoked
        }

        var identifier: Identifier
        var status: Status
        var challenges: [Challenge]
    }

    struct Challenge: Decodable {
        var type: String
        var url: String?
        var token: String?
        var error: Problem?
    }

    /// A refusal (RFC 7807).
    struct Problem: Decodable {
        /// The most letters of a reason that are shown.
        private static let shown = 400

        var type: String?
        var detail: String?
        var subproblems: [Problem]?

        private static let prefix = "urn:ietf:params:acme:error:"

        /// The kind of refusal, by its name in RFC 8555 §6.7; empty for one that is none of ACME's.
        var kind: String {
            guard let type, type.hasPrefix(Self.prefix) else { return "" }
            let kind = type.dropFirst(Self.prefix.count)
            return kind.utf8.count <= 40 && kind.allSatisfy { $0.isASCII && $0.isLetter } ? String(kind) : ""
        }

        /// The reason in one line: what the authority says, bounded and with nothing in it that a terminal obeys.
        var reason: String {
            let texts = [detail].compactMap { $0 } + (subproblems ?? []).prefix(3).compactMap(\.detail)
            var text = texts.joined(separator: " ").prefix(bytes: Self.shown)
            text = Wording.printable(
                text.split(whereSeparator: \.isWhitespace).joined(separator: " "))
            while text.hasSuffix(".") { text.removeLast() }
            if text.isEmpty { return kind.isEmpty ? "no reason is given" : kind }
            return kind.isEmpty ? text : "\(text) (\(kind))"
        }
    }

    // MARK: - Requests

    struct NewAccount: Encodable {
        var contact: [String]?
        var termsOfServiceAgreed: Bool?
    }

    struct NewOrder: Encodable {
        struct Identifier: Encodable {
            var type: String
            var value: String
        }

        var identifiers: [Identifier]
        var profile: String?
    }

    struct Finalization: Encodable {
        var csr: String
    }

    /// The JSON of a request.
    static func json(_ value: some Encodable) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do {
            return Array(try encoder.encode(value))
        } catch {
            preconditionFailure("texts are always JSON: \(error)")
        }
    }
}
