import KithPixels

extension PlanarBuffer {
    /// The planes of a picture's pixels.
    static func planes(of pixels: [UInt32], size: PixelSize) -> PlanarBuffer {
        var picture = PixelBuffer(size: size)
        for y in 0..<size.height { for x in 0..<size.width { picture[x: x, y: y] = pixels[y * size.width + x] } }
        var planes = PlanarBuffer(size: size)
        ColourConversion.convert(picture.view, into: &planes)
        return planes
    }

    /// Luma, blue and red difference, one after the other.
    var bytes: [UInt8] {
        withPlanes { luma, blue, red in
            [luma.withUnsafeBytes(Array.init), blue.withUnsafeBytes(Array.init), red.withUnsafeBytes(Array.init)]
                .flatMap { $0 }
        }
    }
}
