#if !(Video && os(Linux) && canImport(COpenH264))
extension VideoCodec {
    /// False: this build has no video.
    package static let isAvailable = false

    /// None.
    package static func encoder() -> (any VideoEncoder)? { nil }

    /// None.
    package static func decoder() -> (any VideoDecoder)? { nil }
}
#endif
