import KithPixels

#if Zstd && canImport(CZstd)
import CZstd
#endif
#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Measures comparing, moving and converting whole screens beside memcmp and memcpy.
func measureKernels() {
    var screens = Screens()
    let font = screens.font(isSmooth: false)
    var screen = screens.text(font: font)
    var other = PixelBuffer(size: Screens.size)
    other.update(Screens.size.bounds, from: screen.view)
    let damage = PixelRegion(Screens.size.bounds)
    let now = ContinuousClock.now

    row("memcpy of a screen, 8.3 MB", milliseconds { system(screen, other, memcpy: true) })
    let compared = milliseconds { system(screen, other, memcpy: false) }
    row("memcmp of a screen", compared)

    var encoder = TileEncoder()
    _ = encoder.encode(screen.view, at: now)
    let same = milliseconds {
        encoder.damaged(damage)
        precondition(encoder.encode(screen.view, at: now) == nil, "nothing changed")
    }
    row("tile difference, unchanged screen", same, "\(fixed(same / compared, 2)) × memcmp")
    let alone = milliseconds { precondition(screen.hasSameColours(as: other.view), "nothing changed") }
    row("comparison of whole rows", alone, "\(fixed(alone / compared, 2)) × memcmp")

    var isOther = false
    let inverted = inverse(screen)
    row(
        "all changed, text, encoded",
        milliseconds(9) {
            isOther.toggle()
            encoder.damaged(damage)
            if isOther { _ = encoder.encode(inverted.view, at: now) } else { _ = encoder.encode(screen.view, at: now) }
        })
    screens.scroll(&screen, font: font)

    var planes = PlanarBuffer(size: Screens.size)
    row(
        "pixels to I420, BT.709", milliseconds { ColourConversion.convert(screen.view, into: &planes) },
        "libyuv 0.85 ms in G1")
    row("I420 to pixels", milliseconds { ColourConversion.convert(planes, into: &other) })
}

/// Measures a phone's pictures turned upright, and the memory that takes.
func measureBroadcast() {
    let size = PixelSize(width: 1290, height: 2796)
    let stride = 1344
    let luma = [UInt8](repeating: 90, count: stride * size.height)
    let chroma = [UInt8](repeating: 128, count: stride * size.height / 2)
    let before = peakMemory()
    for orientation in PictureOrientation.allCases {
        var planes = PlanarBuffer(size: orientation.upright(size))
        let time = milliseconds(9) {
            guard
                let view = unsafe BiplanarView(
                    size: size, luma: luma.span.bytes, lumaStride: stride, chroma: chroma.span.bytes,
                    chromaStride: stride)
            else { return }
            planes.update(from: view, orientation: orientation)
        }
        row("1290 × 2796 of 420v to planes, \(orientation)", time)
    }
    print("memory that took: \(fixed(Double(peakMemory() - before) / 1024, 1)) MiB at the most; limit 30 MiB")
}

/// Compares zstd itself on the same screen, as one piece without any of our steps.
func measureZstd() {
    #if Zstd && canImport(CZstd)
    var screens = Screens()
    let screen = screens.text(font: screens.font(isSmooth: false))
    var size = 0
    let time = milliseconds(7) {
        size = screen.withBytes { bytes in
            unsafe bytes.withUnsafeBytes { source in
                var target = [UInt8](repeating: 0, count: ZSTD_compressBound(source.count))
                return unsafe ZSTD_compress(&target, target.count, source.baseAddress, source.count, 1)
            }
        }
    }
    row("zstd level 1 of the text screen's pixels", time, "\(fixed(Double(size) / 1000, 1)) kB")
    #endif
}

private func system(_ first: borrowing PixelBuffer, _ second: borrowing PixelBuffer, memcpy isCopy: Bool) {
    first.withBytes { source in
        second.withBytes { target in
            unsafe source.withUnsafeBytes { source in
                unsafe target.withUnsafeBytes { target in
                    guard let from = source.baseAddress, let to = target.baseAddress else { return }
                    if isCopy {
                        _ = unsafe memcpy(UnsafeMutableRawPointer(mutating: to), from, source.count)
                    } else {
                        precondition(unsafe memcmp(from, to, source.count) == 0, "the same")
                    }
                }
            }
        }
    }
}

private func inverse(_ picture: borrowing PixelBuffer) -> PixelBuffer {
    var result = PixelBuffer(size: picture.size)
    for y in 0..<picture.size.height {
        for x in 0..<picture.size.width { result[x: x, y: y] = ~picture[x: x, y: y] }
    }
    return result
}

/// The most memory this process had, in KiB.
private func peakMemory() -> Int {
    var usage = rusage()
    // RUSAGE_SELF, which has another type in each system's header.
    _ = unsafe getrusage(0, &usage)
    return usage.ru_maxrss
}
