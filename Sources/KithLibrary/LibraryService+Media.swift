import Foundation
import KithAPI
import KithContent
import KithExtractor
import KithIndex
import KithJobs
import KithNode
import KithWire
import Logging

/// What is in files: their properties, their text, small pictures of them.
extension LibraryService {
    var mediaHandlers: [Handler] {
        [
            // Each may start a process, and others wait for the same few.
            .query(Media.Describe.self, among: contentVisitors) { input, context in
                try await self.describe(input, context)
            },
            .query(Media.Thumbnail.self, among: contentVisitors) { input, context in
                try await self.thumbnail(input, context)
            },
            .call(Media.Extract.self) { input, _ in try await self.extract(input) },
        ]
    }

    /// Whoever reads the files of an index.
    ///
    /// - Throws: `.unsupported` when the program for it is not there.
    func reader(of index: FileIndex) throws(KithError) -> ExtractionReader {
        guard let extractor else {
            throw KithError(
                .unsupported,
                "What is in files cannot be read: kith-extract is not installed beside kith. `make install` does that.")
        }
        return ExtractionReader(index: index, extractor: extractor, disk: disk, protection: protection.value)
    }

    private func extract(_ input: Media.Extract.Input) async throws -> Jobs.Job {
        let keeper = try await ownKeeper(input.library)
        let index = try await keeper.index()
        let location = try index.location(input.id)
        _ = try reader(of: index)
        let content = ContentInput(library: keeper.id.uuidString, location: input.id, name: location.name)
        let queue = try await jobs.start()
        return Self.described(
            try await queue.job(try await queue.add(ExtractJob(reference), content, topic: content.topic)))
    }

    /// Has what is new in the locations of the mode `content` read by jobs.
    func extractChanges(in library: UUID) async {
        guard extractor != nil else { return }
        do {
            let index = try await ownKeeper(library.uuidString).index()
            for location in try index.locations() where location.mode == .content && location.problem == nil {
                guard try await index.extractionCount(location.id) > 0 else { continue }
                let queue = try await jobs.start()
                let input = ContentInput(
                    library: library.uuidString, location: location.id, name: location.name)
                // One that a person has paused stays so.
                if try await queue.hasOpenJob(ExtractJob.self, topic: input.topic) { continue }
                _ = try await queue.add(ExtractJob(reference), input, priority: .low, topic: input.topic)
            }
        } catch {
            if !Task.isCancelled {
                logger.warning("What is in new files is not read.", metadata: ["error": "\(error)"])
            }
        }
    }

    private func describe(
        _ input: Media.Describe.Input, _ context: CallContext
    ) async throws -> Media.Describe.Output {
        let index = try await keeper(input.library, for: context).index()
        let path = try Self.plain(input.path.bytes)
        let item = try await index.extractionItem(at: path)
        guard let entry = try await index.entry(item.entry) else {
            throw KithError(.notFound, "\(input.path) has gone from the library just now.")
        }
        var output = Media.Describe.Output(entry: Self.entry(entry))
        if let digest = try await index.content(of: path).digest {
            output.sha256 = digest.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        }
        do {
            var known = try await index.extracted(item)
            if known == nil, let (outcome, _) = try await reader(of: index).read(item, [.properties, .text]) {
                try await index.storeExtractions([(item, outcome)])
                known = try await index.extracted(item)
            }
            guard let known else {
                output.problem = "It is not there, or has changed since it was scanned."
                return output
            }
            output.properties = Media.Properties(known.properties)
            output.textBytes = known.textBytes
            output.problem = known.problem.map { "It cannot be read: \($0)." }
        } catch let error as KithError {
            // The rest is known all the same.
            output.problem = error.message
        }
        return output
    }

    private func thumbnail(
        _ input: Media.Thumbnail.Input, _ context: CallContext
    ) async throws -> Media.Thumbnail.Output {
        let side = input.size ?? 256
        guard side == 256 || side == 1_024 else { throw KithError(.invalid, "`size` is 256 or 1,024 pixels.") }
        let index = try await keeper(input.library, for: context).index()
        let item = try await index.extractionItem(at: try Self.plain(input.path.bytes))
        if let problem = try await index.extracted(item)?.problem {
            throw KithError(.unsupported, "\(input.path) has no thumbnail: \(problem).")
        }
        // Also of a file that is not there now.
        if let kept = await thumbnails.thumbnail(of: item, side: side) { return Media.Thumbnail.Output(kept) }
        guard let (outcome, result) = try await reader(of: index).read(item, [.thumbnail], side: side) else {
            throw KithError(
                .conflict, "\(input.path) is not there, or has changed since it was scanned. Try again later.")
        }
        guard let result else {
            // Nobody ends a process after the other with it.
            try await index.storeExtractions([(item, outcome)])
            throw KithError(.unsupported, "\(input.path) has no thumbnail: it cannot be read.")
        }
        guard let made = result.thumbnail else {
            throw KithError(
                .unsupported, "\(input.path) has no thumbnail: \(result.failure ?? "none could be made").")
        }
        do { try await thumbnails.keep(made, of: item, side: side) } catch {
            // It is made again the next time.
            logger.warning("A thumbnail could not be kept.", metadata: ["error": "\(error)"])
        }
        return Media.Thumbnail.Output(made)
    }
}

extension Media.Thumbnail.Output {
    fileprivate init(_ thumbnail: ContentExchange.Thumbnail) {
        self.init(width: thumbnail.width, height: thumbnail.height, bytes: ByteString(thumbnail.bytes))
    }
}

extension Media.Properties {
    fileprivate init(_ content: ContentProperties) {
        self.init()
        (format, width, height) = (content.format, content.width, content.height)
        (taken, takenOffset, camera, lens) = (content.taken, content.takenOffset, content.camera, content.lens)
        (exposure, aperture, sensitivity) = (content.exposure, content.aperture, content.sensitivity)
        (focalLength, latitude, longitude) = (content.focalLength, content.latitude, content.longitude)
        (altitude, duration) = (content.altitude, content.duration)
        (videoCodec, audioCodec) = (content.videoCodec, content.audioCodec)
        (sampleRate, channels, pages) = (content.sampleRate, content.channels, content.pages)
        (title, author, album) = (content.title, content.author, content.album)
    }
}
