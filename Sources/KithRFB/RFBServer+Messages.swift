extension RFBServer {
    private enum Message {
        static let pixelFormat: UInt8 = 0
        static let encodings: UInt8 = 2
        static let updateRequest: UInt8 = 3
        static let key: UInt8 = 4
        static let pointer: UInt8 = 5
        static let cutText: UInt8 = 6
        static let continuousUpdates: UInt8 = 150
        static let fence: UInt8 = 248
        static let desktopSize: UInt8 = 251
        static let extended: UInt8 = 255
    }

    /// Reads one message (RFC 6143 §7.5); false when it is not whole.
    mutating func stepMessage() throws(RFBError) -> Bool {
        if clipboard.isDropping { return try readClipboard() }
        guard input.count >= 1 else { return false }
        switch input[0] {
        case Message.pixelFormat: return try readPixelFormat()
        case Message.encodings: return try readEncodings()
        case Message.updateRequest: return readUpdateRequest()
        case Message.key: return readKey()
        case Message.pointer: return readPointer()
        case Message.cutText: return try readClipboard()
        case Message.continuousUpdates: return readContinuousUpdates()
        case Message.fence: return try readFence()
        case Message.desktopSize: return try readDesktopSize()
        case Message.extended: return try readExtendedKey()
        default: throw .malformed("a message has a type that exists, not \(input[0])")
        }
    }

    private mutating func readPixelFormat() throws(RFBError) -> Bool {
        guard input.count >= 20 else { return false }
        let format = try RFBPixelFormat(input, at: 4)
        input.skip(20)
        viewer.format = format
        viewer.pixels = PixelValues(format)
        // A shape that was sent before had the pixels of before.
        if cursor != nil { pending.cursor = true }
        return true
    }

    private mutating func readEncodings() throws(RFBError) -> Bool {
        guard input.count >= 4 else { return false }
        let count = input.u16(at: 2)
        guard count <= options.limits.encodings else {
            throw .tooLong(field: "list of encodings", limit: options.limits.encodings, actual: count)
        }
        guard input.count >= 4 + 4 * count else { return false }
        let encodings = (0..<count).map { RFBEncoding(rawValue: Int32(bitPattern: input.u32(at: 4 + 4 * $0))) }
        input.skip(4 + 4 * count)
        let knewCursor = drawsCursor
        viewer.encodings = Set(encodings)
        viewer.preferred = encodings.first { [.tight, .zrle, .raw].contains($0) } ?? .raw
        viewer.quality = encodings.compactMap(\.qualityLevel).first
        viewer.level = encodings.compactMap(\.compressionLevel).first ?? 2
        if drawsCursor, !knewCursor, cursor != nil { pending.cursor = true }
        announce()
        return true
    }

    /// Tells the viewer which extensions of its list are known, each once.
    private mutating func announce() {
        for encoding in [RFBEncoding.extendedKeyEvents, .extendedMouseButtons]
        where viewer.encodings.contains(encoding) && announced.insert(encoding).inserted {
            pending.announcements.append(encoding)
        }
        if viewer.encodings.contains(.fence), announced.insert(.fence).inserted {
            Fence.append(flags: Fence.request, [], to: &output)
        }
        if viewer.encodings.contains(.continuousUpdates), announced.insert(.continuousUpdates).inserted {
            output.append(150)
        }
        if viewer.encodings.contains(.extendedClipboard) {
            clipboard.peerIsExtended()
            clipboard.appendCapabilities(to: &output)
        }
    }

    private mutating func readUpdateRequest() -> Bool {
        guard input.count >= 10 else { return false }
        let isIncremental = input[1] != 0
        let rectangle = input.rectangle(at: 2).intersection(viewerBounds)
        input.skip(10)
        // Those without the mark are answered though updates are continuous (rfbproto, EnableContinuousUpdates).
        guard !isIncremental || continuous == nil else { return true }
        requested = requested.map { $0.union(rectangle) } ?? rectangle
        if !isIncremental {
            dropCopies()
            damage.insert(rectangle)
            if viewer.encodings.contains(.extendedDesktopSize) { pending.size = true }
        }
        return true
    }

    private mutating func readKey() -> Bool {
        guard input.count >= 8 else { return false }
        note(input.u32(at: 4), nil, isDown: input[1] != 0)
        input.skip(8)
        return true
    }

    private mutating func readExtendedKey() throws(RFBError) -> Bool {
        guard input.count >= 2 else { return false }
        guard input[1] == 0, viewer.encodings.contains(.extendedKeyEvents) else {
            throw .unsupported("an extension that was not agreed on")
        }
        guard input.count >= 12 else { return false }
        let code = input.u32(at: 8)
        note(input.u32(at: 4), code == 0 ? nil : code, isDown: input.u16(at: 2) != 0)
        input.skip(12)
        return true
    }

    private mutating func note(_ keysym: UInt32, _ code: UInt32?, isDown: Bool) {
        guard held.note(keysym, code, isDown: isDown) else { return }
        events.append(.key(keysym: keysym, code: code, isDown: isDown))
    }

    private mutating func readPointer() -> Bool {
        guard input.count >= 6 else { return false }
        var buttons = UInt16(input[1])
        var size = 6
        if viewer.encodings.contains(.extendedMouseButtons), announced.contains(.extendedMouseButtons),
            buttons & 0x80 != 0
        {
            guard input.count >= 7 else { return false }
            buttons = buttons & 0x7F | UInt16(input[6]) << 7
            size = 7
        }
        held.buttons = RFBButtons(rawValue: buttons)
        held.x = min(input.u16(at: 2), bounds.width - 1)
        held.y = min(input.u16(at: 4), bounds.height - 1)
        input.skip(size)
        events.append(.pointer(x: held.x, y: held.y, buttons: held.buttons))
        return true
    }

    private mutating func readClipboard() throws(RFBError) -> Bool {
        switch try clipboard.receive(&input, output: &output) {
        case .incomplete: return false
        case .done(let event):
            if let event { events.append(.clipboard(event)) }
            return true
        }
    }

    private mutating func readContinuousUpdates() -> Bool {
        guard input.count >= 10 else { return false }
        let isOn = input[1] != 0
        continuous = isOn ? input.rectangle(at: 2).intersection(viewerBounds) : nil
        input.skip(10)
        if !isOn {
            updatesInFlight = 0
            output.append(150)
        }
        return true
    }

    private mutating func readFence() throws(RFBError) -> Bool {
        guard let fence = try Fence(&input) else { return false }
        if fence.isRequest {
            fence.appendAnswer(to: &output)
        } else if fence.payload == Self.updateMark {
            updatesInFlight = max(0, updatesInFlight - 1)
        }
        return true
    }

    private mutating func readDesktopSize() throws(RFBError) -> Bool {
        guard input.count >= 8 else { return false }
        let count = Int(input[6])
        guard count <= options.limits.screens else {
            throw .tooLong(field: "list of monitors", limit: options.limits.screens, actual: count)
        }
        guard input.count >= 8 + 16 * count else { return false }
        let (width, height) = (input.u16(at: 2), input.u16(at: 4))
        let screens = (0..<count).map { input.screen(at: 8 + 16 * $0) }
        input.skip(8 + 16 * count)
        let whole = RFBRectangle(x: 0, y: 0, width: width, height: height)
        let isLayout = count > 0 && screens.allSatisfy { whole.contains($0.frame) && !$0.frame.isEmpty }
        if !options.takesDesktopSize {
            answerDesktopSize(.prohibited)
        } else if width == 0 || height == 0 || !isLayout || Set(screens.map(\.id)).count != count {
            answerDesktopSize(.invalidLayout)
        } else if width * height > options.limits.pixels {
            answerDesktopSize(.outOfResources)
        } else {
            events.append(.resizeRequested(width: width, height: height, screens: screens))
        }
        return true
    }
}
