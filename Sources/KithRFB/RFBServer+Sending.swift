extension RFBServer {
    /// Rings the viewer's bell.
    package mutating func bell() {
        guard isRunning else { return }
        output.append(2)
    }

    /// Offers our clipboard; a viewer that cannot ask for it gets its text.
    ///
    /// - Throws: ``RFBError/tooLong(field:limit:actual:)`` when it is above the limit; the connection goes on.
    package mutating func offerClipboard(_ contents: RFBClipboard) throws(RFBError) {
        guard isRunning else { return }
        try clipboard.offer(contents, to: &output)
    }

    /// Asks for what the viewer offered.
    package mutating func requestClipboard(_ formats: RFBClipboardFormats) {
        guard isRunning else { return }
        clipboard.request(formats, to: &output)
    }

    /// Releases what the viewer holds, as events for the driver: keys, the last pressed first, then buttons.
    ///
    /// To be called when the viewer goes, and when it may no longer control the screen.
    package mutating func releaseInput() -> [Event] {
        var events = held.releaseKeys().map { Event.key(keysym: $0.keysym, code: $0.code, isDown: false) }
        if !held.buttons.isEmpty {
            held.buttons = []
            events.append(.pointer(x: held.x, y: held.y, buttons: []))
        }
        return events
    }
}
