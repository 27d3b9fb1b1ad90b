#if Screen && os(Linux) && canImport(CXCB)
import CXCB
import KithAPI
import KithTesting
import KithWire
import Testing

@testable import KithScreen

/// A person's mouse and keyboard: the server's own devices.
struct Person {
    private let connection: X11Connection
    private let mouse: UInt8
    private let keyboard: UInt8
    private let event: UInt8

    init(_ server: XServer) throws {
        connection = try X11Connection(display: server.display, name: "person")
        event = try #require(kith_x11_extension(connection.raw, KITH_X11_XINPUT)).pointee.first_event
        let names = try connection.reply(
            to: xcb_input_xi_query_device(connection.raw, 0), xcb_input_xi_query_device_reply
        ) { reply in
            var names: [String: UInt8] = [:]
            var devices = xcb_input_xi_query_device_infos_iterator(reply)
            while devices.rem > 0 {
                let count = Int(xcb_input_xi_device_info_name_length(devices.data))
                let name = UnsafeRawBufferPointer(start: xcb_input_xi_device_info_name(devices.data), count: count)
                names[String(decoding: name, as: UTF8.self)] = UInt8(devices.data.pointee.deviceid)
                xcb_input_xi_device_info_next(&devices)
            }
            return names
        }
        mouse = try #require(names["Xvfb virtual mouse"] ?? names["Xvfb mouse"])
        keyboard = try #require(names["Xvfb virtual keyboard"] ?? names["Xvfb keyboard"])
    }

    private func act(_ kind: Int32, _ detail: UInt8, x: Int16 = 0, y: Int16 = 0, device: UInt8) throws {
        xcb_test_fake_input(connection.raw, event + UInt8(kind), detail, 0, 0, x, y, device)
        try connection.synchronize()
    }

    /// Moves the mouse: XTEST takes the place in a second event, which XCB has no call for.
    func move(_ x: Int16, _ y: Int16) throws {
        var request = [UInt32](repeating: 0, count: 17)
        request.withUnsafeMutableBytes { bytes in
            bytes[1] = UInt8(XCB_TEST_FAKE_INPUT)
            bytes[4] = event + UInt8(XCB_INPUT_DEVICE_MOTION_NOTIFY)
            bytes[35] = mouse | 0x80  // more follows
            bytes[36] = event + UInt8(XCB_INPUT_DEVICE_VALUATOR)
            bytes[37] = mouse
            bytes[42] = 2
            bytes.storeBytes(of: Int32(x), toByteOffset: 44, as: Int32.self)
            bytes.storeBytes(of: Int32(y), toByteOffset: 48, as: Int32.self)
            let opcode = kith_x11_extension(connection.raw, KITH_X11_XTEST)?.pointee.major_opcode ?? 0
            var call = xcb_protocol_request_t(count: 1, ext: nil, opcode: opcode, isvoid: 1)
            // XCB wants room for two parts before the first.
            var parts = [iovec](repeating: iovec(), count: 3)
            parts[2] = iovec(iov_base: bytes.baseAddress, iov_len: bytes.count)
            parts.withUnsafeMutableBufferPointer { parts in
                if let start = parts.baseAddress { _ = xcb_send_request(connection.raw, 0, start + 2, &call) }
            }
        }
        try connection.synchronize()
    }

    func button(_ number: UInt8, isDown: Bool) throws {
        try act(isDown ? XCB_INPUT_DEVICE_BUTTON_PRESS : XCB_INPUT_DEVICE_BUTTON_RELEASE, number, device: mouse)
    }

    func press() throws {
        try button(1, isDown: true)
        try button(1, isDown: false)
    }

    func click(_ x: Int16, _ y: Int16) throws {
        try move(x, y)
        try press()
    }

    func key(_ name: String, isDown: Bool) throws {
        let code = try keycodes([name])[0]
        try act(isDown ? XCB_INPUT_DEVICE_KEY_PRESS : XCB_INPUT_DEVICE_KEY_RELEASE, code, device: keyboard)
    }

    func strike(_ keys: [String]) throws {
        let codes = try keycodes(keys)
        for code in codes { try act(XCB_INPUT_DEVICE_KEY_PRESS, code, device: keyboard) }
        for code in codes.reversed() { try act(XCB_INPUT_DEVICE_KEY_RELEASE, code, device: keyboard) }
    }

    private func keycodes(_ names: [String]) throws -> [UInt8] {
        let map = try connection.keyMap()
        return try names.map { name in
            try #require(map.stroke(for: X11KeySymbol(ScreenInput.Key.named(name).symbol), .init())).keycode
        }
    }
}
#endif
