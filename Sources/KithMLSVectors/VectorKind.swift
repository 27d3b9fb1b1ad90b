/// One of the kinds of official test vectors, named as its file is (mlswg/mls-implementations, `test-vectors.md`).
@nonexhaustive
public enum VectorKind: String, CaseIterable, Sendable {
    /// Node numbers of full trees.
    case treeMath = "tree-math"
    /// Lengths of vectors.
    case deserialization
    /// Every message decodes and encodes to the same bytes.
    case messages
    /// The labelled primitives of a suite.
    case cryptoBasics = "crypto-basics"
    /// Keys of message ratchets.
    case secretTree = "secret-tree"
    /// Public and private messages.
    case messageProtection = "message-protection"
    /// The secrets of epochs.
    case keySchedule = "key-schedule"
    /// Secrets from pre-shared keys.
    case pskSecret = "psk_secret"
    /// Hashes over commits.
    case transcriptHashes = "transcript-hashes"
    /// Welcome messages.
    case welcome
    /// Add, Update and Remove applied to trees.
    case treeOperations = "tree-operations"
    /// Resolutions, tree hashes, parent hashes and signatures of trees.
    case treeValidation = "tree-validation"
    /// Update paths, processed and made.
    case treeKEM = "treekem"
    /// A client that joins.
    case passiveClientWelcome = "passive-client-welcome"
    /// A client that joins and follows commits.
    case passiveClientHandlingCommit = "passive-client-handling-commit"
    /// A client that joins and follows a long random history.
    case passiveClientRandom = "passive-client-random"

    /// The name of the kind's file.
    public var fileName: String { rawValue + ".json" }
}
