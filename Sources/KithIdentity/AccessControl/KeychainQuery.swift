package import KithWire

/// A query of the keychain of Apple's systems, as a plain value: what an adapter hands over has the same keys and values.
///
/// Each key and each constant has the name that Security.framework gives it.
package struct KeychainQuery: Hashable, Sendable {
    /// The keys of a query.
    package enum Key: String, Sendable {
        case kSecClass, kSecAttrService, kSecAttrAccount, kSecAttrAccessGroup, kSecAttrSynchronizable
        case kSecAttrAccessible, kSecAttrAccessControl, kSecUseDataProtectionKeychain, kSecValueData
        case kSecReturnData, kSecReturnAttributes, kSecMatchLimit, kSecUseAuthenticationUI
        case kSecAttrKeyType, kSecAttrKeySizeInBits, kSecAttrTokenID, kSecAttrIsPermanent, kSecAttrApplicationTag
    }

    /// The constants among the values.
    package enum Constant: String, Sendable {
        case kSecClassGenericPassword, kSecMatchLimitOne, kSecMatchLimitAll
        case kSecUseAuthenticationUIFail, kSecUseAuthenticationUISkip
        case kSecAttrAccessibleWhenUnlocked, kSecAttrAccessibleWhenUnlockedThisDeviceOnly
        case kSecAttrAccessibleAfterFirstUnlock, kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly
        case kSecAttrKeyTypeECSECPrimeRandom, kSecAttrTokenIDSecureEnclave
    }

    /// The flags of `SecAccessControlCreateWithFlags`.
    package struct Flags: OptionSet, Hashable, Sendable {
        package let rawValue: Int
        package init(rawValue: Int) { self.rawValue = rawValue }
        package static let biometryAny = Flags(rawValue: 1 << 0)
        package static let biometryCurrentSet = Flags(rawValue: 1 << 1)
        package static let devicePasscode = Flags(rawValue: 1 << 2)
        package static let or = Flags(rawValue: 1 << 3)
        package static let and = Flags(rawValue: 1 << 4)
        package static let privateKeyUsage = Flags(rawValue: 1 << 5)
        package static let applicationPassword = Flags(rawValue: 1 << 6)
    }

    /// A value.
    package enum Value: Hashable, Sendable {
        case constant(Constant)
        case text(String)
        case bytes([UInt8])
        case number(Int)
        case isTrue(Bool)
        /// What `SecAccessControlCreateWithFlags` makes.
        case accessControl(Constant, Flags)
    }

    /// The dictionary.
    package var values: [Key: Value]
}

/// The place of a device's secrets in a keychain.
package struct KeychainPlace: Hashable, Sendable {
    /// The keychains there are.
    package enum Keychain: CaseIterable, Sendable {
        /// The only one of iOS.
        case iOS
        /// That of macOS with the same rules, for apps that are signed for it.
        case macOSDataProtection
        /// That of macOS in a file, for programs that are not: it knows no classes, no groups and no biometrics.
        case macOSFile
    }

    private let service: String
    private let access: AccessControl
    private let keychain: Keychain
    private let asksApplicationPassword: Bool

    /// Describes a place; `asksApplicationPassword`: macOS seals secrets by a password of the app, too.
    ///
    /// - Throws: `KithError` `.invalid` for what that keychain cannot keep.
    package init(
        service: String, access: AccessControl, in keychain: Keychain, asksApplicationPassword: Bool = false
    ) throws(KithError) {
        func require(_ condition: Bool, _ why: String) throws(KithError) {
            guard condition else { throw KithError(.invalid, "The keychain cannot keep these secrets: \(why).") }
        }
        try require((1...255).contains(service.utf8.count), "a service is named by 1 to 255 bytes")
        if keychain == .macOSFile {
            try require(access.group == nil, "a keychain in a file has no groups of apps")
            try require(access.biometrics == .none, "a keychain in a file does not ask for biometrics")
            try require(!access.usesSecureEnclave, "keys in the Secure Enclave need the data protection keychain")
        }
        try require(
            !asksApplicationPassword || keychain == .macOSDataProtection,
            "a password of the app needs macOS and its data protection keychain")
        try require(
            !asksApplicationPassword || !access.allowsPasscode,
            "it takes either what the person has (a finger or the passcode) or all it is asked for, not a mixture")
        try require(
            !asksApplicationPassword || !access.allowsBackground,
            "in the background nobody can enter the app's password")
        self.service = service
        self.access = access
        self.keychain = keychain
        self.asksApplicationPassword = asksApplicationPassword
    }

    // MARK: - Queries

    /// Reads the secret of a name; `mayAsk`: the person may be asked.
    package func read(_ name: String, mayAsk: Bool) -> KeychainQuery {
        var query = item(name)
        query.values[.kSecReturnData] = .isTrue(true)
        query.values[.kSecMatchLimit] = .constant(.kSecMatchLimitOne)
        if !mayAsk { query.values[.kSecUseAuthenticationUI] = .constant(.kSecUseAuthenticationUIFail) }
        return query
    }

    /// Tells whether there is a secret of a name; asks nobody.
    package func exists(_ name: String) -> KeychainQuery {
        var query = item(name)
        query.values[.kSecMatchLimit] = .constant(.kSecMatchLimitOne)
        query.values[.kSecUseAuthenticationUI] = .constant(.kSecUseAuthenticationUIFail)
        return query
    }

    /// Adds a secret under a name that has none.
    package func add(_ secret: [UInt8], named name: String) -> KeychainQuery {
        KeychainQuery(values: item(name).values.merging(replacement(secret).values) { $1 })
    }

    /// The new values for ``item(_:)`` where adding finds one of that name.
    package func replacement(_ secret: [UInt8]) -> KeychainQuery {
        var query = KeychainQuery(values: [.kSecValueData: .bytes(secret)])
        // The file says who may read it.
        guard keychain != .macOSFile else { return query }
        if flags.isEmpty {
            query.values[.kSecAttrAccessible] = .constant(accessible)
        } else {
            query.values[.kSecAttrAccessControl] = .accessControl(accessible, flags)
        }
        return query
    }

    /// The secret of a name, to remove it or to change it.
    package func item(_ name: String) -> KeychainQuery {
        var query = all
        query.values[.kSecAttrAccount] = .text(name)
        return query
    }

    /// Lists the names of all; those for which the person would be asked are left out by the keychain.
    package var list: KeychainQuery {
        var query = all
        query.values[.kSecReturnAttributes] = .isTrue(true)
        query.values[.kSecMatchLimit] = .constant(.kSecMatchLimitAll)
        query.values[.kSecUseAuthenticationUI] = .constant(.kSecUseAuthenticationUISkip)
        return query
    }

    /// Makes the key in the Secure Enclave that seals the secrets; `nil` where none does.
    package var enclaveKey: KeychainQuery? {
        guard access.usesSecureEnclave else { return nil }
        var query = KeychainQuery(values: [
            .kSecAttrKeyType: .constant(.kSecAttrKeyTypeECSECPrimeRandom), .kSecAttrKeySizeInBits: .number(256),
            .kSecAttrTokenID: .constant(.kSecAttrTokenIDSecureEnclave), .kSecAttrIsPermanent: .isTrue(true),
            .kSecAttrApplicationTag: .bytes(Array(service.utf8)),
            .kSecAttrAccessControl: .accessControl(accessible, flags.union(.privateKeyUsage)),
        ])
        if let group = access.group { query.values[.kSecAttrAccessGroup] = .text(group) }
        if keychain == .macOSDataProtection { query.values[.kSecUseDataProtectionKeychain] = .isTrue(true) }
        return query
    }

    private var all: KeychainQuery {
        // No secret of a device is ever another device's.
        var query = KeychainQuery(values: [
            .kSecClass: .constant(.kSecClassGenericPassword), .kSecAttrService: .text(service),
            .kSecAttrSynchronizable: .isTrue(false),
        ])
        if let group = access.group { query.values[.kSecAttrAccessGroup] = .text(group) }
        if keychain == .macOSDataProtection { query.values[.kSecUseDataProtectionKeychain] = .isTrue(true) }
        return query
    }

    private var accessible: KeychainQuery.Constant {
        switch access.accessibility {
        case .whenUnlocked: .kSecAttrAccessibleWhenUnlocked
        case .whenUnlockedThisDeviceOnly: .kSecAttrAccessibleWhenUnlockedThisDeviceOnly
        case .afterFirstUnlock: .kSecAttrAccessibleAfterFirstUnlock
        case .afterFirstUnlockThisDeviceOnly: .kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly
        }
    }

    private var flags: KeychainQuery.Flags {
        var flags: KeychainQuery.Flags =
            switch access.biometrics {
            case .none: []
            case .any: .biometryAny
            case .currentSet: .biometryCurrentSet
            }
        if access.allowsPasscode { flags.formUnion([.or, .devicePasscode]) }
        if asksApplicationPassword {
            if !flags.isEmpty { flags.insert(.and) }
            flags.insert(.applicationPassword)
        }
        return flags
    }
}
