import KithAPI
import KithRPC
import KithWire

/// What is known of one file beyond its name: its content, its copies, and what the content says of itself.
struct AdaptedDetails {
    /// The most other paths of the same content that are listed.
    private static let copyLimit = 100

    private let device: AdaptedDevice
    private let path: Files.Path
    /// The answer of `media.properties`.
    private let described: JSONValue?
    /// The group in the answer of `duplicates.copies`.
    private let group: JSONValue?

    /// Asks for what the library knows of a file in it.
    ///
    /// Either may be missing: of a file that was not read yet, or of one that cannot be.
    init(of path: Files.Path, _ call: Call) async throws {
        (device, self.path) = (call.device, path)
        async let copies = Self.answer(of: "duplicates.copies", path, call)
        described = try await Self.answer(of: "media.properties", path, call)
        group = try await copies?.member("group")
    }

    private static func answer(of method: String, _ path: Files.Path, _ call: Call) async throws -> JSONValue? {
        do {
            return try await call.call(method, ["path": path.json])
        } catch is KithError {
            try Task.checkCancellation()
            return nil
        }
    }

    /// The file with all of that.
    func added(to file: JSONValue) -> JSONValue {
        guard case .object(var members) = file else { return file }
        let kind = file.member("content_kind")?.text
        members["content_identity"] = identity(kind)
        members["alternate_paths"] = .array(
            (group?.member("copies")?.list ?? []).flatMap { $0.member("paths")?.list ?? [] }
                .compactMap { AdaptedPath.read($0) }.filter { $0 != path }.prefix(Self.copyLimit).map(device.shown))
        guard let properties = described?.member("properties") else { return .object(members) }
        let seconds = properties.member("duration")?.real.map { JSONValue.number($0 / 1_000) } ?? .null
        members["duration_seconds"] = seconds
        switch kind {
        case "image": members["image_media_data"] = .object(image(properties))
        case "video": members["video_media_data"] = .object(video(properties, seconds))
        case "audio": members["audio_media_data"] = .object(audio(properties, seconds))
        default: break
        }
        return .object(members)
    }

    private var digest: String? { group?.member("digest")?.text ?? described?.member("sha256")?.text }

    /// The UUID of what belongs to the content, or else to the path.
    private func id(_ what: String) -> JSONValue {
        .string(CompatibleID(.content, (what + ":" + (digest ?? "\(path)")).utf8, of: device.id).text)
    }

    private func identity(_ kind: String?) -> JSONValue {
        guard let digest else { return .null }
        let read = (group?.member("copies")?.list ?? []).compactMap { $0.member("verified")?.whole }
        return [
            "uuid": id("content"), "kind": .optional(kind), "content_hash": .string(digest),
            "integrity_hash": .string(digest), "mime_type_id": .null, "text_content": .null,
            "total_size": group?.member("size") ?? described?.member("entry")?.member("size") ?? 0,
            "entry_count": group?.member("count") ?? 1, "first_seen_at": .time(read.min()),
            "last_verified_at": .time(read.max()),
        ]
    }

    /// When it was taken, by the clock of Greenwich where that is known.
    private func taken(_ properties: JSONValue) -> JSONValue {
        guard let local = properties.member("taken")?.whole else { return .null }
        let minutes = properties.member("takenOffset")?.whole ?? 0
        guard abs(minutes) <= 1_440, abs(local) < 1 << 40 else { return .null }
        return .time(local - minutes * 60)
    }

    private func members(_ properties: JSONValue, _ names: [(String, String)]) -> [String: JSONValue] {
        Dictionary(names.map { ($0.0, properties.member($0.1) ?? .null) }, uniquingKeysWith: { $1 })
    }

    private func image(_ properties: JSONValue) -> [String: JSONValue] {
        var image = members(
            properties,
            [
                ("width", "width"), ("height", "height"), ("latitude", "latitude"), ("longitude", "longitude"),
                ("camera_model", "camera"), ("lens_model", "lens"), ("iso", "sensitivity"), ("artist", "author"),
                ("description", "title"),
            ])
        for name in [
            "blurhash", "camera_make", "orientation", "color_space", "color_profile", "bit_depth", "copyright",
        ] { image[name] = .null }
        image["uuid"] = id("image")
        image["date_taken"] = taken(properties)
        image["focal_length"] = .optional(properties.member("focalLength")?.real.map { "\($0) mm" })
        image["aperture"] = .optional(properties.member("aperture")?.real.map { "f/\($0)" })
        image["shutter_speed"] = .optional(properties.member("exposure")?.real.map { "\($0) s" })
        return image
    }

    private func video(_ properties: JSONValue, _ seconds: JSONValue) -> [String: JSONValue] {
        var video = members(
            properties,
            [
                ("width", "width"), ("height", "height"), ("codec", "videoCodec"), ("audio_codec", "audioCodec"),
                ("audio_sample_rate", "sampleRate"), ("title", "title"), ("artist", "author"), ("album", "album"),
            ])
        for name in [
            "blurhash", "bit_rate", "pixel_format", "color_space", "color_range", "color_primaries", "color_transfer",
            "fps_num", "fps_den", "audio_bit_rate", "creation_time",
        ] { video[name] = .null }
        video["uuid"] = id("video")
        video["duration_seconds"] = seconds
        video["audio_channels"] = .optional(properties.member("channels")?.whole.map { "\($0)" })
        video["date_captured"] = taken(properties)
        return video
    }

    private func audio(_ properties: JSONValue, _ seconds: JSONValue) -> [String: JSONValue] {
        var audio = members(
            properties,
            [
                ("sample_rate", "sampleRate"), ("codec", "audioCodec"), ("title", "title"), ("artist", "author"),
                ("album", "album"),
            ])
        for name in [
            "bit_rate", "album_artist", "genre", "year", "track_number", "disc_number", "composer", "publisher",
            "copyright",
        ] { audio[name] = .null }
        audio["uuid"] = id("audio")
        audio["duration_seconds"] = seconds
        audio["channels"] = .optional(properties.member("channels")?.whole.map { "\($0)" })
        return audio
    }
}
