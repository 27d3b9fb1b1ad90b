/// The way in which an X server keeps the pixels of a screen.
///
/// Four bytes a pixel with blue first are copied; every other order and number of bits is taken apart by its masks.
struct X11PixelFormat: Hashable {
    /// The bytes of a pixel: 3 or 4.
    let pixelBytes: Int
    /// The bytes of a row are a multiple of this.
    let rowUnit: Int
    /// Whether the lowest byte comes first.
    let isLittleEndian: Bool
    /// The bits of a value that are red, green and blue.
    let masks: (red: UInt32, green: UInt32, blue: UInt32)

    /// Describes a format; `nil` when a mask is empty or has gaps, or a pixel has neither 3 nor 4 bytes.
    init?(pixelBytes: Int, rowUnit: Int = 4, isLittleEndian: Bool = true, red: UInt32, green: UInt32, blue: UInt32) {
        guard (3...4).contains(pixelBytes), rowUnit > 0 else { return nil }
        for mask in [red, green, blue] {
            let bits = mask.nonzeroBitCount
            guard bits > 0, bits <= 16, mask >> mask.trailingZeroBitCount == (1 << UInt32(bits)) - 1 else { return nil }
        }
        self.pixelBytes = pixelBytes
        self.rowUnit = rowUnit
        self.isLittleEndian = isLittleEndian
        masks = (red, green, blue)
    }

    /// Whether the bytes are blue, green, red and one that means nothing.
    var isNative: Bool {
        pixelBytes == 4
            && (isLittleEndian
                ? masks == (0xFF0000, 0xFF00, 0xFF) : masks == (0xFF00, 0xFF_0000, 0xFF00_0000))
    }

    /// The bytes of a row of `width` pixels.
    func rowBytes(_ width: Int) -> Int { (width * pixelBytes + rowUnit - 1) / rowUnit * rowUnit }

    /// Writes a row of `width` pixels as blue, green, red and 0xFF.
    ///
    /// Both sides have the bytes it takes; anything else is a fault.
    func convert(_ source: UnsafeRawPointer, to target: UnsafeMutableRawPointer, width: Int) {
        if isNative {
            // Two at a time: a full screen is two million of them.
            var column = 0
            let opaque: UInt64 = 0xFF00_0000_FF00_0000
            while column + 2 <= width {
                let pair = unsafe source.loadUnaligned(fromByteOffset: column * 4, as: UInt64.self)
                unsafe target.storeBytes(
                    of: (pair.littleEndian | opaque).littleEndian, toByteOffset: column * 4, as: UInt64.self)
                column += 2
            }
            guard column < width else { return }
            let last = unsafe source.loadUnaligned(fromByteOffset: column * 4, as: UInt32.self)
            unsafe target.storeBytes(
                of: (last.littleEndian | 0xFF00_0000).littleEndian, toByteOffset: column * 4, as: UInt32.self)
            return
        }
        for column in 0..<width {
            var value: UInt32 = 0
            for index in 0..<pixelBytes {
                let byte = unsafe UInt32(source.load(fromByteOffset: column * pixelBytes + index, as: UInt8.self))
                value |= byte << UInt32(8 * (isLittleEndian ? index : pixelBytes - 1 - index))
            }
            let pixel =
                0xFF00_0000 | Self.part(value, masks.red) << 16 | Self.part(value, masks.green) << 8
                | Self.part(value, masks.blue)
            unsafe target.storeBytes(of: pixel.littleEndian, toByteOffset: column * 4, as: UInt32.self)
        }
    }

    /// The value that shows a colour of 0…255 a part.
    func pixel(red: UInt32, green: UInt32, blue: UInt32) -> UInt32 {
        func place(_ part: UInt32, _ mask: UInt32) -> UInt32 {
            let shift = UInt32(mask.trailingZeroBitCount)
            return (part * (mask >> shift) / 255) << shift
        }
        return place(red, masks.red) | place(green, masks.green) | place(blue, masks.blue)
    }

    /// A part of a value, spread over 0…255.
    private static func part(_ value: UInt32, _ mask: UInt32) -> UInt32 {
        let shift = UInt32(mask.trailingZeroBitCount)
        let most = mask >> shift
        return most == 0xFF ? (value & mask) >> shift : ((value & mask) >> shift * 255 + most / 2) / most
    }

    static func == (left: Self, right: Self) -> Bool {
        left.pixelBytes == right.pixelBytes && left.rowUnit == right.rowUnit
            && left.isLittleEndian == right.isLittleEndian && left.masks == right.masks
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(pixelBytes)
        hasher.combine(masks.red)
        hasher.combine(masks.green)
        hasher.combine(masks.blue)
    }
}

#if Screen && os(Linux) && canImport(CXCB)
import CXCB
import KithWire

extension X11PixelFormat {
    /// The format of a screen.
    ///
    /// - Throws: `KithError` `.unsupported` for one whose colours are looked up in a table, or that has no 24 or 32 bits.
    init(of screen: UnsafeMutablePointer<xcb_screen_t>, _ setup: UnsafePointer<xcb_setup_t>) throws(KithError) {
        let depth = unsafe screen.pointee.root_depth
        guard depth == 24 || depth == 32 else {
            throw KithError(
                .unsupported, "The X server's screen has a depth of \(depth) bits; it can be seen with 24 or 32.")
        }
        var formats = unsafe xcb_setup_pixmap_formats_iterator(setup)
        var layout: xcb_format_t?
        while unsafe formats.rem > 0 {
            if unsafe formats.data.pointee.depth == depth { layout = unsafe formats.data.pointee }
            unsafe xcb_format_next(&formats)
        }
        guard let layout, let visual = unsafe Self.visual(of: screen),
            visual._class == UInt8(XCB_VISUAL_CLASS_TRUE_COLOR.rawValue),
            let format = Self(
                pixelBytes: Int(layout.bits_per_pixel) / 8, rowUnit: Int(layout.scanline_pad) / 8,
                isLittleEndian: unsafe setup.pointee.image_byte_order == UInt8(XCB_IMAGE_ORDER_LSB_FIRST.rawValue),
                red: visual.red_mask, green: visual.green_mask, blue: visual.blue_mask)
        else {
            throw KithError(.unsupported, "The X server's screen does not say its colours directly (TrueColor).")
        }
        self = format
    }

    private static func visual(of screen: UnsafeMutablePointer<xcb_screen_t>) -> xcb_visualtype_t? {
        var depths = unsafe xcb_screen_allowed_depths_iterator(screen)
        while unsafe depths.rem > 0 {
            var visuals = unsafe xcb_depth_visuals_iterator(depths.data)
            while unsafe visuals.rem > 0 {
                if unsafe visuals.data.pointee.visual_id == screen.pointee.root_visual {
                    return unsafe visuals.data.pointee
                }
                unsafe xcb_visualtype_next(&visuals)
            }
            unsafe xcb_depth_next(&depths)
        }
        return nil
    }
}
#endif
