@testable import KithMLS
import Testing

@Suite struct SuiteTests {
    /// Bytes from hexadecimal digits.
    private func bytes(_ hex: String) -> [UInt8] {
        let digits = hex.compactMap { $0.hexDigitValue.map(UInt8.init) }
        return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }

    // From Python's hashlib.
    @Test func `SHAKE256 of nothing and of more than one block`() {
        #expect(
            SHAKE256.hash([], count: 32)
                == bytes("46b9dd2b0ba88d13233b3feb743eeb243fcd52ea62b81b82b50c27646ed5762f"))
        let long = SHAKE256.hash(Array(0..<200), count: 200)
        #expect(
            Array(long.prefix(32)) == bytes("4ee1ca03272b05d3bfb1e1c79a967f823b9fc5e4bb3987b1ba9e9cb5afb07a5e"))
        #expect(Array(long.suffix(16)) == bytes("59db7391b61702a7fc85a1162bdbaaea"))
    }

    @Test func `the experimental suite with X-Wing carries a group`() throws {
        guard let suite = CipherSuites[id: .experimentalXWing] else {
            print("skipped: this system has no X-Wing")
            return
        }
        #expect(!CipherSuites.all.contains { $0.id == .experimentalXWing })
        var capabilities = Capabilities()
        capabilities.cipherSuites.append(.experimentalXWing)
        let members = try party(["anna", "ben", "cleo"], suite, capabilities: capabilities)
        let output = try members[1].commit()
        for member in members where member !== members[1] { try member.follow(output.commit) }
        try agree(members)
    }

    /// Little-endian numbers of 32 bytes, as X25519's keys are.
    private static let smallOrder = [
        String(repeating: "00", count: 32), "01" + String(repeating: "00", count: 31),
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ec" + String(repeating: "ff", count: 30) + "7f", "ed" + String(repeating: "ff", count: 30) + "7f",
        "ee" + String(repeating: "ff", count: 30) + "7f",
    ]

    @Test(arguments: [1, 3] as [UInt16])
    func `a key with which everybody agrees on zeros is no key, and seals and opens nothing`(number: UInt16) throws {
        let suite = cipherSuite(number)
        let own = suite.generateHPKEKey()
        for hex in Self.smallOrder {
            for top in [0, 0x80] as [UInt8] {
                var key = bytes(hex)
                key[31] |= top
                #expect(!suite.isValidHPKEKey(key), "\(hex)")
                #expect(throws: MLSError.invalidPublicKey, "\(hex)") {
                    _ = try suite.encrypt([1], to: key, label: "a", context: [])
                }
                #expect(throws: MLSError.invalidPublicKey, "\(hex)") {
                    let sealed = HPKECiphertext(kemOutput: key, ciphertext: Array(repeating: 0, count: 17))
                    _ = try suite.decrypt(sealed, with: own, label: "a", context: [])
                }
            }
        }
    }

    @Test func `a key of X25519 has one form`() {
        let suite = cipherSuite(1)
        var key = suite.generateHPKEKey().publicKey
        #expect(suite.isValidHPKEKey(key))
        key[31] |= 0x80
        #expect(!suite.isValidHPKEKey(key))
        // p + 9 and 9 are one number.
        #expect(suite.isValidHPKEKey(bytes("09" + String(repeating: "00", count: 31))))
        #expect(!suite.isValidHPKEKey(bytes("f6" + String(repeating: "ff", count: 30) + "7f")))
        // The largest number below p that is of no small order.
        #expect(suite.isValidHPKEKey(bytes("eb" + String(repeating: "ff", count: 30) + "7f")))
        #expect(!suite.isValidHPKEKey(Array(key.prefix(31))) && !suite.isValidHPKEKey(key + [0]))
    }

    @Test(arguments: [1, 2, 3, 5, 7] as [UInt16])
    func `what is sealed is opened with the right key, info and bytes only`(number: UInt16) throws {
        let suite = cipherSuite(number)
        let key = suite.generateHPKEKey()
        let sealed = try suite.encrypt([1, 2, 3], to: key.publicKey, label: "a", context: [4])
        #expect(try suite.decrypt(sealed, with: key, label: "a", context: [4]).reveal() == [1, 2, 3])
        #expect(throws: MLSError.decryptionFailed) {
            _ = try suite.decrypt(sealed, with: key, label: "b", context: [4])
        }
        #expect(throws: MLSError.decryptionFailed) {
            _ = try suite.decrypt(sealed, with: key, label: "a", context: [5])
        }
        #expect(throws: MLSError.decryptionFailed) {
            _ = try suite.decrypt(sealed, with: suite.generateHPKEKey(), label: "a", context: [4])
        }
        #expect(throws: MLSError.decryptionFailed) {
            let short = HPKECiphertext(kemOutput: sealed.kemOutput, ciphertext: [1])
            _ = try suite.decrypt(short, with: key, label: "a", context: [4])
        }
        #expect(throws: MLSError.invalidPublicKey) {
            _ = try suite.encrypt([1], to: [1, 2], label: "a", context: [])
        }
        let imported = try suite.importHPKEKey(key.reveal())
        #expect(imported.publicKey == key.publicKey)
        let export = try suite.hpkeExport(to: key.publicKey, context: [1], count: 40)
        let received = try suite.hpkeExport(from: export.kemOutput, with: key, context: [1], count: 40)
        let isEqual = received.isEqual(to: export.secret)
        #expect(isEqual)
    }

    @Test func `values that nobody knows are passed over everywhere they may stand`() throws {
        let values = Grease.values
        #expect(values.first == 0x0A0A && values.last == 0xEAEA && values.count == 15)
        let anna = Member("anna")
        anna.profile = anna.profile.greased()
        try anna.create()
        let ben = Member("ben")
        ben.profile = ben.profile.greased()
        let bundle = try ben.keyPackage(extensions: [.grease()])
        var options = CommitOptions([.add(bundle.keyPackage)])
        options.groupInfoExtensions = [.grease()]
        let output = try anna.commit(options)
        try ben.join(output.welcome, bundle)
        let cleo = Member("cleo")
        cleo.profile = cleo.profile.greased()
        let info = try ben.with { group throws in try group.groupInfo(extensions: [.grease()]) }
        let join = try ExternalJoin(
            info, profile: cleo.profile, signatureKey: cleo.signatureKey, configuration: configuration())
        let commit = join.commit
        cleo.take(join.confirm())
        try anna.follow(commit)
        try ben.follow(commit)
        try agree([anna, ben, cleo])
    }

    @Test func `padding hides the length`() {
        for count in 0...3000 {
            #expect(PaddingPolicy.none.padding(for: count) == 0)
            #expect((count + PaddingPolicy.multiple(of: 100).padding(for: count)) % 100 == 0)
            let padded = count + PaddingPolicy.sizeClasses.padding(for: count)
            #expect(padded >= max(count, 64) && padded <= max(64, count * 2))
            if count > 1024 { #expect(padded <= count + count / 8) }
        }
    }
}
