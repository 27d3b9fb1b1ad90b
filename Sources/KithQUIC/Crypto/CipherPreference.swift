/// The choice of the AEAD that protects packets, where both ends have one (RFC 9001 §5.3).
///
/// All are as safe; they differ in speed. A processor without AES instructions does ChaCha20 several times as fast as
/// AES, and in constant time.
@nonexhaustive
public enum CipherPreference: Hashable, Sendable {
    /// AES where the processor does it itself, ChaCha20 elsewhere; a server for which both are fast follows its client.
    case automatic
    /// AES-128 first.
    case aes
    /// ChaCha20 first.
    case chaCha20
    /// ChaCha20, or no connection.
    case chaCha20Only
}
