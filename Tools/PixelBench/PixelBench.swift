import KithPixels

/// Measures each kernel beside what the system offers, in one run: `kith-pixel-bench [FRAMES]`, where FRAMES is a file of
/// recorded frames (1920 × 1080, BGRA, one behind the other).
@main enum PixelBench {
    static func main() {
        measureBroadcast()
        measureKernels()
        measureZstd()
        let frames = Frames(path: CommandLine.arguments.dropFirst().first)
        measureCodec(frames: frames)
    }
}
