import KithWire

/// Turns a host's screen into messages from which a ``TileDecoder`` makes the same picture, bit for bit.
///
/// It keeps the picture the viewer has, so that a frame may be left out at any time: the next message says what changed
/// since the last one *made*, which is also why each message has to be delivered, in order. For each screen of each viewer
/// one of these.
///
///     encoder.damaged(region)                       what the capture reports, as often as it likes
///     encoder.encode(frame, at: now)                a message, or nil when the viewer has it all
///
/// With ``Options/sendsVideo`` regions in motion are left to a video codec: they are named in the answer, and come
/// exactly once they rest (``RefinementPlan``). `nextRefinement` is when to call again although nothing changed.
package struct TileEncoder: ~Copyable {
    /// The choices of one stream.
    package struct Options: Hashable, Sendable {
        /// Compress the messages, which the viewer must be able to undo.
        package var compresses = true
        /// The zstd level, 1…9.
        package var level: Int32 = 1
        /// Leave regions in motion to a video codec.
        package var sendsVideo = false

        /// The choices for a viewer on this machine's kind of build.
        package init(compresses: Bool = true, level: Int32 = 1, sendsVideo: Bool = false) {
            self.compresses = compresses
            self.level = level
            self.sendsVideo = sendsVideo
        }
    }

    /// What a frame became.
    package struct Message: Hashable, Sendable {
        /// For the viewer's decoder.
        package var bytes: [UInt8]
        /// The parts of the screen to be sent as video.
        package var video: [PixelRectangle] = []
        /// The pixels sent one by one, not copied.
        package var coded = 0
        /// The pixels that were moved.
        package var copied = 0
    }

    /// The bytes that pictures of many colours may take of a message, as the link allows; text has as many as it needs.
    package struct Room: Hashable, Sendable {
        /// What is made exact at rest, and all of a change as long as ``change`` is not known.
        package var message: Int
        /// A change that takes more is left to video, however seldom it changes; `nil` when the link is not known: what is
        /// more than fits in the message waits for the next.
        package var change: Int?

        /// Describes a link.
        package init(message: Int, change: Int?) {
            self.message = message
            self.change = change
        }
    }

    /// The bytes that a pixel takes in a picture of many colours, about.
    private static let bytesPerPixel = 2

    private var options: Options
    var shown = PixelBuffer(size: PixelSize(width: 0, height: 0))
    private var difference = TileDifference(size: PixelSize(width: 0, height: 0))
    private var pending = PixelRegion()
    private var encodedAt: ContinuousClock.Instant?
    private var isStarting = true
    private var compressor: StreamCompressor?
    private var palette = Palette()
    private var classifier = RegionClassifier(tiles: 0)
    private var plan = RefinementPlan(tiles: 0)
    private var indices: [UInt8] = []
    private var body = ByteWriter()

    /// Begins a stream; its first message has the whole screen.
    package init(options: Options = Options()) { self.options = options }

    /// True when regions in motion are left to a video codec; a change begins the picture anew.
    package var sendsVideo: Bool {
        get { options.sendsVideo }
        set {
            guard newValue != options.sendsVideo else { return }
            options.sendsVideo = newValue
            isStarting = true
        }
    }

    /// Notes that pixels of a region may have changed; those outside the screen do not matter.
    package mutating func damaged(_ region: PixelRegion) { pending.formUnion(region) }

    /// Notes that pixels of a region changed at an earlier time, before what is now captured: when several changes become
    /// one frame, all of them count for what is motion.
    package mutating func missed(_ region: PixelRegion, at time: ContinuousClock.Instant) {
        guard options.sendsVideo, !isStarting else { return }
        var tiles = Set<Int>()
        for rectangle in region.rectangles {
            let touched = difference.tiles(in: rectangle.intersection(shown.size.bounds))
            for row in touched.rows { tiles.formUnion(touched.columns.map { row * difference.columns + $0 }) }
        }
        for tile in tiles { _ = classifier.changed(tile, at: time) }
    }

    /// Makes the next message begin anew, for a viewer that lost or refused one.
    package mutating func startAnew() { isStarting = true }

    /// The time to encode again although nothing was damaged; `nil` when the viewer's picture is exact.
    package var nextRefinement: ContinuousClock.Instant? {
        // What found no room is there to be sent at once.
        pending.isEmpty ? plan.nextDeadline : encodedAt
    }

    /// True when the viewer has, or was sent, exactly the frame last encoded.
    package var isExact: Bool { plan.isEmpty && pending.isEmpty && !isStarting }

    /// The parts of regions that were named for video, and that the viewer has not been sent exactly since.
    ///
    /// A frame that takes its time is drawn only there: the rest would spoil what is exact by now.
    package func inexact(_ regions: [PixelRectangle]) -> [PixelRectangle] {
        guard !plan.isEmpty else { return [] }
        var parts: [PixelRectangle] = []
        for region in regions {
            let touched = difference.tiles(in: region.intersection(shown.size.bounds))
            for row in touched.rows {
                for column in touched.columns {
                    let tile = row * difference.columns + column
                    if !plan.isExact(tile) { parts.append(difference.bounds(tile).intersection(region)) }
                }
            }
        }
        return PixelRectangle.joinedInRows(parts)
    }

    /// Makes a message of what changed; `nil` when nothing did.
    ///
    /// `room` is for a stream with video; `nil`: as many bytes as it takes.
    package mutating func encode(
        _ frame: borrowing PixelView, at now: ContinuousClock.Instant, room: Room? = nil
    ) -> Message? {
        precondition(frame.size.area > 0, "a screen has pixels")
        precondition(
            max(frame.size.width, frame.size.height) <= TileFormat.sideLimit,
            "a screen has at most 65,535 pixels a side")
        if frame.size != shown.size { isStarting = true }
        var message = Message(bytes: [])
        body = ByteWriter(capacity: 4096)
        let begins = isStarting
        if begins { start(frame.size) }
        let rows = frame.rows
        pending.clip(to: frame.size.bounds)
        difference.compare(rows, with: shown.rows, in: pending)
        pending = PixelRegion()
        if !begins { move(rows, into: &message) }
        settle(rows, at: now, room, into: &message)
        encodedAt = now
        for rectangle in difference.rectangles(limit: TileFormat.rectangleLimit) {
            for part in rectangle.parts(limit: TileFormat.rectangleLimit) { write(part, of: rows, into: &message) }
        }
        difference = TileDifference(size: frame.size)
        guard begins || !body.bytes.isEmpty || !message.video.isEmpty else { return nil }
        if begins || !body.bytes.isEmpty { message.bytes = finished(begins: begins) }
        return message
    }

    /// A message that changes nothing, which a viewer confirms as any other; `nil` before the first picture.
    package mutating func encodeNothing() -> [UInt8]? {
        guard !isStarting else { return nil }
        body = ByteWriter(capacity: 16)
        return finished(begins: false)
    }

    private mutating func start(_ size: PixelSize) {
        isStarting = false
        shown = PixelBuffer(size: size)
        difference = TileDifference(size: size)
        classifier = RegionClassifier(tiles: difference.changes.count)
        plan = RefinementPlan(tiles: difference.changes.count)
        palette = Palette()
        compressor = options.compresses ? StreamCompressor(level: options.level) : nil
        pending = PixelRegion(size.bounds)
    }

    /// Moves what scrolled, in the viewer's picture as in ours.
    private mutating func move(_ rows: PixelRows, into message: inout Message) {
        for group in difference.groups() where group.around.area >= 4096 {
            for copy in ScrollDetector.copies(rows, shown: shown.rows, in: group.around) {
                // What only the video codec has sent cannot be moved exactly.
                if !plan.isEmpty, hasInexact(copy.source) { continue }
                // Groups' rectangles may overlap; a decoder counts what a message does.
                guard message.copied + copy.source.area <= rows.size.area * (TileDecoder.passes - 2) else { return }
                rectangle(copy.target, .copy)
                body.integer(UInt16(copy.source.x))
                body.integer(UInt16(copy.source.y))
                shown.copy(copy.source, to: (copy.x, copy.y))
                message.copied += copy.source.area
                difference.compareAgain(rows, with: shown.rows, in: copy.target)
            }
        }
    }

    private func hasInexact(_ rectangle: PixelRectangle) -> Bool {
        let touched = difference.tiles(in: rectangle)
        return touched.rows.contains { row in
            touched.columns.contains { !plan.isExact(row * difference.columns + $0) }
        }
    }

    /// Decides tile by tile what is sent now, what is left to video and what is due to be made exact.
    private mutating func settle(
        _ rows: PixelRows, at now: ContinuousClock.Instant, _ room: Room?, into message: inout Message
    ) {
        guard options.sendsVideo else { return }
        let pictures = room.map { picturesBeyond($0, of: rows) } ?? []
        for tile in difference.changes.indices where !difference.changes[tile].isEmpty {
            if pictures.contains(tile) {
                guard room?.change != nil else {
                    pending.insert(difference.changes[tile])
                    difference.set(tile, to: .empty)
                    continue
                }
                classifier.note(tile, isComplex: true)
            }
            if classifier.changed(tile, at: now) == .motion || pictures.contains(tile) {
                plan.sentInexactly(tile, at: now)
                message.video.append(difference.bounds(tile))
                difference.set(tile, to: .empty)
            } else if !plan.isExact(tile) {
                // The viewer's pixels are the video's: all of them have to be said.
                plan.sentExactly(tile)
                difference.set(tile, to: difference.bounds(tile))
            }
        }
        let limit = room.map { max(1, $0.message / (TileDifference.tileArea * Self.bytesPerPixel)) }
        let bounds = difference.bounds
        for tile in plan.due(at: now, limit: limit ?? .max, isSmall: { !rows.hasManyColours(bounds($0)) }) {
            difference.set(tile, to: difference.bounds(tile))
            classifier.rested(tile, at: now)
        }
        message.video = PixelRectangle.joinedInRows(message.video)
    }

    /// The changed tiles with pictures of many colours for which there is no room.
    private func picturesBeyond(_ room: Room, of rows: PixelRows) -> Set<Int> {
        // Something goes each time, or nothing would ever tell how fast the link is.
        let limit = room.change ?? max(room.message, TileDifference.tileArea * Self.bytesPerPixel)
        let changed = difference.changes.indices.filter { !difference.changes[$0].isEmpty }
        // Most changes are small, or the link is fast: nothing has to be looked at.
        guard changed.reduce(0, { $0 + toBeSent($1).area }) * Self.bytesPerPixel > limit else { return [] }
        var pictures: [Int] = []
        var bytes = 0
        for tile in changed where rows.hasManyColours(toBeSent(tile)) {
            bytes += toBeSent(tile).area * Self.bytesPerPixel
            // Of a change that waits, what fits goes; one that is left to video goes as a whole.
            if room.change != nil || bytes > limit { pictures.append(tile) }
        }
        return bytes > limit ? Set(pictures) : []
    }

    /// What a changed tile sends when it is sent exactly: all of it where the viewer has the video's pixels.
    private func toBeSent(_ tile: Int) -> PixelRectangle {
        plan.isExact(tile) ? difference.changes[tile] : difference.bounds(tile)
    }

    private mutating func write(_ rectangle: PixelRectangle, of rows: PixelRows, into message: inout Message) {
        message.coded += rectangle.area
        let colour = unsafe rows.row(rectangle.y, rectangle.x).pointee | PixelBuffer.opaque
        let isSolid = rectangle.rows.allSatisfy {
            unsafe PixelKernels.isSolid(rows.row($0, rectangle.x), count: rectangle.width, colour: colour)
        }
        if isSolid {
            self.rectangle(rectangle, .solid)
            write(colour: colour)
        } else if let indexed = palette.index(rectangle, of: rows, into: &indices) {
            writeIndexed(rectangle, indexed)
            note(rectangle, isComplex: false)
        } else {
            self.rectangle(rectangle, .pixels)
            var bytes: [UInt8] = []
            PixelPrediction.append(rectangle, of: rows, to: &bytes)
            body.bytes(bytes)
            note(rectangle, isComplex: true)
        }
        shown.rows.update(rectangle, from: rows)
    }

    private mutating func note(_ rectangle: PixelRectangle, isComplex: Bool) {
        guard options.sendsVideo else { return }
        let touched = difference.tiles(in: rectangle)
        for row in touched.rows {
            for column in touched.columns {
                classifier.note(row * difference.columns + column, isComplex: isComplex)
            }
        }
    }

    private mutating func writeIndexed(_ rectangle: PixelRectangle, _ indexed: Palette.Indexed) {
        // Runs are shorter for what is nearly empty; a stream that remembers letters wants them as columns.
        let isSparse = indexed.runs * (compressor == nil ? 2 : 24) < rectangle.area
        self.rectangle(rectangle, isSparse ? .runs : .indices)
        body.integer(UInt16(indexed.added.count))
        for entry in indexed.added {
            body.integer(entry.index)
            write(colour: entry.colour)
        }
        if isSparse {
            writeRuns(rectangle.area)
        } else {
            body.bytes(columns(of: rectangle.size))
        }
    }

    private mutating func writeRuns(_ area: Int) {
        var start = 0
        while start < area {
            let index = indices[start]
            var end = start + 1
            while end < area, indices[end] == index { end += 1 }
            body.integer(index)
            body.varint(UInt64(end - start))
            start = end
        }
    }

    /// The indices column by column.
    private func columns(of size: PixelSize) -> [UInt8] {
        unsafe indices.withUnsafeBufferPointer { source in
            unsafe [UInt8](unsafeUninitializedCapacity: size.area) { target, count in
                for y in 0..<size.height {
                    var (from, to) = (y * size.width, y)
                    for _ in 0..<size.width {
                        unsafe target[to] = source[from]
                        from += 1
                        to += size.height
                    }
                }
                count = size.area
            }
        }
    }

    private mutating func rectangle(_ rectangle: PixelRectangle, _ command: TileFormat.Command) {
        body.integer(command.rawValue)
        for value in [rectangle.x, rectangle.y, rectangle.width, rectangle.height] { body.integer(UInt16(value)) }
    }

    private mutating func write(colour: UInt32) {
        for shift in [0, 8, 16] { body.integer(UInt8(truncatingIfNeeded: colour >> UInt32(shift))) }
    }

    private mutating func finished(begins: Bool) -> [UInt8] {
        body.integer(TileFormat.Command.end.rawValue)
        var head = ByteWriter()
        var flags: TileFormat.Flags = begins ? .start : []
        if compressor != nil { flags.insert(.compressed) }
        head.integer(flags.rawValue)
        if begins {
            head.varint(UInt64(shown.size.width))
            head.varint(UInt64(shown.size.height))
        }
        var bytes = head.bytes
        if compressor == nil { return bytes + body.bytes }
        let isGood = compressor?.append(body.bytes, to: &bytes) ?? false
        // Only want of memory does that, and then nothing else works either.
        precondition(isGood, "zstd compresses what it is given")
        return bytes
    }
}

extension PixelRectangle {
    /// Pieces of at most `limit` pixels, cut from the left to the right.
    func parts(limit: Int) -> [PixelRectangle] {
        guard area > limit else { return [self] }
        let step = max(1, limit / height)
        return stride(from: x, to: maxX, by: step).map {
            PixelRectangle(columns: $0..<min(maxX, $0 + step), rows: rows)
        }
    }

    /// Joins rectangles that continue the one before them to the right.
    static func joinedInRows(_ rectangles: [PixelRectangle]) -> [PixelRectangle] {
        var result: [PixelRectangle] = []
        for rectangle in rectangles {
            if let last = result.last, last.y == rectangle.y, last.height == rectangle.height, last.maxX == rectangle.x
            {
                result[result.count - 1] = last.union(rectangle)
            } else {
                result.append(rectangle)
            }
        }
        return result
    }
}
