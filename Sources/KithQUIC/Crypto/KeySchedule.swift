internal import CQUICCrypto
package import KithWire

/// The derivations of QUIC that need no handshake (RFC 9001 §5, RFC 9369 §3.3).
package enum KeySchedule {
    /// Derives `count` bytes from a secret with HKDF-Expand-Label and an empty context (RFC 8446 §7.1).
    ///
    /// `label` comes without its "tls13 " prefix, and is at most 249 bytes of ASCII.
    package static func expandLabel(
        _ secret: SecretBytes, _ label: String, count: Int, suite: CipherSuite
    ) -> SecretBytes {
        unsafe SecretBytes(count: count) { output in
            let written = unsafe secret.withUnsafeBytes { input in
                unsafe kith_expand_label(
                    suite.code, input.bytePointer, input.count, label, output.bytePointer, output.count)
            }
            precondition(written == 1, "HKDF-Expand-Label refuses label or length")
        }
    }

    /// Derives the two Initial secrets from the client's first Destination Connection ID (RFC 9001 §5.2).
    package static func initialSecrets(
        destination: [UInt8], _ version: QUICVersion = .one
    ) -> (client: SecretBytes, server: SecretBytes) {
        let both = unsafe SecretBytes(count: 64) { output in
            let written = unsafe destination.withUnsafeBytes { input in
                unsafe kith_initial_secrets(
                    version.code, input.bytePointer, input.count, output.bytePointer, output.bytePointer + 32)
            }
            precondition(written == 1, "HKDF failed without a reason to")
        }
        return unsafe both.withUnsafeBytes { bytes in
            unsafe (
                SecretBytes(count: 32) { unsafe $0.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[..<32])) },
                unsafe SecretBytes(count: 32) {
                    unsafe $0.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[32...]))
                }
            )
        }
    }

    /// Computes the stateless reset token of a connection id: 16 bytes of HMAC-SHA256 (RFC 9000 §10.3.2).
    package static func statelessResetToken(key: [UInt8], connectionID: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: 32)
        let written = unsafe kith_hmac(key, key.count, connectionID, connectionID.count, &digest)
        precondition(written == 1, "HMAC failed without a reason to")
        return Array(digest.prefix(16))
    }
}

extension UnsafeRawBufferPointer {
    /// The start as C wants it; an address that is never read when the buffer is empty.
    var bytePointer: UnsafePointer<UInt8> {
        guard let base = baseAddress else { return unsafe noBytes }
        return unsafe base.assumingMemoryBound(to: UInt8.self)
    }
}

extension UnsafeMutableRawBufferPointer {
    /// The start as C wants it.
    ///
    /// - Precondition: The buffer is not empty.
    var bytePointer: UnsafeMutablePointer<UInt8> {
        guard let base = baseAddress else { preconditionFailure("An empty buffer cannot be written") }
        return unsafe base.assumingMemoryBound(to: UInt8.self)
    }
}

// One zero byte that lives as long as the process: a non-null address for lengths of zero. Never written.
private nonisolated(unsafe) let noBytes: UnsafePointer<UInt8> = {
    let byte = UnsafeMutablePointer<UInt8>.allocate(capacity: 1)
    unsafe byte.initialize(to: 0)
    return unsafe UnsafePointer(byte)
}()
