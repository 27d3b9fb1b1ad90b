/// The identity a member presents (RFC 9420 §5.3).
@nonexhaustive
public enum Credential: Hashable, Sendable {
    /// A bare identity, whose form the application defines.
    case basic(identity: [UInt8])
    /// A chain of DER certificates, the member's own first.
    case x509(certificates: [[UInt8]])
    /// A credential this engine does not know, with its content as one vector.
    case other(CredentialType, [UInt8])

    /// The registered kind.
    public var type: CredentialType {
        switch self {
        case .basic: .basic
        case .x509: .x509
        case .other(let type, _): type
        }
    }

    /// The identity of a basic credential where it is text: UTF-8, not empty, without control characters.
    ///
    /// Its member chose it, and an ``AuthenticationService`` has said whether it is theirs; two names may look alike. Nil
    /// for other kinds.
    public var name: String? {
        guard case .basic(let identity) = self, !identity.isEmpty,
            let text = String(validating: identity, as: UTF8.self),
            !text.unicodeScalars.contains(where: { $0.properties.generalCategory == .control })
        else { return nil }
        return text
    }
}

extension Credential: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        let type = try CredentialType(from: &reader)
        switch type {
        case .basic: self = .basic(identity: try reader.opaque())
        case .x509:
            var chain = try reader.vector()
            var certificates: [[UInt8]] = []
            while !chain.isAtEnd { certificates.append(try chain.opaque()) }
            self = .x509(certificates: certificates)
        default: self = .other(type, try reader.opaque())
        }
    }

    package func encode(into writer: inout TLSWriter) {
        type.encode(into: &writer)
        switch self {
        case .basic(let identity): writer.opaque(identity)
        case .x509(let certificates):
            writer.vector { writer in
                for certificate in certificates { writer.opaque(certificate) }
            }
        case .other(_, let content): writer.opaque(content)
        }
    }
}

extension Credential {
    /// Checks that others can read a credential that was put together as one of an unknown kind (§5.3).
    func checkReadable() throws(MLSError) {
        guard case .other(let type, _) = self, type == .basic || type == .x509 else { return }
        _ = try Credential(decoding: encoded)
    }
}
