public import Foundation

/// The reason a call of ``MLSCrypto`` failed; the groups are as before.
///
/// No text holds a secret, or anything that a peer sent.
@nonexhaustive
public enum MLSCryptoError: Error, LocalizedError, Hashable, Sendable {
    /// The context could not be made.
    case initializationFailed(String)
    /// The context could not be made.
    case contextCreationFailed
    /// A group could not be made.
    case groupCreationFailed(String)
    /// Members could not be added.
    case addMembersFailed(String)
    /// A message could not be encrypted.
    case encryptionFailed(String)
    /// A message could not be read: it is junk, forged, read before, or of an epoch that is gone.
    case decryptionFailed(String)
    /// A key package could not be made.
    case keyPackageCreationFailed(String)
    /// A Welcome is junk, forged, or for nobody here.
    case welcomeProcessingFailed(String)
    /// A secret could not be exported.
    case secretExportFailed(String)
    /// There is no group of that name here.
    case invalidGroupId
    /// An identity is empty.
    case invalidIdentity
    /// The bytes are not what they should be.
    case invalidData
    /// Memory could not be had; never thrown here, as Swift ends a program without memory.
    case memoryAllocationFailed
    /// ``MLSCrypto/initialize()`` was not called.
    case contextNotInitialized

    /// A sentence for a person.
    public var errorDescription: String? {
        switch self {
        case .initializationFailed(let reason): "Secure messaging could not be started: \(reason)."
        case .contextCreationFailed: "Secure messaging could not be started."
        case .groupCreationFailed(let reason): "The group could not be made: \(reason)."
        case .addMembersFailed(let reason): "The members could not be added: \(reason)."
        case .encryptionFailed(let reason): "The message could not be encrypted: \(reason)."
        case .decryptionFailed(let reason): "The message could not be read: \(reason)."
        case .keyPackageCreationFailed(let reason): "The key package could not be made: \(reason)."
        case .welcomeProcessingFailed(let reason): "The invitation could not be accepted: \(reason)."
        case .secretExportFailed(let reason): "The secret could not be exported: \(reason)."
        case .invalidGroupId: "There is no group of that name here."
        case .invalidIdentity: "An identity must not be empty."
        case .invalidData: "The data is not of the kind that was expected."
        case .memoryAllocationFailed: "There is not enough memory."
        case .contextNotInitialized: "Secure messaging was not started: call initialize() first."
        }
    }
}

/// A group that was made.
public struct MLSGroupCreationResult: Hashable, Sendable {
    /// Its name: 32 random bytes.
    public let groupId: Data
}

/// A commit that added members.
public struct MLSAddMembersResult: Hashable, Sendable {
    /// For the members there were before.
    public let commitData: Data
    /// For the added ones.
    public let welcomeData: Data
}

/// A message that only members can read.
public struct MLSEncryptedMessage: Hashable, Sendable {
    /// The message.
    public let ciphertext: Data
}

/// A message that was read.
public struct MLSDecryptedMessage: Hashable, Sendable {
    /// The content.
    public let plaintext: Data
}

/// A client's offer to be added to a group, once.
public struct MLSKeyPackage: Hashable, Sendable {
    /// An `MLSMessage` with the key package.
    public let keyPackageData: Data
}

/// A group that was joined.
public struct MLSWelcomeResult: Hashable, Sendable {
    /// Its name.
    public let groupId: Data
}

/// A secret that all members of an epoch can make.
public struct MLSExportedSecret: Sendable {
    /// The secret; clearing it is up to the caller.
    public let secret: Data
}

extension MLSExportedSecret: CustomStringConvertible, CustomReflectable {
    /// The length of the secret, and nothing about its bytes.
    public var description: String { "a secret of \(secret.count) bytes" }
    /// Shows nothing.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension Data {
    /// The bytes as hexadecimal digits.
    public var hexString: String {
        var text = ""
        text.reserveCapacity(count * 2)
        for byte in self {
            if byte < 16 { text += "0" }
            text += String(byte, radix: 16)
        }
        return text
    }
}
