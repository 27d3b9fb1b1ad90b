extension RFBClient {
    private enum Message {
        static let update: UInt8 = 0
        static let colorMap: UInt8 = 1
        static let bell: UInt8 = 2
        static let cutText: UInt8 = 3
        static let endOfContinuousUpdates: UInt8 = 150
        static let fence: UInt8 = 248
    }

    /// Reads one message, or one rectangle of an update (RFC 6143 §7.6); false when it is not whole.
    mutating func stepMessage() throws(RFBError) -> Bool {
        if skipping > 0 {
            let count = min(skipping, input.count)
            input.skip(count)
            skipping -= count
            return count > 0
        }
        if update != nil { return try stepUpdate() }
        if clipboard.isDropping { return try readClipboard() }
        guard input.count >= 1 else { return false }
        switch input[0] {
        case Message.update:
            guard input.count >= 4 else { return false }
            update = Update(left: input.u16(at: 2))
            input.skip(4)
            if update?.left == 0 { finishUpdate() }
        case Message.colorMap:
            guard input.count >= 6 else { return false }
            skipping = 6 * input.u16(at: 4)
            input.skip(6)
        case Message.bell:
            input.skip(1)
            events.append(.bell)
        case Message.cutText:
            return try readClipboard()
        case Message.endOfContinuousUpdates:
            input.skip(1)
            isContinuous = false
            let isFirst = !takesContinuousUpdates
            takesContinuousUpdates = true
            if options.requestsUpdates, isFirst {
                // The first only says that the server can.
                enableContinuousUpdates(options.wantsContinuousUpdates)
            } else if options.requestsUpdates {
                requestUpdate(of: frameBuffer.bounds, isIncremental: true)
            }
        case Message.fence:
            return try readFence()
        default:
            throw .malformed("a message has a type that exists, not \(input[0])")
        }
        return true
    }

    private mutating func readClipboard() throws(RFBError) -> Bool {
        let wasDropping = clipboard.isDropping
        switch try clipboard.receive(&input, output: &output) {
        case .incomplete: return false
        case .done(let event):
            if let event { events.append(.clipboard(event)) }
            // The server says first what it takes, and is told the same.
            if !wasDropping, event == nil, !hasSentClipboardCapabilities {
                hasSentClipboardCapabilities = true
                clipboard.appendCapabilities(to: &output)
            }
            return true
        }
    }

    private mutating func readFence() throws(RFBError) -> Bool {
        guard let fence = try Fence(&input) else { return false }
        takesFences = true
        if fence.isRequest {
            fence.appendAnswer(to: &output)
        } else {
            events.append(.fence(fence.payload))
        }
        return true
    }

    // MARK: - Updates

    private mutating func stepUpdate() throws(RFBError) -> Bool {
        guard var update else { return false }
        self.update = nil
        if update.rectangle == nil {
            guard input.count >= 12 else {
                self.update = update
                return false
            }
            update.rectangle = input.rectangle(at: 0)
            update.encoding = RFBEncoding(rawValue: Int32(bitPattern: input.u32(at: 8)))
            update.progress = nil
            input.skip(12)
        }
        guard let rectangle = update.rectangle else { return false }
        let isWhole = try readRectangle(rectangle, &update)
        if isWhole {
            update.rectangle = nil
            update.left -= 1
        }
        self.update = update
        if isWhole, update.left <= 0 { finishUpdate() }
        return isWhole
    }

    private mutating func readRectangle(_ rectangle: RFBRectangle, _ update: inout Update) throws(RFBError) -> Bool {
        switch update.encoding {
        case .raw, .copyRect, .rre, .hextile, .tight, .zrle:
            guard frameBuffer.bounds.contains(rectangle) else { throw .outside(rectangle) }
            // A few bytes may paint all of the picture: who repeats that has no picture to show.
            if update.progress == nil { update.painted += rectangle.area }
            guard update.painted <= Update.paintLimit * frameBuffer.bounds.area else {
                throw .malformed("an update paints the picture a few times at most")
            }
            let isWhole = try readPixels(rectangle, &update)
            if isWhole { update.changed.insert(rectangle) }
            return isWhole
        default:
            return try readPseudoRectangle(rectangle, &update)
        }
    }

    private mutating func readPixels(_ rectangle: RFBRectangle, _ update: inout Update) throws(RFBError) -> Bool {
        var progress = update.progress ?? RectangleProgress()
        defer { update.progress = progress }
        switch update.encoding {
        case .raw:
            return SimpleDecoders.raw(
                rectangle, &progress, from: &input, layout: layouts.pixel, to: &frameBuffer, scratch: &scratch)
        case .copyRect:
            return try SimpleDecoders.copy(rectangle, from: &input, to: &frameBuffer)
        case .rre:
            return try SimpleDecoders.rre(
                rectangle, &progress, from: &input, layout: layouts.pixel, to: &frameBuffer)
        case .hextile:
            return try SimpleDecoders.hextile(
                rectangle, &progress, from: &input, layout: layouts.pixel, to: &frameBuffer, scratch: &scratch)
        case .tight:
            return try tight.decode(rectangle, from: &input, layout: layouts.tight, to: &frameBuffer)
        default:
            return try zrle.decode(rectangle, from: &input, layout: layouts.compressed, to: &frameBuffer)
        }
    }

    private mutating func finishUpdate() {
        guard let update else { return }
        self.update = nil
        if !update.changed.isEmpty { events.append(.updated(update.changed)) }
        if update.changedSize, isContinuous { enableContinuousUpdates(true) }
        guard options.requestsUpdates, !isContinuous else { return }
        requestUpdate(of: frameBuffer.bounds, isIncremental: !update.needsAll)
    }
}
