#if Screen && os(Linux) && canImport(CXCB)
import CXCB
import KithWire

extension X11Connection {
    /// Has the server tell when the pointer looks different.
    func watchCursor() {
        unsafe xcb_xfixes_select_cursor_input(
            raw, root, UInt32(XCB_XFIXES_CURSOR_NOTIFY_MASK_DISPLAY_CURSOR.rawValue))
    }

    /// The shape of the pointer now, cut to 512×512; `nil` when the server does not show it.
    ///
    /// A server with the extension SECURITY keeps the shapes to itself that a program made which has ended since.
    ///
    /// - Throws: ``gone``.
    func cursor() throws(KithError) -> CursorImage? {
        do {
            return try readCursor()
        } catch {
            guard error.x11Refusal != nil else { throw error }
            return nil
        }
    }

    private func readCursor() throws(KithError) -> CursorImage {
        try unsafe reply(to: xcb_xfixes_get_cursor_image(raw), xcb_xfixes_get_cursor_image_reply) { reply in
            let (fullWidth, fullHeight) = unsafe (Int(reply.pointee.width), Int(reply.pointee.height))
            let count = unsafe Int(xcb_xfixes_get_cursor_image_cursor_image_length(reply))
            let (width, height) = (min(fullWidth, 512), min(fullHeight, 512))
            guard width > 0, height > 0, count >= fullWidth * fullHeight,
                let start = unsafe xcb_xfixes_get_cursor_image_cursor_image(reply)
            else { return CursorImage(width: 0, height: 0, hotX: 0, hotY: 0, pixels: []) }
            var pixels: [UInt8] = []
            pixels.reserveCapacity(width * height * 4)
            for row in 0..<height {
                for column in 0..<width {
                    // Alpha, red, green and blue from the highest byte on, premultiplied.
                    let value = unsafe start[row * fullWidth + column]
                    for shift in stride(from: UInt32(0), to: 32, by: 8) {
                        pixels.append(UInt8(truncatingIfNeeded: value >> shift))
                    }
                }
            }
            return unsafe CursorImage(
                width: width, height: height, hotX: min(Int(reply.pointee.xhot), width - 1),
                hotY: min(Int(reply.pointee.yhot), height - 1), pixels: pixels)
        }
    }

    /// The place of the pointer, and the modifiers that are down.
    ///
    /// - Throws: ``gone``.
    func pointer() throws(KithError) -> (x: Int32, y: Int32, modifiers: UInt32) {
        try unsafe reply(to: xcb_query_pointer(raw, root), xcb_query_pointer_reply) {
            unsafe (Int32($0.pointee.root_x), Int32($0.pointee.root_y), UInt32($0.pointee.mask))
        }
    }
}
#endif
