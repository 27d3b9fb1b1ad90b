/// The secrets with which the new members of a commit join (RFC 9420 §12.4.3.1).
public struct Welcome: Hashable, Sendable {
    /// The group's cipher suite.
    public var cipherSuite: CipherSuiteID
    /// One for each new member.
    package var secrets: [EncryptedGroupSecrets]
    /// The group's public state, under a key from the joiner secret.
    package var encryptedGroupInfo: [UInt8]
}

extension Welcome: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        cipherSuite = try CipherSuiteID(from: &reader)
        secrets = try reader.list()
        encryptedGroupInfo = try reader.opaque()
    }

    package func encode(into writer: inout TLSWriter) {
        cipherSuite.encode(into: &writer)
        writer.list(secrets)
        writer.opaque(encryptedGroupInfo)
    }
}

/// The secrets of one new member (RFC 9420 §12.4.3.1).
package struct EncryptedGroupSecrets: Hashable, TLSCodable {
    package var newMember: [UInt8]
    package var encryptedGroupSecrets: HPKECiphertext

    package init(newMember: [UInt8], encryptedGroupSecrets: HPKECiphertext) {
        self.newMember = newMember
        self.encryptedGroupSecrets = encryptedGroupSecrets
    }

    package init(from reader: inout TLSReader) throws(MLSError) {
        newMember = try reader.opaque()
        encryptedGroupSecrets = try HPKECiphertext(from: &reader)
    }

    package func encode(into writer: inout TLSWriter) {
        writer.opaque(newMember)
        encryptedGroupSecrets.encode(into: &writer)
    }
}

/// `GroupSecrets` (RFC 9420 §12.4.3.1), in the clear only for a moment.
package struct GroupSecrets: ~Copyable {
    package let joinerSecret: Secret
    package let pathSecret: Secret?
    package let psks: [PreSharedKeyID]

    package init(joinerSecret: consuming Secret, pathSecret: consuming Secret?, psks: [PreSharedKeyID]) {
        self.joinerSecret = joinerSecret
        self.pathSecret = pathSecret
        self.psks = psks
    }

    package init(_ encoded: borrowing Secret) throws(MLSError) {
        var bytes = encoded.reveal()
        defer { clear(&bytes) }
        var reader = TLSReader(bytes)
        var joiner = try reader.opaque()
        defer { clear(&joiner) }
        let hasPath = try reader.isPresent()
        var path = hasPath ? try reader.opaque() : []
        defer { clear(&path) }
        let psks: [PreSharedKeyID] = try reader.list()
        try reader.finish()
        self.init(
            joinerSecret: Secret(copying: joiner), pathSecret: hasPath ? Secret(copying: path) : nil, psks: psks)
    }

    /// The bytes to be sealed; the caller clears them.
    package func encode() -> [UInt8] {
        var writer = TLSWriter(capacity: 256 + psks.count * 512)
        var joiner = joinerSecret.reveal()
        writer.opaque(joiner)
        clear(&joiner)
        switch pathSecret {
        case .none: writer.integer(0 as UInt8)
        case .some(let secret):
            writer.integer(1 as UInt8)
            var path = secret.reveal()
            writer.opaque(path)
            clear(&path)
        }
        writer.list(psks)
        return writer.bytes
    }
}
