import Crypto
import KithGroups
import KithMLS
import Synchronization
import Testing

/// A chip, as far as anybody outside can tell: signs, and does not tell its key.
private final class Chip: GroupSigner {
    private let key = Curve25519.Signing.PrivateKey()
    private let state = Mutex((signatures: 0, isBroken: false))

    var publicKey: SignaturePublicKey { [UInt8](key.publicKey.rawRepresentation) }
    var signatures: Int { state.withLock { $0.signatures } }
    func breakDown() { state.withLock { $0.isBroken = true } }

    func sign(_ content: [UInt8]) throws -> [UInt8] {
        let isBroken = state.withLock { state in
            state.signatures += 1
            return state.isBroken
        }
        // What is broken signs something else.
        return [UInt8](try key.signature(for: isBroken ? [0] : content))
    }

    /// Whether the private half stands in some bytes.
    func isIn(_ bytes: [UInt8]) -> Bool { bytes.firstRange(of: [UInt8](key.rawRepresentation)) != nil }
}

@Suite struct `A client whose key somebody else keeps` {
    private func client(
        _ name: String, _ chip: Chip?, _ delivery: MemoryDelivery, _ storage: MemoryGroupStorage
    ) throws -> GroupClient {
        try GroupClient(name: name, signer: chip, storage: storage, delivery: delivery, options: options())
    }

    @Test func `talks like any other, also after it was opened again, and its key is nowhere`() async throws {
        let (chip, delivery, storage) = (Chip(), MemoryDelivery(), MemoryGroupStorage())
        let ben = try client("ben", nil, delivery, MemoryGroupStorage())
        let sessions = try await party([client("anna", chip, delivery, storage), ben])
        try await sessions[0].say("hello")
        try await sessions[1].synchronise()
        #expect(try await texts(taken(sessions[1])) == ["hello"])
        #expect(try await sessions[1].members().contains { $0.node.signatureKey == chip.publicKey })
        #expect(chip.signatures > 0)

        let again = try client("anna", chip, delivery, storage)
        let session = try #require(try again.group(sessions[0].groupID))
        _ = try await session.commit()
        try await session.say("again")
        try await sessions[1].synchronise()
        #expect(try await texts(taken(sessions[1])) == ["again"])

        var stored = try StorageItem.Kind.allCases.flatMap { try storage.items($0).map(\.content) }
        for group in try storage.groups() {
            stored += try (storage.load(group)?.rows ?? []).map(\.content)
        }
        #expect(stored.count > 5)
        for bytes in stored { #expect(bytes.withBytes { !chip.isIn($0) }) }
    }

    @Test func `cannot be opened with another's key, nor without`() async throws {
        let (chip, delivery, storage) = (Chip(), MemoryDelivery(), MemoryGroupStorage())
        _ = try client("anna", chip, delivery, storage)
        #expect(throws: GroupError.self) { try client("anna", Chip(), delivery, storage) }
        #expect(throws: GroupError.self) { try client("anna", nil, delivery, storage) }
        let own = MemoryGroupStorage()
        _ = try client("anna", nil, delivery, own)
        #expect(throws: GroupError.otherSignatureKey) { try client("anna", chip, delivery, own) }
    }

    @Test func `sends nothing that is signed wrongly`() async throws {
        let (chip, delivery) = (Chip(), MemoryDelivery())
        let clients = try [
            client("anna", chip, delivery, MemoryGroupStorage()), client("ben", nil, delivery, MemoryGroupStorage()),
        ]
        let sessions = try await party(clients)
        chip.breakDown()
        await #expect(throws: GroupError.refused(.signingFailed)) { try await sessions[0].say("hello") }
        // Nor does it ask again because of what others have proposed.
        try await sessions[1].proposeUpdate()
        try await sessions[0].synchronise()
        let asked = chip.signatures
        await #expect(throws: GroupError.refused(.signingFailed)) { try await sessions[0].commit() }
        #expect(chip.signatures == asked + 1)
        try await sessions[1].say("still here")
        try await sessions[0].synchronise()
        #expect(try await texts(taken(sessions[0])) == ["still here"])
    }
}
