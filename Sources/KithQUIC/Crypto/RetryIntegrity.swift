internal import CQUICCrypto

/// The tag that binds a Retry packet to the Initial packet it answers (RFC 9001 §5.8).
package enum RetryIntegrity {
    /// The length of the tag.
    package static let tagLength = 16

    /// Computes the tag of a Retry packet that lacks it, for the client's original Destination Connection ID.
    package static func tag(
        original destination: [UInt8], retry: UnsafeRawBufferPointer, _ version: QUICVersion = .one
    ) -> [UInt8] {
        precondition(destination.count <= 255, "A connection id has at most 20 bytes")
        var pseudoPacket: [UInt8] = []
        pseudoPacket.reserveCapacity(1 + destination.count + retry.count)
        pseudoPacket.append(UInt8(destination.count))
        pseudoPacket.append(contentsOf: destination)
        unsafe pseudoPacket.append(contentsOf: retry)
        var tag = [UInt8](repeating: 0, count: tagLength)
        let written = unsafe kith_retry_tag(version.code, pseudoPacket, pseudoPacket.count, &tag)
        precondition(written == 1, "AES-GCM failed without a reason to")
        return tag
    }

    /// Tells whether a whole Retry packet, tag included, answers the Initial sent to `destination`.
    package static func isValid(
        original destination: [UInt8], retry: UnsafeRawBufferPointer, _ version: QUICVersion = .one
    ) -> Bool {
        guard retry.count > tagLength else { return false }
        let body = unsafe UnsafeRawBufferPointer(rebasing: retry.dropLast(tagLength))
        return unsafe isEqualInConstantTime(
            tag(original: destination, retry: body, version), Array(retry.suffix(tagLength)))
    }
}
