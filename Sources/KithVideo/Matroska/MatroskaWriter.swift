package import KithPixels

/// Writes a video as a Matroska file, frame by frame (RFC 9559); has no file and no clock of its own.
///
/// What has been written plays at any moment: lengths that are not known yet say so, and are written over later. At the
/// end come the places to jump to, and how long it is.
///
///     EBML head │ Segment: room for what is found where │ Info │ Tracks │ Cluster │ Cluster … │ Cues
package struct MatroskaWriter {
    /// Bytes for a file.
    package struct Output {
        /// They go to its end.
        package var appended: [UInt8] = []
        /// They go over what is there.
        package var patches: [(offset: UInt64, bytes: [UInt8])] = []
    }

    /// What a file says about itself.
    package struct Description {
        /// Width and height of its pictures, in pixels; a coded picture may have a column or a row more.
        package var size: PixelSize
        /// What it shows.
        package var title: String
        /// When it began, in seconds since 1970.
        package var began: Int64
        /// The most pictures a second.
        package var rate: Int

        /// Describes a file.
        package init(size: PixelSize, title: String, began: Int64, rate: Int) {
            self.size = size
            self.title = title
            self.began = began
            self.rate = rate
        }
    }

    /// The longest time of a cluster, in milliseconds: places within it have 16 bits, and one that is broken off loses
    /// no more.
    static let clusterLimit: UInt64 = 5_000
    /// The seconds from 1970 to 2001, from which Matroska counts.
    private static let epoch: Int64 = 978_307_200

    private let track: AVCTrack
    /// The bytes that have been given out, or are about to be.
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
            let at = elements.beginUnknown(.cluster)
            let content = offset + UInt64(elements.bytes.count)
            elements.unsigned(.timestamp, time)
            cluster = (offset + UInt64(at), content, time)
            if frame.isKey { cues.append((time, offset - segment.content)) }
        }
        let relative = UInt16(time - (cluster?.time ?? time))
        elements.binary(
            .simpleBlock, [0x81, UInt8(relative >> 8), UInt8(relative & 0xFF), frame.isKey ? 0x80 : 0] + sample)
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
        elements.master(.cues) { all in
            for cue in cues {
                all.master(.cuePoint) { point in
                    point.unsigned(.cueTime, cue.time)
                    point.master(.cueTrackPositions) { place in
                        place.unsigned(.cueTrack, 1)
                        place.unsigned(.cueClusterPosition, cue.cluster)
                    }
                }
            }
        }
        output.appended += elements.bytes
        length += UInt64(elements.bytes.count)

        var duration = EBMLElements()
        duration.float(.duration, Double(max(milliseconds, (last ?? 0) + 1)))
        output.patches.append((durationOffset, duration.bytes))
        output.patches.append((segment.length, Self.eightBytes(length - segment.content)))
        output.patches.append((segment.content, seekHead(cues: cuesOffset)))
        return output
    }

    private mutating func closeCluster(_ output: inout Output) {
        guard let cluster else { return }
        output.patches.append((cluster.lengthOffset, Self.eightBytes(length - cluster.content)))
        self.cluster = nil
    }

    private static func eightBytes(_ length: UInt64) -> [UInt8] { EBMLElements.length(Int(length), width: 8) }

    // MARK: - The beginning

    /// The bytes that are kept for ``seekHead(cues:)``.
    private static let seekRoom = 96

    private mutating func writeHead(_ description: Description) {
        var elements = EBMLElements()
        elements.master(.ebml) { head in
            head.unsigned(.ebmlVersion, 1)
            head.unsigned(.ebmlReadVersion, 1)
            head.unsigned(.ebmlMaxIDLength, 4)
            head.unsigned(.ebmlMaxSizeLength, 8)
            head.text(.docType, "matroska")
            head.unsigned(.docTypeVersion, 4)
            head.unsigned(.docTypeReadVersion, 2)
        }
        segment.length = UInt64(elements.beginUnknown(.segment))
        segment.content = UInt64(elements.bytes.count)
        elements.room(Self.seekRoom)

        parts.info = UInt64(elements.bytes.count) - segment.content
        var info = EBMLElements()
        // For the duration: an identifier of two bytes, a length of one, a number of eight.
        info.room(11)
        info.unsigned(.timestampScale, 1_000_000)
        info.text(.muxingApp, "kith")
        info.text(.writingApp, "kith")
        info.text(.title, description.title)
        let (date, overflow) = (description.began - Self.epoch).multipliedReportingOverflow(by: 1_000_000_000)
        if !overflow { info.date(.dateUTC, date) }
        elements.begin(.info, length: info.bytes.count)
        durationOffset = UInt64(elements.bytes.count)
        var bytes = elements.bytes + info.bytes

        parts.tracks = UInt64(bytes.count) - segment.content
        bytes += tracks(description)
        head = bytes
        length = UInt64(bytes.count)
    }

    /// The one track: its codec, size and colours (BT.709, limited range).
    private func tracks(_ description: Description) -> [UInt8] {
        var elements = EBMLElements()
        elements.master(.tracks) { tracks in
            tracks.master(.trackEntry) { entry in
                entry.unsigned(.trackNumber, 1)
                entry.unsigned(.trackUID, 1)
                entry.unsigned(.trackType, 1)
                entry.unsigned(.flagLacing, 0)
                // In nanoseconds. Pictures may be further apart; without it some programs take each millisecond for one.
                entry.unsigned(.defaultDuration, UInt64(1_000_000_000 / max(1, description.rate)))
                entry.text(.language, "und")
                entry.text(.codecID, "V_MPEG4/ISO/AVC")
                entry.binary(.codecPrivate, track.configuration)
                entry.master(.video) { video in
                    // Progressive.
                    video.unsigned(.flagInterlaced, 2)
                    video.unsigned(.pixelWidth, UInt64(description.size.width + description.size.width % 2))
                    video.unsigned(.pixelHeight, UInt64(description.size.height + description.size.height % 2))
                    // The bottom row and the right column that only the coded picture has.
                    if description.size.height % 2 == 1 { video.unsigned(.pixelCropBottom, 1) }
                    if description.size.width % 2 == 1 { video.unsigned(.pixelCropRight, 1) }
                    video.master(.colour) { colour in
                        colour.unsigned(.matrixCoefficients, 1)
                        colour.unsigned(.bitsPerChannel, 8)
                        colour.unsigned(.range, 1)
                        colour.unsigned(.transferCharacteristics, 1)
                        colour.unsigned(.primaries, 1)
                    }
                }
            }
        }
        return elements.bytes
    }

    /// Where the parts of the Segment are, and what is left of the room for that.
    private func seekHead(cues: UInt64) -> [UInt8] {
        var elements = EBMLElements()
        elements.master(.seekHead) { head in
            for (identifier, offset): (MatroskaElement, UInt64) in [
                (.info, parts.info), (.tracks, parts.tracks), (.cues, cues),
            ] {
                head.master(.seek) { seek in
                    seek.binary(.seekID, EBMLElements.identifier(identifier))
                    seek.unsigned(.seekPosition, offset)
                }
            }
        }
        elements.room(Self.seekRoom - elements.bytes.count)
        return elements.bytes
    }
}
