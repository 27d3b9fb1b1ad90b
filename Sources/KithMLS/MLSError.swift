/// The reason an operation of the engine was refused; the group is then as it was before.
///
/// One case for each rule of RFC 9420 that can be broken. No case carries a secret, or anything a peer sent.
@nonexhaustive
public enum MLSError: Error, Hashable, Sendable {
    // MARK: Bytes (§2.1)

    /// The bytes end too early, or a length reaches beyond them.
    case truncated
    /// Bytes are left over where nothing may follow.
    case trailingBytes
    /// A vector's length begins with the bits 11 (§2.1.2).
    case invalidVectorLength
    /// A vector's length is not in its shortest form (§2.1.2).
    case nonMinimalVectorLength
    /// An optional value's presence octet is neither zero nor one (§2.1.1).
    case invalidOptional
    /// A sender type that does not exist (§6).
    case invalidSenderType
    /// A content type that does not exist (§6).
    case invalidContentType
    /// A leaf node source that does not exist (§7.2).
    case invalidLeafNodeSource
    /// A node type that does not exist (§7.8).
    case invalidNodeType
    /// A PSK type or usage that does not exist (§8.4).
    case invalidPSKType
    /// A proposal in a commit that is neither whole nor a reference (§12.4).
    case invalidProposalOrRefType
    /// Unmerged leaves that are not in rising order (§7.1).
    case unsortedUnmergedLeaves

    // MARK: Cryptography (§5.1)

    /// A private key's bytes are none, or belong to another suite.
    case invalidPrivateKey
    /// A public key's bytes are none.
    case invalidPublicKey
    /// A key pair could not be derived.
    case keyDerivationFailed
    /// Encryption failed.
    case encryptionFailed
    /// Decryption failed: the wrong key, or bytes that were changed.
    case decryptionFailed
    /// Signing failed.
    case signingFailed
    /// The engine does not have the cipher suite.
    case unsupportedCipherSuite
    /// Another version of the protocol (§6).
    case unsupportedVersion

    // MARK: Trees (§7)

    /// A ratchet tree without nodes, or with a blank one at the end (§12.4.3.3).
    case blankTreeEnd
    /// A leaf where a parent belongs, or the other way round (§12.4.3.3).
    case misplacedNode
    /// More leaves than can be numbered.
    case treeTooLarge
    /// A leaf without a member where one is needed.
    case blankLeaf
    /// An encryption key that stands in the tree twice (§7.3, §12.4.3.1).
    case duplicateEncryptionKey
    /// A signature key that two members have (§7.3).
    case duplicateSignatureKey
    /// An unmerged leaf that is not a member below the node, or not unmerged at a node between (§12.4.3.1).
    case invalidUnmergedLeaves
    /// A parent hash that is not the one of the nodes above (§7.9.2).
    case invalidParentHash
    /// A tree whose hash is not the one in the group context (§12.4.3.1).
    case treeHashMismatch
    /// A private key that belongs to no node of the tree (§12.4.3.1).
    case privateKeyMismatch

    // MARK: Paths (§7.5, §7.6)

    /// A path with more or fewer nodes than the committer's filtered direct path (§7.5).
    case wrongPathLength
    /// A path secret encrypted to more or fewer than the resolution (§7.6).
    case wrongPathSecretCount
    /// A leaf whose encryption key is the old one (§7.3, §12.4.2).
    case encryptionKeyNotChanged
    /// A path's key that stands in the tree already (§12.4.2).
    case pathKeyInUse
    /// A path's key that does not follow from its secret (§7.5).
    case pathKeyMismatch
    /// A path secret that does not give the tree's keys (§12.4.3.1).
    case pathSecretMismatch
    /// A path that holds no secret this member can decrypt (§7.5).
    case noPathSecretForUs
    /// A leaf that claims to have come another way than it did (§7.3).
    case wrongLeafNodeSource

    // MARK: Messages (§6)

    /// A message of a kind that has no place here.
    case unexpectedWireFormat
    /// A private message from somebody who is not a member (§6.3.2).
    case senderNotMember
    /// Application data that is not encrypted (§6.2).
    case applicationDataNotEncrypted
    /// A membership tag that is missing or wrong (§6.2).
    case invalidMembershipTag
    /// Data and attached data of more than 512 MiB together, or a message of more than a client takes in.
    case messageTooLong
    /// Padding with bytes that are not zero (§6.3.1).
    case nonZeroPadding
    /// A message key that was used or given up (§9.2).
    case messageKeyUsed
    /// A generation further ahead than is allowed (§9.1).
    case generationTooFarAhead
    /// A ratchet that has no generation left (§9.1).
    case ratchetExhausted
    /// A pre-shared key that is not at hand (§8.4, §12.4.2).
    case unknownPSK

    // MARK: Key packages (§10)

    /// A key package for another version than its message (§10).
    case keyPackageVersionMismatch
    /// Private keys that are not the ones of the key package.
    case keyPackageMismatch

    // MARK: Extensions (§13.4)

    /// Two extensions of one kind in one list (§13.4).
    case duplicateExtension

    // MARK: Messages in a group (§6)

    /// A message of another group (§6).
    case wrongGroup
    /// A message of an epoch that is not the current one, or no longer kept (§6, §12.4.2).
    case wrongEpoch
    /// A message whose signature is not its sender's (§6.1).
    case invalidMessageSignature
    /// Content of a kind that its sender may not send (§6.1).
    case contentNotAllowedFromSender
    /// A proposal of a kind that its sender may not send (§6.1, §12.1.8).
    case proposalNotAllowedFromSender
    /// An external sender that the group does not list (§12.1.8).
    case unknownExternalSender
    /// A member's proposal or commit that is not encrypted, where the client wants them so.
    case publicHandshakeNotAccepted

    // MARK: Leaves (§7.3)

    /// A leaf that does not list the protocol's version (§7.2).
    case versionNotSupportedByMember
    /// A leaf that does not list the group's cipher suite (§7.2).
    case cipherSuiteNotSupportedByMember
    /// A leaf whose credential's kind is not in its own capabilities (§7.2).
    case credentialNotInCapabilities
    /// A leaf with an extension whose kind is not in its own capabilities (§7.3).
    case extensionNotInCapabilities
    /// A leaf or group extension that some member does not support (§13.4).
    case extensionNotSupportedByMember
    /// A credential in use of a kind that some member does not support (§7.3).
    case credentialNotSupportedByMember
    /// A leaf without what the group requires, or a requirement that members do not meet (§7.3, §11.1, §12.1.7).
    case requiredCapabilitiesMissing
    /// A lifetime that is longer than the client takes, or ends before it begins (§7.2).
    case lifetimeTooLong
    /// A leaf whose lifetime does not contain the time (§7.3).
    case leafExpired
    /// A leaf whose signature is not its owner's for this place (§7.3).
    case invalidLeafSignature
    /// A credential that the application does not believe (§5.3.1).
    case credentialRejected
    /// A credential that the application does not take in place of the old one (§5.3.1).
    case credentialNotSuccessor

    // MARK: Key packages (§10.1)

    /// A key package for another cipher suite (§10.1).
    case keyPackageCipherSuiteMismatch
    /// A key package whose init key is its leaf's encryption key (§10.1).
    case initKeyIsEncryptionKey
    /// A key package whose signature is not its owner's (§10.1).
    case invalidKeyPackageSignature

    // MARK: Lists of proposals (§12.1, §12.2)

    /// An Update of the committer's own leaf (§12.2).
    case updateByCommitter
    /// A Remove of the committer (§12.2).
    case removeOfCommitter
    /// A Remove of a leaf without a member (§12.1.3).
    case removeOfBlankLeaf
    /// Several Updates and Removes of one leaf (§12.2).
    case multipleChangesOfLeaf
    /// A PSK that ties groups together, where none begins (§12.1.4).
    case pskUsageNotAllowed
    /// A PSK nonce that is not as long as a secret (§8.4, §12.1.4).
    case wrongPSKNonceLength
    /// One PSK named twice (§12.2).
    case duplicatePSK
    /// More PSKs than can be counted (§8.4).
    case tooManyPSKs
    /// More proposals in an epoch than the client keeps.
    case tooManyProposals
    /// A ReInit to an older version (§12.1.5).
    case reInitVersionTooLow
    /// A ReInit beside other proposals (§12.2).
    case reInitNotAlone
    /// An ExternalInit outside an external commit (§12.1.6, §12.2).
    case externalInitNotAllowed
    /// Several lists of group extensions (§12.2).
    case multipleGroupContextExtensions
    /// A proposal of a kind that some member does not support (§12.2).
    case proposalNotSupportedByMember
    /// An external commit without an ExternalInit or with several (§12.2).
    case wrongExternalInitCount
    /// A proposal that an external commit may not hold (§12.2).
    case proposalNotAllowedInExternalCommit
    /// A reference to a proposal in an external commit (§12.4.3.2).
    case referenceInExternalCommit
    /// A reference to a proposal that did not come (§12.4).
    case unknownProposal
    /// One proposal referred to twice.
    case duplicateProposalReference

    // MARK: Commits (§12.4)

    /// A commit without a path that must have one (§12.4).
    case pathRequired
    /// A confirmation tag that is missing or wrong (§6.1, §12.4.2, §12.4.3.1).
    case invalidConfirmationTag
    /// An external commit, where the client takes none.
    case externalCommitsNotAccepted
    /// An external commit that replaces a member, where the client takes none.
    case resyncNotAccepted
    /// Somebody proposes to be added, and the client takes no such proposals.
    case newMemberProposalsNotAccepted
    /// An epoch after which no number is left.
    case epochExhausted
    /// An own commit awaits its confirmation.
    case commitPending
    /// No own commit awaits its confirmation.
    case noPendingCommit
    /// Proposals await a commit, before which no data may be sent (§12.4).
    case commitRequired
    /// This member was removed.
    case removedFromGroup
    /// A ReInit has ended the group (§12.4.2).
    case groupEnded
    /// No ReInit has ended the group (§11.2).
    case groupNotEnded
    /// An exported secret of more bytes than can be derived (§8.5).
    case exportTooLong

    // MARK: Joining (§12.4.3)

    /// A Welcome that is not for the key package, or twice (§12.4.3.1).
    case keyPackageNotInWelcome
    /// A group of a name the client has already (§12.4.3).
    case groupAlreadyKnown
    /// A group info without a tree, and none at hand (§12.4.3.3).
    case treeMissing
    /// A group info without the key that external commits are made to (§12.4.3.2).
    case externalKeyMissing
    /// A group info whose signer is not a member (§12.4.3.1).
    case signerNotMember
    /// A group info whose signature is not its signer's (§12.4.3.1).
    case invalidGroupInfoSignature
    /// A group info whose maker has not shown that it knew the key of the client's last epoch.
    case resumptionNotProven
    /// A group extension that the client does not support (§13.4).
    case extensionNotSupported
    /// A tree without the leaf of the client's key package (§12.4.3.1).
    case ownLeafMissing
    /// More than one PSK that ties the group to another (§12.4.3.1).
    case multipleStartingPSKs
    /// A group that follows or branches off, and is not in its epoch 1 (§12.4.3.1).
    case startingEpochNotOne
    /// A group that follows with other parameters than were agreed (§11.2).
    case reInitParametersDiffer
    /// A group that follows without all members (§11.2).
    case reInitMembersDiffer
    /// A branch with another version or cipher suite (§11.3).
    case branchParametersDiffer
    /// A branch with somebody who was not a member (§11.3).
    case branchMembersDiffer
}
