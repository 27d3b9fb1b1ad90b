/// What a viewer sends (RFC 6143 §7.5). Before the connection is made these do nothing.
extension RFBClient {
    private var isRunning: Bool {
        if case .running = phase { return true }
        return false
    }

    /// Asks for what changed in a rectangle, or for all of it.
    package mutating func requestUpdate(of rectangle: RFBRectangle, isIncremental: Bool) {
        guard isRunning else { return }
        output += [3, isIncremental ? 1 : 0]
        output.appendRectangle(rectangle)
    }

    /// Asks for updates without a request for each, or for the end of that; only for a server that can.
    package mutating func enableContinuousUpdates(_ isOn: Bool) {
        guard isRunning, takesContinuousUpdates, isOn || isContinuous else { return }
        isContinuous = isOn
        output += [150, isOn ? 1 : 0]
        output.appendRectangle(frameBuffer.bounds)
    }

    /// Presses or releases a key: an X11 keysym, and its place on the keyboard (an XT code) where that is known.
    package mutating func sendKey(_ keysym: UInt32, code: UInt32? = nil, isDown: Bool) {
        guard isRunning else { return }
        if let code, takesKeyCodes {
            output += [255, 0, 0, isDown ? 1 : 0]
            output.appendInteger(keysym)
            output.appendInteger(code)
        } else {
            output += [4, isDown ? 1 : 0, 0, 0]
            output.appendInteger(keysym)
        }
    }

    /// Moves the pointer, with those buttons held.
    package mutating func sendPointer(x: Int, y: Int, buttons: RFBButtons) {
        guard isRunning else { return }
        let low = UInt8(truncatingIfNeeded: buttons.rawValue)
        let isExtended = takesMoreButtons && buttons.rawValue >> 7 != 0
        output += [5, isExtended ? low | 0x80 : takesMoreButtons ? low & 0x7F : low]
        output.appendInteger(UInt16(clamping: x))
        output.appendInteger(UInt16(clamping: y))
        if isExtended { output.append(UInt8(truncatingIfNeeded: buttons.rawValue >> 7)) }
    }

    /// Offers our clipboard; a server that cannot ask for it gets its text.
    ///
    /// - Throws: ``RFBError/tooLong(field:limit:actual:)`` when it is above the limit; the connection goes on.
    package mutating func offerClipboard(_ contents: RFBClipboard) throws(RFBError) {
        guard isRunning else { return }
        try clipboard.offer(contents, to: &output)
    }

    /// Asks for what the server offered.
    package mutating func requestClipboard(_ formats: RFBClipboardFormats) {
        guard isRunning else { return }
        clipboard.request(formats, to: &output)
    }

    /// Asks for another size of the desktop; the answer is ``Event/resized(screens:status:)``.
    package mutating func requestDesktopSize(width: Int, height: Int, screens: [RFBScreen]) {
        guard isRunning, takesDesktopSize, screens.count <= options.limits.screens else { return }
        output += [251, 0]
        output.appendInteger(UInt16(clamping: width))
        output.appendInteger(UInt16(clamping: height))
        output += [UInt8(screens.count), 0]
        for screen in screens { output.appendScreen(screen) }
    }

    /// Asks for an answer when all that was sent before has had its effect; at most 64 bytes come back with it.
    package mutating func sendFence(_ payload: [UInt8]) {
        guard isRunning, takesFences, payload.count <= Fence.payloadLimit else { return }
        Fence.append(flags: Fence.request | 1, payload, to: &output)
    }
}
