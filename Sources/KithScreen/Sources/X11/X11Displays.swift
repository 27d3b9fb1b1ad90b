#if Screen && os(Linux) && canImport(CXCB)
import CXCB
import KithAPI
import KithWire

extension X11Connection {
    /// The most monitors that are listed.
    private static let monitorLimit = 63

    /// Has the server tell when monitors come, go, turn or change their size.
    func watchDisplays() {
        let events =
            XCB_RANDR_NOTIFY_MASK_SCREEN_CHANGE.rawValue | XCB_RANDR_NOTIFY_MASK_CRTC_CHANGE.rawValue
            | XCB_RANDR_NOTIFY_MASK_OUTPUT_CHANGE.rawValue
        unsafe xcb_randr_select_input(raw, root, UInt16(events))
        // A monitor that a person defined is told of as if the root window had changed.
        let structure = [XCB_EVENT_MASK_STRUCTURE_NOTIFY.rawValue]
        unsafe xcb_change_window_attributes(raw, root, XCB_CW_EVENT_MASK.rawValue, structure)
    }

    /// The displays now: all of them together, and each monitor with the name of its connector.
    ///
    /// A screen of which RandR knows no monitor is one.
    ///
    /// - Throws: ``gone``.
    func displays() throws(KithError) -> [Screen.Display] {
        let size = try unsafe reply(to: xcb_get_geometry(raw, root), xcb_get_geometry_reply) {
            unsafe (width: UInt32($0.pointee.width), height: UInt32($0.pointee.height))
        }
        let whole = Screen.Rectangle(width: size.width, height: size.height)
        let monitors = extensions.hasMonitors ? try self.monitors() : []
        var displays = [Screen.Display(number: 0, name: "all", bounds: whole, isPrimary: false)]
        for monitor in monitors {
            guard let bounds = monitor.bounds.intersection(whole) else { continue }
            displays.append(
                Screen.Display(
                    number: UInt32(displays.count), name: try name(of: monitor.name), bounds: bounds,
                    isPrimary: monitor.isPrimary))
        }
        if displays.count == 1 {
            displays.append(Screen.Display(number: 1, name: "screen", bounds: whole, isPrimary: true))
        }
        if displays.allSatisfy({ !$0.isPrimary }) { displays[1].isPrimary = true }
        return displays
    }

    private func monitors() throws(KithError) -> [(name: UInt32, bounds: Screen.Rectangle, isPrimary: Bool)] {
        try unsafe reply(to: xcb_randr_get_monitors(raw, root, 1), xcb_randr_get_monitors_reply) { reply in
            var found: [(name: UInt32, bounds: Screen.Rectangle, isPrimary: Bool)] = []
            var monitors = unsafe xcb_randr_get_monitors_monitors_iterator(reply)
            while unsafe monitors.rem > 0, found.count < Self.monitorLimit {
                let monitor = unsafe monitors.data.pointee
                found.append(
                    (
                        monitor.name,
                        Screen.Rectangle(
                            x: Int32(monitor.x), y: Int32(monitor.y), width: UInt32(monitor.width),
                            height: UInt32(monitor.height)),
                        monitor.primary != 0
                    ))
                unsafe xcb_randr_monitor_info_next(&monitors)
            }
            return found
        }
    }

    private func name(of atom: UInt32) throws(KithError) -> String {
        try unsafe reply(to: xcb_get_atom_name(raw, atom), xcb_get_atom_name_reply) { reply in
            let count = unsafe min(Int(xcb_get_atom_name_name_length(reply)), 64)
            guard let start = unsafe xcb_get_atom_name_name(reply) else { return "" }
            return unsafe start.withMemoryRebound(to: UInt8.self, capacity: count) {
                unsafe String(decoding: UnsafeBufferPointer(start: $0, count: count), as: UTF8.self)
            }
        }
    }
}
#endif
