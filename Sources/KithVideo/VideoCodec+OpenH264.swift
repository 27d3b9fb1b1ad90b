#if Video && os(Linux) && canImport(COpenH264)
extension VideoCodec {
    /// True when video can be encoded and decoded here.
    package static let isAvailable = true

    /// An encoder; `nil` when there is none in this build.
    package static func encoder() -> (any VideoEncoder)? { OpenH264Encoder() }

    /// A decoder; `nil` when there is none in this build.
    package static func decoder() -> (any VideoDecoder)? { OpenH264Decoder() }
}
#endif
