extension RFBClient {
    /// Reads what comes as a rectangle and is none (RFC 6143 §7.8; rfbproto, Pseudo-encodings).
    mutating func readPseudoRectangle(
        _ rectangle: RFBRectangle, _ update: inout Update
    ) throws(RFBError) -> Bool {
        switch update.encoding {
        case .lastRect:
            update.left = 1
        case .desktopSize:
            let size = (frameBuffer.width, frameBuffer.height)
            try resize(rectangle, &update)
            // Only a true change: a server may answer a request for all with this very rectangle.
            if size != (rectangle.width, rectangle.height) {
                update.needsAll = true
                screens = []
                events.append(.resized(screens: [], status: nil))
            }
        case .extendedDesktopSize:
            return try readExtendedDesktopSize(rectangle, &update)
        case .cursor:
            return try readCursor(rectangle)
        case .xCursor:
            return try readXCursor(rectangle)
        case .desktopName:
            guard let name = try readText(at: 0, field: "desktop's name") else { return false }
            self.name = name
            events.append(.renamed(name))
        case .extendedKeyEvents:
            takesKeyCodes = true
        case .extendedMouseButtons:
            takesMoreButtons = true
        default:
            throw .unsupported("the encoding \(update.encoding.rawValue)")
        }
        return true
    }

    private mutating func resize(_ rectangle: RFBRectangle, _ update: inout Update) throws(RFBError) {
        guard rectangle.width != frameBuffer.width || rectangle.height != frameBuffer.height else { return }
        frameBuffer = try frameBuffer.resized(
            width: rectangle.width, height: rectangle.height, limit: options.limits.pixels)
        update.changed = update.changed.intersection(frameBuffer.bounds)
        update.changedSize = true
    }

    private mutating func readExtendedDesktopSize(
        _ rectangle: RFBRectangle, _ update: inout Update
    ) throws(RFBError) -> Bool {
        guard input.count >= 4 else { return false }
        let count = Int(input[0])
        guard count <= options.limits.screens else {
            throw .tooLong(field: "list of monitors", limit: options.limits.screens, actual: count)
        }
        guard input.count >= 4 + 16 * count else { return false }
        let screens = (0..<count).map { input.screen(at: 4 + 16 * $0) }
        input.skip(4 + 16 * count)
        takesDesktopSize = true
        // The reason is in x, and 1 is an answer to us; the status is in y.
        let status = rectangle.x == 1 ? RFBResizeStatus(rawValue: UInt16(rectangle.y)) ?? .prohibited : nil
        if status == nil || status == .done {
            let isNew = screens != self.screens
            self.screens = screens
            let size = (frameBuffer.width, frameBuffer.height)
            try resize(rectangle, &update)
            guard isNew || size != (rectangle.width, rectangle.height) || status != nil else { return true }
        }
        events.append(.resized(screens: self.screens, status: status))
        return true
    }

    private func checkCursor(_ rectangle: RFBRectangle) throws(RFBError) {
        let limit = RFBCursor.sideLimit
        guard rectangle.width <= limit, rectangle.height <= limit else {
            throw .tooLarge(width: rectangle.width, height: rectangle.height, limit: limit * limit)
        }
    }

    private mutating func readCursor(_ rectangle: RFBRectangle) throws(RFBError) -> Bool {
        try checkCursor(rectangle)
        let layout = layouts.pixel
        let maskRow = (rectangle.width + 7) / 8
        let colorBytes = rectangle.area * layout.size
        guard input.count >= colorBytes + maskRow * rectangle.height else { return false }
        var colors = [UInt32](repeating: 0, count: rectangle.area)
        unsafe input.withBytes(at: 0, count: colorBytes) { bytes in
            unsafe layout.read(bytes, count: rectangle.area, into: &colors)
        }
        appendCursor(rectangle, maskAt: colorBytes) { colors[$0] }
        input.skip(colorBytes + maskRow * rectangle.height)
        return true
    }

    private mutating func readXCursor(_ rectangle: RFBRectangle) throws(RFBError) -> Bool {
        try checkCursor(rectangle)
        guard !rectangle.isEmpty else {
            appendCursor(rectangle, maskAt: 0) { _ in 0 }
            return true
        }
        let maskRow = (rectangle.width + 7) / 8
        let maskBytes = maskRow * rectangle.height
        guard input.count >= 6 + 2 * maskBytes else { return false }
        let colors = [0, 3].map { UInt32(input[$0]) << 16 | UInt32(input[$0 + 1]) << 8 | UInt32(input[$0 + 2]) }
        let bitmap = (0..<maskBytes).map { input[6 + $0] }
        appendCursor(rectangle, maskAt: 6 + maskBytes) { index in
            let (x, y) = (index % rectangle.width, index / rectangle.width)
            return bitmap[y * maskRow + x >> 3] >> UInt8(7 - x & 7) & 1 == 1 ? colors[0] : colors[1]
        }
        input.skip(6 + 2 * maskBytes)
        return true
    }

    private mutating func appendCursor(_ rectangle: RFBRectangle, maskAt offset: Int, color: (Int) -> UInt32) {
        let maskRow = (rectangle.width + 7) / 8
        var pixels: [UInt32] = []
        pixels.reserveCapacity(rectangle.area)
        if !rectangle.isEmpty {
            for y in 0..<rectangle.height {
                for x in 0..<rectangle.width {
                    let isOpaque = input[offset + y * maskRow + x >> 3] >> UInt8(7 - x & 7) & 1 == 1
                    let value = color(y * rectangle.width + x) & 0xFF_FFFF
                    pixels.append(isOpaque ? 0xFF00_0000 | value : 0)
                }
            }
        }
        let isEmpty = rectangle.isEmpty
        events.append(
            .cursor(
                RFBCursor(
                    width: isEmpty ? 0 : rectangle.width, height: isEmpty ? 0 : rectangle.height,
                    hotX: min(rectangle.x, max(0, rectangle.width - 1)),
                    hotY: min(rectangle.y, max(0, rectangle.height - 1)), pixels: pixels)))
    }
}
