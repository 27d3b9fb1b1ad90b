import KithIdentity
import KithWire
import Testing

/// Access controls as queries of a keychain.
@Suite struct KeychainQueryTests {
    private func place(
        _ access: AccessControl, _ keychain: KeychainPlace.Keychain, password: Bool = false
    ) throws -> KeychainPlace {
        try KeychainPlace(service: "org.example", access: access, in: keychain, asksApplicationPassword: password)
    }

    @Test func `each access control that can be kept has its query in each keychain, or is refused there`() throws {
        var made = 0
        for (access, _) in AccessControlTests.all {
            guard let access else { continue }
            for keychain in KeychainPlace.Keychain.allCases {
                for password in [false, true] {
                    let isFile = keychain == .macOSFile
                    let canBeKept =
                        !(isFile && (access.group != nil || access.biometrics != .none || access.usesSecureEnclave))
                        && !(password
                            && (keychain != .macOSDataProtection || access.allowsPasscode || access.allowsBackground))
                    guard let place = try? place(access, keychain, password: password) else {
                        #expect(!canBeKept, "\(access) \(keychain) \(password)")
                        continue
                    }
                    #expect(canBeKept, "\(access) \(keychain) \(password)")
                    made += 1
                    try check(place, access, keychain, password)
                }
            }
        }
        #expect(made > 100)
    }

    private func check(
        _ place: KeychainPlace, _ access: AccessControl, _ keychain: KeychainPlace.Keychain, _ password: Bool
    ) throws {
        typealias Query = KeychainQuery
        var common: [Query.Key: Query.Value] = [
            .kSecClass: .constant(.kSecClassGenericPassword), .kSecAttrService: .text("org.example"),
            .kSecAttrSynchronizable: .isTrue(false),
        ]
        if let group = access.group { common[.kSecAttrAccessGroup] = .text(group) }
        if keychain == .macOSDataProtection { common[.kSecUseDataProtectionKeychain] = .isTrue(true) }
        var item = common
        item[.kSecAttrAccount] = .text("a")
        #expect(place.item("a").values == item)

        var read = item
        read[.kSecReturnData] = .isTrue(true)
        read[.kSecMatchLimit] = .constant(.kSecMatchLimitOne)
        #expect(place.read("a", mayAsk: true).values == read)
        read[.kSecUseAuthenticationUI] = .constant(.kSecUseAuthenticationUIFail)
        #expect(place.read("a", mayAsk: false).values == read)
        read[.kSecReturnData] = nil
        #expect(place.exists("a").values == read)

        var list = common
        list[.kSecReturnAttributes] = .isTrue(true)
        list[.kSecMatchLimit] = .constant(.kSecMatchLimitAll)
        list[.kSecUseAuthenticationUI] = .constant(.kSecUseAuthenticationUISkip)
        #expect(place.list.values == list)

        let classes: [Query.Constant] = [
            .kSecAttrAccessibleWhenUnlocked, .kSecAttrAccessibleWhenUnlockedThisDeviceOnly,
            .kSecAttrAccessibleAfterFirstUnlock, .kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly,
        ]
        let accessible = classes[access.accessibility.rawValue]
        let flags: Query.Flags =
            switch (access.biometrics, access.allowsPasscode, password) {
            case (.none, _, false): []
            case (.none, _, true): .applicationPassword
            case (.any, false, false): .biometryAny
            case (.any, true, _): [.biometryAny, .or, .devicePasscode]
            case (.any, false, true): [.biometryAny, .and, .applicationPassword]
            case (.currentSet, _, false): .biometryCurrentSet
            case (.currentSet, _, true): [.biometryCurrentSet, .and, .applicationPassword]
            }
        var values: [Query.Key: Query.Value] = [.kSecValueData: .bytes([7])]
        if keychain != .macOSFile {
            if flags.isEmpty {
                values[.kSecAttrAccessible] = .constant(accessible)
            } else {
                values[.kSecAttrAccessControl] = .accessControl(accessible, flags)
            }
        }
        #expect(place.replacement([7]).values == values)
        #expect(place.add([7], named: "a").values == item.merging(values) { $1 })

        guard access.usesSecureEnclave else {
            #expect(place.enclaveKey == nil)
            return
        }
        let key = try #require(place.enclaveKey).values
        #expect(key[.kSecAttrAccessControl] == .accessControl(accessible, flags.union(.privateKeyUsage)))
        #expect(key[.kSecAttrTokenID] == .constant(.kSecAttrTokenIDSecureEnclave))
        #expect(key[.kSecAttrKeySizeInBits] == .number(256) && key[.kSecAttrIsPermanent] == .isTrue(true))
        #expect(key[.kSecAttrAccessGroup] == common[.kSecAttrAccessGroup])
        #expect(key[.kSecUseDataProtectionKeychain] == common[.kSecUseDataProtectionKeychain])
    }

    @Test func `a phone that asks for a face has this query, key by key`() throws {
        let access = try AccessControl(
            .whenUnlockedThisDeviceOnly, biometrics: .any, usesSecureEnclave: true, group: "A1B2.kith")
        let query = try place(access, .iOS).add([1], named: "identity")
        #expect(
            query.values == [
                .kSecClass: .constant(.kSecClassGenericPassword), .kSecAttrService: .text("org.example"),
                .kSecAttrAccount: .text("identity"), .kSecAttrAccessGroup: .text("A1B2.kith"),
                .kSecAttrSynchronizable: .isTrue(false), .kSecValueData: .bytes([1]),
                .kSecAttrAccessControl: .accessControl(.kSecAttrAccessibleWhenUnlockedThisDeviceOnly, .biometryAny),
            ])
        for service in ["", String(repeating: "a", count: 256)] {
            #expect(throws: KithError(.invalid, "")) {
                try KeychainPlace(service: service, access: access, in: .iOS)
            }
        }
    }
}
