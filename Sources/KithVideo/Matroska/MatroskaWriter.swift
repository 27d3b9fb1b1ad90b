package import KithPixels

/// Writes a video as a Matroska file, frame by frame (RFC 9559); has no file and no clock of its own.
///
/// What has been written plays at any moment: lengths that are not known yet say so, and are written over later. At the
/// end come the places to jump to, and how long it is.
///
///     EBML head │ Segment: room for what is found where │ Info │ Tracks │ Cluster │ Cluster … │ Cues
package struct MatroskaWriter {
    /// Bytes for a file.
    package struct Output: Equatable {
        /// They go to its end.
        package var appended: [UInt8] = []
        /// They go over what is there.
        package var replaced: [(offset: UInt64, bytes: [UInt8])] = []

        package static func == (first: Output, second: Output) -> Bool {
            first.appended == second.appended
                && first.replaced.elementsEqual(second.replaced) { $0.offset == $1.offset && $0.bytes == $1.bytes }
        }
    }

    /// What a file says about itself.
    package struct Description {
        /// Width and height of its pictures, in pixels; a coded picture may have a column or a row more.
        package var size: PixelSize
        /// What it shows.
        package var title: String
        /// When it began, in seconds since 1970.
        package var began: Int64

        /// Describes a file.
        package init(size: PixelSize, title: String, began: Int64) {
            self.size = size
            self.title = title
            self.began = began
        }
    }

    /// The longest time of a cluster, in milliseconds: places within it have 16 bits, and one that is broken off loses
    /// no more.
    static let clusterLimit: UInt64 = 5_000
    /// The seconds from 1970 to 2001, from which Matroska counts.
    private static let epoch: Int64 = 978_307_200

    private let track: AVCTrack
    /// The bytes that have been written.
    private var length: UInt64 = 0
    /// Where the Segment's length is, where what it holds begins, and where the places of its parts go.
    private var segment: (length: UInt64, content: UInt64) = (0, 0)
    private var parts: (info: UInt64, tracks: UInt64) = (0, 0)
    private var durationOffset: UInt64 = 0
    private var cluster: (lengthOffset: UInt64, content: UInt64, time: UInt64)?
    private var cues: [(time: UInt64, cluster: UInt64)] = []
    private var last: UInt64?
    /// What goes before the first cluster, until that is there.
    private var head: [UInt8] = []

    /// Begins a file with the parameter sets of its first frame, a key frame.
    ///
    /// - Throws: ``VideoError/malformed(_:)`` when it has none.
    package init(_ description: Description, keyFrame: VideoFrame) throws(VideoError) {
        guard let track = AVCTrack(keyFrame: keyFrame.bytes) else { throw .malformed("a key frame without its sets") }
        self.track = track
        writeHead(description)
    }

    /// True for a frame that can follow in this file: one that needs no other has the same parameter sets.
    package func takes(_ frame: VideoFrame) -> Bool {
        !frame.isKey || AVCTrack(keyFrame: frame.bytes) == track
    }

    // MARK: - Frames

    /// Adds a frame, which is shown `milliseconds` after the beginning; not before the one before it.
    package mutating func add(_ frame: VideoFrame, at milliseconds: UInt64) throws(VideoError) -> Output {
        guard takes(frame), let sample = AVCTrack.sample(frame.bytes) else {
            throw .malformed("a frame of another video")
        }
        var output = Output()
        output.appended = head
        head = []
        let time = max(milliseconds, last.map { $0 + 1 } ?? 0)
        last = time
        var elements = EBMLElements()
        if frame.isKey || cluster.map({ time - $0.time >= Self.clusterLimit }) ?? true {
            closeCluster(&output)
            let offset = length
            let at = elements.beginUnknown(0x1F43_B675)
            let content = offset + UInt64(elements.bytes.count)
            elements.unsigned(0xE7, time)
            cluster = (offset + UInt64(at), content, time)
            if frame.isKey { cues.append((time, offset - segment.content)) }
        }
        let relative = UInt16(time - (cluster?.time ?? time))
        elements.binary(
            0xA3, [0x81, UInt8(relative >> 8), UInt8(relative & 0xFF), frame.isKey ? 0x80 : 0] + sample)
        output.appended += elements.bytes
        length += UInt64(elements.bytes.count)
        return output
    }

    /// Ends the file, `milliseconds` after its beginning.
    package mutating func end(at milliseconds: UInt64) -> Output {
        var output = Output()
        output.appended = head
        head = []
        closeCluster(&output)
        let cuesOffset = length - segment.content
        var elements = EBMLElements()
        elements.master(0x1C53_BB6B) { all in
            for cue in cues {
                all.master(0xBB) { point in
                    point.unsigned(0xB3, cue.time)
                    point.master(0xB7) { place in
                        place.unsigned(0xF7, 1)
                        place.unsigned(0xF1, cue.cluster)
                    }
                }
            }
        }
        output.appended += elements.bytes
        length += UInt64(elements.bytes.count)

        var duration = EBMLElements()
        duration.float(0x4489, Double(max(milliseconds, (last ?? 0) + 1)))
        output.replaced.append((durationOffset, duration.bytes))
        output.replaced.append((segment.length, Self.eightBytes(length - segment.content)))
        output.replaced.append((segment.content, seekHead(cues: cuesOffset)))
        return output
    }

    private mutating func closeCluster(_ output: inout Output) {
        guard let cluster else { return }
        output.replaced.append((cluster.lengthOffset, Self.eightBytes(length - cluster.content)))
        self.cluster = nil
    }

    private static func eightBytes(_ length: UInt64) -> [UInt8] { EBMLElements.length(Int(length), width: 8) }

    // MARK: - The beginning

    /// The bytes that are kept for ``seekHead(cues:)``.
    private static let seekRoom = 96

    private mutating func writeHead(_ description: Description) {
        var elements = EBMLElements()
        elements.master(0x1A45_DFA3) { head in
            head.unsigned(0x4286, 1)
            head.unsigned(0x42F7, 1)
            head.unsigned(0x42F2, 4)
            head.unsigned(0x42F3, 8)
            head.text(0x4282, "matroska")
            head.unsigned(0x4287, 4)
            head.unsigned(0x4285, 2)
        }
        segment.length = UInt64(elements.beginUnknown(0x1853_8067))
        segment.content = UInt64(elements.bytes.count)
        elements.room(Self.seekRoom)

        parts.info = UInt64(elements.bytes.count) - segment.content
        var info = EBMLElements()
        let roomInInfo = info.bytes.count
        // An identifier of two bytes, a length of one, a number of eight.
        info.room(11)
        info.unsigned(0x2A_D7B1, 1_000_000)
        info.text(0x4D80, "kith")
        info.text(0x5741, "kith")
        info.text(0x7BA9, description.title)
        let (date, overflow) = (description.began - Self.epoch).multipliedReportingOverflow(by: 1_000_000_000)
        if !overflow { info.date(0x4461, date) }
        elements.begin(0x1549_A966, length: info.bytes.count)
        durationOffset = UInt64(elements.bytes.count + roomInInfo)
        var bytes = elements.bytes + info.bytes

        parts.tracks = UInt64(bytes.count) - segment.content
        bytes += tracks(description)
        head = bytes
        length = UInt64(bytes.count)
    }

    /// The one track: its codec, size and colours (BT.709, limited range).
    private func tracks(_ description: Description) -> [UInt8] {
        var elements = EBMLElements()
        elements.master(0x1654_AE6B) { tracks in
            tracks.master(0xAE) { entry in
                entry.unsigned(0xD7, 1)
                entry.unsigned(0x73C5, 1)
                entry.unsigned(0x83, 1)
                entry.unsigned(0x9C, 0)
                entry.text(0x22_B59C, "und")
                entry.text(0x86, "V_MPEG4/ISO/AVC")
                entry.binary(0x63A2, track.configuration)
                entry.master(0xE0) { video in
                    // Progressive.
                    video.unsigned(0x9A, 2)
                    video.unsigned(0xB0, UInt64(description.size.width + description.size.width % 2))
                    video.unsigned(0xBA, UInt64(description.size.height + description.size.height % 2))
                    // The bottom row and the right column that only the coded picture has.
                    if description.size.height % 2 == 1 { video.unsigned(0x54AA, 1) }
                    if description.size.width % 2 == 1 { video.unsigned(0x54DD, 1) }
                    video.master(0x55B0) { colour in
                        colour.unsigned(0x55B1, 1)
                        colour.unsigned(0x55B2, 8)
                        colour.unsigned(0x55B9, 1)
                        colour.unsigned(0x55BA, 1)
                        colour.unsigned(0x55BB, 1)
                    }
                }
            }
        }
        return elements.bytes
    }

    /// Where the parts of the Segment are, and what is left of the room for that.
    private func seekHead(cues: UInt64) -> [UInt8] {
        var elements = EBMLElements()
        elements.master(0x114D_9B74) { head in
            for (identifier, offset): (UInt32, UInt64) in [
                (0x1549_A966, parts.info), (0x1654_AE6B, parts.tracks), (0x1C53_BB6B, cues),
            ] {
                head.master(0x4DBB) { seek in
                    seek.binary(0x53AB, EBMLElements.identifier(identifier))
                    seek.unsigned(0x53AC, offset)
                }
            }
        }
        elements.room(Self.seekRoom - elements.bytes.count)
        return elements.bytes
    }
}
