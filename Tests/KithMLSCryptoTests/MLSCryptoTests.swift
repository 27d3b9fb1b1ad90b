import Foundation
import KithMLSCrypto
import Testing

/// The documented flows of the interface, and its errors.
@Suite struct MLSCryptoTests {
    private func started() async throws -> MLSCrypto {
        let crypto = MLSCrypto()
        try await crypto.initialize()
        try await crypto.initialize()
        return crypto
    }

    /// Anna's group with Ben in it, each with a value of their own.
    private func pair() async throws -> (anna: MLSCrypto, ben: MLSCrypto, group: Data) {
        let (anna, ben) = (try await started(), try await started())
        let group = try await anna.createGroup(identity: "anna").groupId
        let package = try await ben.createKeyPackage(identity: "ben").keyPackageData
        let added = try await anna.addMembers(groupId: group, keyPackages: package)
        let joined = try await ben.processWelcome(welcomeData: added.welcomeData, identity: "ben")
        #expect(joined.groupId == group)
        return (anna, ben, group)
    }

    @Test func `a group is made, others are added, and all talk`() async throws {
        let (anna, ben, group) = try await pair()
        #expect(try await anna.getEpoch(groupId: group) == 1)
        #expect(try await ben.getEpoch(groupId: group) == 1)
        let cleo = try await started()
        let package = try await cleo.createKeyPackage(identity: "cleo").keyPackageData
        let added = try await ben.addMember(groupId: group, keyPackage: package)
        #expect(try await anna.processCommit(groupId: group, commitData: added.commitData) == 2)
        _ = try await cleo.processWelcome(welcomeData: added.welcomeData, identity: "cleo")
        let all = [anna, ben, cleo]
        for (index, sender) in all.enumerated() {
            let text = Data("hello from \(index)".utf8)
            let message = try await sender.encryptMessage(groupId: group, plaintext: text)
            for reader in all {
                #expect(
                    try await reader.decryptMessage(groupId: group, ciphertext: message.ciphertext).plaintext == text)
            }
        }
    }

    @Test func `several key packages one after the other are added in one commit`() async throws {
        let anna = try await started()
        let group = try await anna.createGroup(identity: "anna").groupId
        var packages = Data()
        var others: [MLSCrypto] = []
        for name in ["ben", "cleo", "dora"] {
            let other = try await started()
            packages += try await other.createKeyPackage(identity: name).keyPackageData
            others.append(other)
        }
        let added = try await anna.addMembers(groupId: group, keyPackages: packages)
        #expect(try await anna.getEpoch(groupId: group) == 1)
        let text = Data("to all".utf8)
        for (other, name) in zip(others, ["ben", "cleo", "dora"]) {
            _ = try await other.processWelcome(welcomeData: added.welcomeData, identity: name)
        }
        let message = try await anna.encryptMessage(groupId: group, plaintext: text)
        for other in others {
            #expect(try await other.decryptMessage(groupId: group, ciphertext: message.ciphertext).plaintext == text)
        }
    }

    @Test func `own messages can be read, each once`() async throws {
        let anna = try await started()
        let group = try await anna.createGroup(identity: "anna").groupId
        let message = try await anna.encryptMessage(groupId: group, plaintext: Data("to myself".utf8))
        let read = try await anna.decryptMessage(groupId: group, ciphertext: message.ciphertext)
        #expect(read.plaintext == Data("to myself".utf8))
        await #expect(throws: MLSCryptoError.self) {
            try await anna.decryptMessage(groupId: group, ciphertext: message.ciphertext)
        }
    }

    @Test func `two members in one value talk`() async throws {
        let crypto = try await started()
        let group = try await crypto.createGroup(identity: "anna").groupId
        let package = try await crypto.createKeyPackage(identity: "ben").keyPackageData
        let added = try await crypto.addMembers(groupId: group, keyPackages: package)
        #expect(try await crypto.processWelcome(welcomeData: added.welcomeData, identity: "ben").groupId == group)
        let message = try await crypto.encryptMessage(groupId: group, plaintext: Data([1, 2]))
        #expect(
            try await crypto.decryptMessage(groupId: group, ciphertext: message.ciphertext).plaintext == Data([1, 2]))
    }

    @Test(arguments: [
        "ä ö ü", "привет", "日本語", "👩‍👩‍👧‍👦", "did:plc:z72i7hdynmk6r22z27h6tvur", String(repeating: "x", count: 10_000),
    ])
    func `an identity may be any text`(identity: String) async throws {
        let crypto = try await started()
        let group = try await crypto.createGroup(identity: identity).groupId
        #expect(group.count == 32 && group.hexString.count == 64)
        #expect(try await crypto.createKeyPackage(identity: identity).keyPackageData.count > identity.utf8.count)
    }

    @Test(arguments: [0, 1, 1_000_000])
    func `a message may have any length`(count: Int) async throws {
        let (anna, ben, group) = try await pair()
        let data = Data((0..<count).map { UInt8(truncatingIfNeeded: $0) })
        let message = try await anna.encryptMessage(groupId: group, plaintext: data)
        #expect(try await ben.decryptMessage(groupId: group, ciphertext: message.ciphertext).plaintext == data)
    }

    @Test func `exported secrets are equal for all members, and others for another label, context or epoch`()
        async throws
    {
        let (anna, ben, group) = try await pair()
        func export(_ crypto: MLSCrypto, _ label: String, _ context: String, _ count: Int = 32) async throws -> Data {
            try await crypto.exportSecret(
                groupId: group, label: label, context: Data(context.utf8), keyLength: count
            ).secret
        }
        let secret = try await export(anna, "files", "1")
        #expect(try await export(ben, "files", "1") == secret)
        #expect(try await export(ben, "pictures", "1") != secret)
        #expect(try await export(ben, "files", "2") != secret)
        for count in [0, 1, 16, 64, 255 * 32] { #expect(try await export(anna, "files", "1", count).count == count) }
        let result = try await anna.exportSecret(groupId: group, label: "files", context: Data("1".utf8), keyLength: 32)
        #expect(!"\(result) \(String(reflecting: result))".contains(secret.hexString))
        let cleo = try await started()
        let package = try await cleo.createKeyPackage(identity: "cleo").keyPackageData
        _ = try await anna.addMember(groupId: group, keyPackage: package)
        #expect(try await export(anna, "files", "1") != secret)
    }

    @Test func `calls may come from anywhere at once`() async throws {
        let (anna, ben, group) = try await pair()
        let ciphertexts = try await withThrowingTaskGroup(of: Data.self) { tasks in
            for number in 0..<100 {
                tasks.addTask {
                    try await anna.encryptMessage(groupId: group, plaintext: Data("\(number)".utf8)).ciphertext
                }
            }
            return try await tasks.reduce(into: []) { $0.append($1) }
        }
        let texts = try await withThrowingTaskGroup(of: String.self) { tasks in
            for ciphertext in ciphertexts {
                tasks.addTask {
                    String(
                        decoding: try await ben.decryptMessage(groupId: group, ciphertext: ciphertext).plaintext,
                        as: UTF8.self)
                }
            }
            return try await tasks.reduce(into: Set<String>()) { $0.insert($1) }
        }
        #expect(texts == Set((0..<100).map { "\($0)" }))
        // Many groups at once, in one value.
        let groups = try await withThrowingTaskGroup(of: Data.self) { tasks in
            for number in 0..<20 { tasks.addTask { try await anna.createGroup(identity: "anna \(number)").groupId } }
            return try await tasks.reduce(into: Set<Data>()) { $0.insert($1) }
        }
        #expect(groups.count == 20)
    }

    @Test func `before it was started every call says so`() async throws {
        let crypto = MLSCrypto()
        let calls: [() async throws -> Void] = [
            { _ = try await crypto.createGroup(identity: "anna") },
            { _ = try await crypto.addMembers(groupId: Data(), keyPackages: Data()) },
            { _ = try await crypto.encryptMessage(groupId: Data(), plaintext: Data()) },
            { _ = try await crypto.decryptMessage(groupId: Data(), ciphertext: Data()) },
            { _ = try await crypto.createKeyPackage(identity: "anna") },
            { _ = try await crypto.processWelcome(welcomeData: Data(), identity: "anna") },
            { _ = try await crypto.exportSecret(groupId: Data(), label: "", context: Data(), keyLength: 1) },
            { _ = try await crypto.getEpoch(groupId: Data()) },
            { _ = try await crypto.processCommit(groupId: Data(), commitData: Data()) },
        ]
        for call in calls { await #expect(throws: MLSCryptoError.contextNotInitialized) { try await call() } }
    }

    @Test func `each kind of bad input has its error, and the group is as before`() async throws {
        let (anna, ben, group) = try await pair()
        let junk = Data((0..<300).map { UInt8(truncatingIfNeeded: $0 &* 37) })
        let nowhere = Data([1, 2, 3])
        await #expect(throws: MLSCryptoError.invalidIdentity) { try await anna.createGroup(identity: "") }
        await #expect(throws: MLSCryptoError.invalidIdentity) { try await anna.createKeyPackage(identity: "") }
        await #expect(throws: MLSCryptoError.invalidIdentity) {
            try await anna.processWelcome(welcomeData: junk, identity: "")
        }
        await #expect(throws: MLSCryptoError.invalidGroupId) { try await anna.getEpoch(groupId: nowhere) }
        await #expect(throws: MLSCryptoError.invalidGroupId) {
            try await anna.processCommit(groupId: nowhere, commitData: junk)
        }
        await #expect(throws: MLSCryptoError.invalidData) {
            try await anna.processCommit(groupId: group, commitData: junk)
        }
        func fails(_ body: () async throws -> Void, _ isExpected: (MLSCryptoError) -> Bool) async {
            let error = await #expect(throws: MLSCryptoError.self) { try await body() }
            #expect(error.map(isExpected) == true, "\(String(describing: error))")
            #expect(error?.errorDescription?.isEmpty == false)
        }
        for bytes in [Data(), junk, Data([0, 1]), Data(repeating: 0xFF, count: 64)] {
            await fails({ _ = try await anna.decryptMessage(groupId: group, ciphertext: bytes) }) {
                if case .decryptionFailed = $0 { true } else { false }
            }
            await fails({ _ = try await anna.addMembers(groupId: group, keyPackages: bytes) }) {
                if case .addMembersFailed = $0 { true } else { false }
            }
            await fails({ _ = try await anna.processWelcome(welcomeData: bytes, identity: "anna") }) {
                if case .welcomeProcessingFailed = $0 { true } else { false }
            }
        }
        await fails({ _ = try await anna.encryptMessage(groupId: nowhere, plaintext: junk) }) {
            if case .encryptionFailed = $0 { true } else { false }
        }
        await fails({ _ = try await anna.decryptMessage(groupId: nowhere, ciphertext: junk) }) {
            if case .decryptionFailed = $0 { true } else { false }
        }
        await fails({ _ = try await anna.addMembers(groupId: nowhere, keyPackages: junk) }) {
            if case .addMembersFailed = $0 { true } else { false }
        }
        for count in [-1, 255 * 32 + 1, .max] {
            await fails({
                _ = try await anna.exportSecret(groupId: group, label: "x", context: Data(), keyLength: count)
            }) { if case .secretExportFailed = $0 { true } else { false } }
        }
        // A commit is no message, a message no commit, and a Welcome works once.
        let message = try await anna.encryptMessage(groupId: group, plaintext: Data([1])).ciphertext
        await fails({ _ = try await ben.processCommit(groupId: group, commitData: message) }) {
            if case .decryptionFailed = $0 { true } else { false }
        }
        var changed = try await anna.encryptMessage(groupId: group, plaintext: Data([2])).ciphertext
        changed[changed.count - 1] ^= 1
        await fails({ _ = try await ben.decryptMessage(groupId: group, ciphertext: changed) }) {
            if case .decryptionFailed = $0 { true } else { false }
        }
        changed[changed.count - 1] ^= 1
        #expect(try await ben.decryptMessage(groupId: group, ciphertext: changed).plaintext == Data([2]))
        #expect(try await anna.getEpoch(groupId: group) == 1)
    }

    @Test func `every error has a description`() {
        let all: [MLSCryptoError] = [
            .initializationFailed("x"), .contextCreationFailed, .groupCreationFailed("x"), .addMembersFailed("x"),
            .encryptionFailed("x"), .decryptionFailed("x"), .keyPackageCreationFailed("x"),
            .welcomeProcessingFailed("x"), .secretExportFailed("x"), .invalidGroupId, .invalidIdentity, .invalidData,
            .memoryAllocationFailed, .contextNotInitialized,
        ]
        #expect(all.count == 14 && Set(all.compactMap(\.errorDescription)).count == 14)
        for error in all { #expect(error.errorDescription?.isEmpty == false && !error.localizedDescription.isEmpty) }
    }

    @Test func `bytes are shown as digits`() {
        #expect(Data([0, 15, 16, 255]).hexString == "000f10ff")
        #expect(Data().hexString == "")
    }
}
