#if Screen && os(Linux) && canImport(CXCB)
import CXCB
import KithWire

extension X11Connection {
    /// Has the keys that XTEST presses repeat by themselves, or not.
    ///
    /// A viewer repeats what is held, and a release that is late on its way must not type a character many times. The
    /// person's own keyboard is left as it is.
    ///
    /// - Returns: whether the server does so.
    func setTestKeysRepeat(_ isOn: Bool) -> Bool {
        guard extensions.input != nil, let keyboards = try? testKeyboards(), !keyboards.isEmpty else { return false }
        // A connection that knows XKB is told of layouts in other ways: it is another one.
        guard let other = unsafe xcb_connect(display, nil) else { return false }
        defer { unsafe xcb_disconnect(other) }
        guard unsafe xcb_connection_has_error(other) == 0,
            let version = unsafe xcb_xkb_use_extension_reply(other, xcb_xkb_use_extension(other, 1, 0), nil)
        else { return false }
        defer { unsafe free(version) }
        guard unsafe version.pointee.supported != 0 else { return false }
        let repeats = UInt32(XCB_XKB_BOOL_CTRL_REPEAT_KEYS.rawValue)
        let change = UInt32(XCB_XKB_CONTROL_CONTROLS_ENABLED.rawValue)
        let keys = [UInt8](repeating: 0, count: 32)
        var isDone = true
        for keyboard in keyboards {
            let cookie = unsafe xcb_xkb_set_controls_checked(
                other, keyboard, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, repeats, isOn ? repeats : 0, change, 0, 0, 0, 0, 0, 0,
                0, 0, 0, 0, 0, 0, 0, 0, keys)
            if let failure = unsafe xcb_request_check(other, cookie) {
                unsafe free(failure)
                isDone = false
            }
        }
        return isDone
    }

    /// The keyboards that the server has for XTEST.
    private func testKeyboards() throws(KithError) -> [UInt16] {
        let all = try unsafe reply(to: xcb_input_xi_query_device(raw, 0), xcb_input_xi_query_device_reply) { reply in
            var found: [UInt16] = []
            var devices = unsafe xcb_input_xi_query_device_infos_iterator(reply)
            while unsafe devices.rem > 0 {
                if unsafe UInt32(devices.data.pointee.type) == XCB_INPUT_DEVICE_TYPE_SLAVE_KEYBOARD.rawValue {
                    unsafe found.append(devices.data.pointee.deviceid)
                }
                unsafe xcb_input_xi_device_info_next(&devices)
            }
            return found
        }
        return all.filter { isTest(device: $0) == true }
    }

    /// Whether a device is one of XTEST's, which the server marks by a property; `nil` for one that is not there.
    func isTest(device: UInt16) -> Bool? {
        let property = unsafe xcb_input_xi_get_property(raw, device, 0, atoms[.testDevice], 0, 0, 1)
        return try? unsafe reply(to: property, xcb_input_xi_get_property_reply) { unsafe $0.pointee.type != 0 }
    }
}
#endif
