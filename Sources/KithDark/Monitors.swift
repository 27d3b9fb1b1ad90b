#if Screen && os(Linux) && canImport(CXCB)
import CXCB
import Glibc

/// The monitors of an X server, by the tables with which each turns pixels into light (RandR 1.2, "gamma").
///
/// They come after what is captured: a screen whose tables have nothing but zeros is dark, and its pixels are as ever.
@safe final class Monitors {
    private struct Table {
        var red: [UInt16]
        var green: [UInt16]
        var blue: [UInt16]

        /// The table of a monitor that nobody has changed.
        static func straight(_ count: Int) -> Table {
            let ramp = (0..<count).map { UInt16(count > 1 ? $0 * 0xFFFF / (count - 1) : 0xFFFF) }
            return Table(red: ramp, green: ramp, blue: ramp)
        }

        /// Whether nothing is seen by it.
        var isDark: Bool { (red + green + blue).allSatisfy { $0 == 0 } }
    }

    private let connection: OpaquePointer
    private let root: UInt32
    /// The tables as they were, by their monitor's number.
    private var former: [UInt32: Table] = [:]

    /// Connects to the server that `DISPLAY` names; `nil` when that is not to be had, or is one of Wayland's, whose monitors
    /// are not its own.
    init?() {
        var number: Int32 = 0
        guard let connection = unsafe xcb_connect(nil, &number) else { return nil }
        guard unsafe xcb_connection_has_error(connection) == 0, let setup = unsafe xcb_get_setup(connection) else {
            unsafe xcb_disconnect(connection)
            return nil
        }
        let wayland = Array("XWAYLAND".utf8CString)
        let cookie = unsafe xcb_query_extension(connection, UInt16(wayland.count - 1), wayland)
        let reply = unsafe xcb_query_extension_reply(connection, cookie, nil)
        defer { unsafe free(reply) }
        guard let reply = unsafe reply, unsafe reply.pointee.present == 0 else {
            unsafe xcb_disconnect(connection)
            return nil
        }
        var screens = unsafe xcb_setup_roots_iterator(setup)
        for _ in 0..<max(number, 0) where unsafe screens.rem > 1 { unsafe xcb_screen_next(&screens) }
        unsafe self.connection = connection
        root = unsafe screens.data.pointee.root
    }

    deinit { unsafe xcb_disconnect(connection) }

    /// Makes all of them dark; false when there is none that can be, or the server is gone.
    func darken() -> Bool {
        var hasOne = false
        for monitor in monitors() {
            guard let table = table(of: monitor), !table.red.isEmpty else { continue }
            // One that was dark before, as a program leaves it that is killed, is lit at the end.
            if former[monitor] == nil { former[monitor] = table.isDark ? .straight(table.red.count) : table }
            let nothing = [UInt16](repeating: 0, count: table.red.count)
            if !table.isDark {
                set(Table(red: nothing, green: nothing, blue: nothing), of: monitor)
                // One that says yes and does nothing would be lit without anybody's knowing.
                guard self.table(of: monitor)?.isDark == true else { return false }
            }
            hasOne = true
        }
        return hasOne && finish()
    }

    /// Gives all of them the tables they had.
    func light() {
        for (monitor, former) in former {
            // Another resolution may have another table.
            guard let table = table(of: monitor), !table.red.isEmpty else { continue }
            set(table.red.count == former.red.count ? former : .straight(table.red.count), of: monitor)
        }
        _ = finish()
    }

    private func monitors() -> [UInt32] {
        let cookie = unsafe xcb_randr_get_screen_resources_current(connection, root)
        guard let reply = unsafe xcb_randr_get_screen_resources_current_reply(connection, cookie, nil) else {
            return []
        }
        defer { unsafe free(reply) }
        let count = unsafe Int(xcb_randr_get_screen_resources_current_crtcs_length(reply))
        guard let start = unsafe xcb_randr_get_screen_resources_current_crtcs(reply) else { return [] }
        return unsafe Array(UnsafeBufferPointer(start: start, count: count))
    }

    private func table(of monitor: UInt32) -> Table? {
        let cookie = unsafe xcb_randr_get_crtc_gamma(connection, monitor)
        guard let reply = unsafe xcb_randr_get_crtc_gamma_reply(connection, cookie, nil) else { return nil }
        defer { unsafe free(reply) }
        func values(_ start: UnsafeMutablePointer<UInt16>?, _ count: Int32) -> [UInt16] {
            guard let start = unsafe start else { return [] }
            return unsafe Array(UnsafeBufferPointer(start: start, count: Int(count)))
        }
        return unsafe Table(
            red: values(xcb_randr_get_crtc_gamma_red(reply), xcb_randr_get_crtc_gamma_red_length(reply)),
            green: values(xcb_randr_get_crtc_gamma_green(reply), xcb_randr_get_crtc_gamma_green_length(reply)),
            blue: values(xcb_randr_get_crtc_gamma_blue(reply), xcb_randr_get_crtc_gamma_blue_length(reply)))
    }

    private func set(_ table: Table, of monitor: UInt32) {
        unsafe _ = xcb_randr_set_crtc_gamma(
            connection, monitor, UInt16(table.red.count), table.red, table.green, table.blue)
    }

    /// Waits until the server has done it; false when it is gone.
    private func finish() -> Bool {
        let cookie = unsafe xcb_get_input_focus(connection)
        guard let reply = unsafe xcb_get_input_focus_reply(connection, cookie, nil) else { return false }
        unsafe free(reply)
        return true
    }
}
#endif
