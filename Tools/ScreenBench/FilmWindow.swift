#if Screen && canImport(CXCB)
import CXCB
import Foundation
import Synchronization

/// A window of an X server in which pictures follow each other.
final class FilmWindow: Sendable {
    private let isEnding = Mutex(false)
    private let hasEnded = DispatchSemaphore(value: 0)

    /// Shows pictures, `rate` a second, forwards and backwards; `top` pixels below the screen's upper edge.
    init?(display: String, top: Int = 0, width: Int, height: Int, pictures: [[UInt32]], rate: Int) {
        guard let connection = xcb_connect(display, nil), xcb_connection_has_error(connection) == 0,
            let screen = xcb_setup_roots_iterator(xcb_get_setup(connection)).data?.pointee
        else { return nil }
        let (window, context) = (xcb_generate_id(connection), xcb_generate_id(connection))
        var isPlain: UInt32 = 1
        xcb_create_window(
            connection, screen.root_depth, window, screen.root, 0, Int16(top), UInt16(width), UInt16(height), 0,
            UInt16(XCB_WINDOW_CLASS_INPUT_OUTPUT.rawValue), screen.root_visual, XCB_CW_OVERRIDE_REDIRECT.rawValue,
            &isPlain)
        xcb_create_gc(connection, context, window, 0, nil)
        xcb_map_window(connection, window)
        let depth = screen.root_depth
        let number = Int(bitPattern: connection)
        let thread = Thread { [self] in
            let connection = OpaquePointer(bitPattern: number)
            let start = ContinuousClock.now
            var shown = 0
            while !isEnding.withLock({ $0 }) {
                let turn = shown % (2 * pictures.count - 2)
                let picture = pictures[turn < pictures.count ? turn : 2 * pictures.count - 2 - turn]
                picture.withUnsafeBytes { bytes in
                    _ = xcb_put_image(
                        connection, UInt8(XCB_IMAGE_FORMAT_Z_PIXMAP.rawValue), window, context, UInt16(width),
                        UInt16(height), 0, 0, 0, depth, UInt32(bytes.count),
                        bytes.bindMemory(to: UInt8.self).baseAddress)
                }
                xcb_flush(connection)
                shown += 1
                let left = start + .seconds(1) * shown / rate - ContinuousClock.now
                if left > .zero { usleep(UInt32(left / .microseconds(1))) }
            }
            xcb_disconnect(connection)
            hasEnded.signal()
        }
        thread.start()
    }

    /// Takes the window away.
    func end() {
        isEnding.withLock { $0 = true }
        hasEnded.wait()
    }
}
#else
/// There is none without XCB.
final class FilmWindow: Sendable {
    init?(display: String, top: Int = 0, width: Int, height: Int, pictures: [[UInt32]], rate: Int) { nil }

    func end() {}
}
#endif
