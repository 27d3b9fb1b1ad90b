extension RFBServer {
    /// The content of the fences that measure how many updates are under way.
    static let updateMark: [UInt8] = [0x75]
    /// With more than these bytes waiting to be sent no update is made.
    private static let backlog = 1 << 16
    private static let copyLimit = 64

    /// True when there is something new that the viewer waits for, and it has room.
    ///
    /// The driver makes an update once all that was put out before is with the viewer's socket.
    package var isUpdateDue: Bool {
        guard isRunning, failure == nil, output.count <= Self.backlog, requested != nil || continuous != nil else {
            return false
        }
        if continuous != nil, requested == nil, updatesInFlight >= options.updatesInFlight { return false }
        return hasNewSize || !pending.isEmpty || !copies.isEmpty || !damage.intersection(area).isEmpty
    }

    /// True when the viewer draws the pointer; else it is to be drawn into the picture.
    package var drawsCursor: Bool {
        [.cursorWithAlpha, .cursor, .xCursor].contains { viewer.encodings.contains($0) }
    }

    private var knowsSize: Bool {
        viewer.encodings.contains(.extendedDesktopSize) || viewer.encodings.contains(.desktopSize)
    }

    private var hasNewSize: Bool { viewerBounds != bounds && knowsSize }

    /// The part of the picture that the viewer waits for.
    private var area: RFBRectangle {
        let none = RFBRectangle(x: 0, y: 0, width: 0, height: 0)
        return (requested ?? none).union(continuous ?? none).intersection(viewerBounds).intersection(bounds)
    }

    // MARK: - What changed

    /// Notes that a rectangle's pixels changed.
    package mutating func changed(_ rectangle: RFBRectangle) { damage.insert(rectangle.intersection(bounds)) }

    /// Notes that a rectangle's pixels are now those that were at `x`, `y`, which the viewer can copy itself.
    ///
    /// Changes come in the order in which they happened: what changed before it moved is sent where it is now.
    package mutating func moved(to rectangle: RFBRectangle, fromX x: Int, y: Int) {
        let source = RFBRectangle(x: x, y: y, width: rectangle.width, height: rectangle.height)
        guard bounds.contains(rectangle), bounds.contains(source), !rectangle.isEmpty else {
            return changed(rectangle)
        }
        guard viewer.encodings.contains(.copyRect), viewerBounds == bounds, copies.count < Self.copyLimit else {
            dropCopies()
            return changed(rectangle)
        }
        let stale = damage.intersection(source)
        damage.remove(rectangle)
        for piece in stale.rectangles { damage.insert(piece.offset(x: rectangle.x - x, y: rectangle.y - y)) }
        let staleLossy = lossy.intersection(source)
        lossy.remove(rectangle)
        for piece in staleLossy.rectangles { lossy.insert(piece.offset(x: rectangle.x - x, y: rectangle.y - y)) }
        copies.append(Copy(target: rectangle, x: x, y: y))
    }

    /// Sends what was to be copied as pixels.
    mutating func dropCopies() {
        for copy in copies { damage.insert(copy.target) }
        copies = []
    }

    /// Gives the picture another size, or other monitors; all of it is sent anew.
    ///
    /// - Throws: ``RFBError/tooLarge(width:height:limit:)``; nothing changes then.
    package mutating func resize(width: Int, height: Int, screens: [RFBScreen]) throws(RFBError) {
        guard (1...0xFFFF).contains(width), (1...0xFFFF).contains(height), width * height <= options.limits.pixels
        else { throw .tooLarge(width: width, height: height, limit: options.limits.pixels) }
        let isNewSize = width != bounds.width || height != bounds.height
        bounds = RFBRectangle(x: 0, y: 0, width: width, height: height)
        if self.screens != screens, viewer.encodings.contains(.extendedDesktopSize) { pending.size = true }
        self.screens = screens
        guard isNewSize else { return }
        copies = []
        damage = RFBRegion(bounds)
        lossy = RFBRegion()
    }

    /// Answers the viewer that asked for another size; after ``resize(width:height:screens:)`` when it was done.
    package mutating func answerDesktopSize(_ status: RFBResizeStatus) {
        guard viewer.encodings.contains(.extendedDesktopSize) else { return }
        pending.sizeAnswer = status
        // It is owed at once, not with the next request (rfbproto, ExtendedDesktopSize).
        appendSize()
    }

    /// Gives the pointer another shape.
    package mutating func setCursor(_ cursor: RFBCursor) {
        precondition(max(cursor.width, cursor.height) <= RFBCursor.sideLimit, "a pointer is not that large")
        guard cursor != self.cursor else { return }
        self.cursor = cursor
        if drawsCursor { pending.cursor = true }
    }

    /// Gives the desktop another name.
    package mutating func setName(_ name: String) {
        options.name = name
        if viewer.encodings.contains(.desktopName) { pending.name = true }
    }

    // MARK: - Sending

    /// Makes an update of all that is new in the part the viewer waits for; false when none is due.
    ///
    /// `isExact` sends no JPEG, and again what was sent as JPEG before. The frame has the size that was told last.
    @discardableResult
    package mutating func update(from frame: RFBFrameBuffer, isExact: Bool = false) -> Bool {
        if isExact, !lossy.isEmpty {
            for rectangle in lossy.rectangles { damage.insert(rectangle) }
        }
        guard isUpdateDue else { return false }
        precondition(frame.bounds == bounds, "the frame has the size that was told")
        if hasNewSize || pending.size || pending.sizeAnswer != nil {
            // Nothing else may be in the update (rfbproto, ExtendedDesktopSize).
            let isNewSize = hasNewSize
            appendSize()
            if isNewSize {
                finishUpdate()
                return true
            }
        }
        let start = output.count
        output += [0, 0, 0, 0]
        var count = appendPending()
        let area = area
        if !area.contains(viewerBounds.intersection(bounds)) { dropCopies() }
        for copy in copies {
            appendHead(copy.target, .copyRect)
            output.appendInteger(UInt16(copy.x))
            output.appendInteger(UInt16(copy.y))
            count += 1
        }
        copies = []
        for rectangle in damage.intersection(area).rectangles {
            count += append(rectangle, of: frame, isExact: isExact)
            damage.remove(rectangle)
        }
        output[start + 2] = UInt8(truncatingIfNeeded: count >> 8)
        output[start + 3] = UInt8(truncatingIfNeeded: count)
        finishUpdate()
        return true
    }

    private mutating func finishUpdate() {
        requested = nil
        guard continuous != nil, viewer.encodings.contains(.fence) else { return }
        updatesInFlight += 1
        Fence.append(flags: Fence.request | 1, Self.updateMark, to: &output)
    }

    private mutating func appendHead(_ rectangle: RFBRectangle, _ encoding: RFBEncoding) {
        output.appendRectangle(rectangle)
        output.appendInteger(encoding.rawValue)
    }

    private mutating func append(_ rectangle: RFBRectangle, of frame: RFBFrameBuffer, isExact: Bool) -> Int {
        switch viewer.preferred {
        case .tight:
            let style = TightEncoder.Style(
                layout: viewer.format.tight, level: viewer.level, quality: isExact ? nil : viewer.quality)
            return tight.encode(
                rectangle, of: frame, pixels: viewer.pixels, style: style, lossy: &lossy, to: &output)
        case .zrle:
            appendHead(rectangle, .zrle)
            zrle.encode(
                rectangle, of: frame, pixels: viewer.pixels, layout: viewer.format.compressed, level: viewer.level,
                to: &output)
        default:
            appendHead(rectangle, .raw)
            viewer.pixels.read(rectangle, of: frame, into: &values)
            viewer.format.pixel.append(values[..<rectangle.area], to: &output)
        }
        return 1
    }

    /// Appends an update that holds only the picture's size.
    private mutating func appendSize() {
        output += [0, 0, 0, 1]
        let isExtended = viewer.encodings.contains(.extendedDesktopSize)
        var head = bounds
        if isExtended, let answer = pending.sizeAnswer { (head.x, head.y) = (1, Int(answer.rawValue)) }
        appendHead(head, isExtended ? .extendedDesktopSize : .desktopSize)
        if isExtended {
            let screens = screens.isEmpty ? [RFBScreen(id: 0, frame: bounds)] : screens
            output += [UInt8(clamping: screens.count), 0, 0, 0]
            for screen in screens.prefix(255) { output.appendScreen(screen) }
        }
        if viewerBounds != bounds {
            viewerBounds = bounds
            damage = RFBRegion(bounds)
            copies = []
            if continuous != nil { continuous = bounds }
        }
        pending.size = false
        pending.sizeAnswer = nil
    }

    /// Appends what is new beside pixels; returns the number of rectangles.
    private mutating func appendPending() -> Int {
        var count = pending.announcements.count
        let nothing = RFBRectangle(x: 0, y: 0, width: 0, height: 0)
        for encoding in pending.announcements { appendHead(nothing, encoding) }
        if pending.name {
            appendHead(nothing, .desktopName)
            let name = Array(options.name.utf8.prefix(options.limits.text))
            output.appendInteger(UInt32(name.count))
            output += name
            count += 1
        }
        if pending.cursor, let cursor {
            append(cursor)
            count += 1
        }
        pending = Pending()
        return count
    }

    private mutating func append(_ cursor: RFBCursor) {
        let head = RFBRectangle(x: cursor.hotX, y: cursor.hotY, width: cursor.width, height: cursor.height)
        if viewer.encodings.contains(.cursorWithAlpha) {
            appendHead(head, .cursorWithAlpha)
            output.appendInteger(RFBEncoding.raw.rawValue)
            for pixel in cursor.pixels {
                let alpha = pixel >> 24
                for shift: UInt32 in [16, 8, 0] {
                    output.append(UInt8(((pixel >> shift & 0xFF) * alpha + 127) / 255))
                }
                output.append(UInt8(alpha))
            }
        } else if viewer.encodings.contains(.cursor) {
            appendHead(head, .cursor)
            viewer.format.pixel.append(cursor.pixels.map { viewer.format.value(of: $0) }[...], to: &output)
            output.appendMask(cursor) { $0 >> 24 >= 128 }
        } else {
            appendHead(head, .xCursor)
            guard cursor.width > 0, cursor.height > 0 else { return }
            output += [255, 255, 255, 0, 0, 0]
            output.appendMask(cursor) { ($0 >> 16 & 0xFF) * 3 + ($0 >> 8 & 0xFF) * 6 + ($0 & 0xFF) >= 1280 }
            output.appendMask(cursor) { $0 >> 24 >= 128 }
        }
    }
}

extension [UInt8] {
    /// Appends a bit for each pixel, rows filled up to bytes.
    fileprivate mutating func appendMask(_ cursor: RFBCursor, _ isSet: (UInt32) -> Bool) {
        for y in 0..<cursor.height {
            for start in stride(from: 0, to: cursor.width, by: 8) {
                var byte: UInt8 = 0
                for x in start..<Swift.min(start + 8, cursor.width) where isSet(cursor.pixels[y * cursor.width + x]) {
                    byte |= 0x80 >> UInt8(x - start)
                }
                append(byte)
            }
        }
    }
}
