import Foundation
import KithAPI
import KithBrowser
import KithWire

/// Does the browser's requests, and sends it the results.
struct BrowserWork: Sendable {
    let client: Client
    /// Reads what the browser does not decode itself.
    var extracted = ExtractedPreview()
    let send: @Sendable (Browser.Event) -> Void

    /// More is not listed: nobody reads it, and it must be held.
    private static let listingLimit = 500_000
    /// More is not shown of a search.
    private static let searchLimit = 50_000

    /// Does one request; the last event sent is its outcome.
    func perform(_ effect: Browser.Effect, _ ticket: Ticket) async {
        var failure: KithError?
        do {
            try await attempt(effect, ticket)
        } catch let error as KithError {
            failure = error
        } catch is CancellationError {
            failure = KithError(.cancelled, "It was cancelled.")
        } catch {
            failure = KithError(.internal, "This could not be done: \(error).", cause: error)
        }
        send(.ended(ticket, failure))
    }

    private func attempt(_ effect: Browser.Effect, _ ticket: Ticket) async throws {
        switch effect {
        case .list(_, let folder): try await list(ticket, folder)
        case .listDevices:
            send(.devices(ticket, try await client.call(Devices.List.self, Devices.List.Input(probe: false))))
            send(.devices(ticket, try await client.call(Devices.List.self, Devices.List.Input(probe: true))))
        case .search(_, let folder, let text): try await search(ticket, folder, text)
        case .describe(_, let device, let path):
            send(.described(ticket, try await client.describe(path, followsLinks: true, on: device)))
        case .preview(_, let device, let path, let item):
            send(.preview(ticket, try await preview(of: item, device, path)))
        case .read(_, let device, let path, let offset, let length):
            try await read(ticket, device, path, offset: offset, length: length)
        case .compare(_, let order): send(.present(ticket, try await namesakes(order)))
        case .copy(_, let order): try await copy(ticket, order)
        case .makeFolder(_, let device, let path):
            _ = try await client.call(Files.MakeFolder.self, Files.MakeFolder.Input(path: path), on: device)
        case .move(_, let device, let moves, let overwrite):
            for (index, move) in moves.enumerated() {
                _ = try await client.call(
                    Files.Rename.self, Files.Rename.Input(from: move.from, to: move.to, overwrite: overwrite),
                    on: device)
                send(.advanced(ticket, index + 1))
            }
        case .delete(_, let device, let paths): try await delete(ticket, device, paths)
        case .edit, .cancel, .suspend, .redraw, .quit: break  // not requests of devices
        }
    }

    // MARK: - Looking

    /// Finds out the absolute path of a folder: of `~`, or where that is not granted of what is.
    private func resolved(_ ticket: Ticket, _ folder: Folder) async throws -> Files.Path {
        guard folder.path.bytes.first != UInt8(ascii: "/") else { return folder.path }
        var entry: Files.Entry
        do {
            entry = try await client.describe(folder.path, followsLinks: true, on: folder.device)
        } catch let error as KithError where error.code == .denied && folder.path == "~" {
            entry = try await client.describe(".", followsLinks: true, on: folder.device)
        }
        // A device with an older kith does not say.
        let path = entry.absolute ?? folder.path
        send(.resolved(ticket, path))
        return path
    }

    private func list(_ ticket: Ticket, _ folder: Folder) async throws {
        let path = try await resolved(ticket, folder)
        var count = 0
        try await found(
            Files.Find.Input(path: Self.asFolder(path), minimumDepth: 1, maximumDepth: 1), on: folder.device
        ) { found in
            // A folder that could not be opened is all that was left out.
            if count == 0, found.entries.isEmpty, let skipped = found.skipped.first { throw skipped.failure.error }
            count += found.entries.count
            send(.entries(ticket, found.entries))
            guard count < Self.listingLimit else {
                throw KithError(.exhausted, "The folder holds more than \(Self.listingLimit) items.")
            }
        }
    }

    private func search(_ ticket: Ticket, _ folder: Folder, _ text: String) async throws {
        let path = try await resolved(ticket, folder)
        let isPattern = text.contains { "*?[".contains($0) }
        let escaped = text.replacingOccurrences(of: "\\", with: "\\\\")
        let pattern = Files.Filter.Pattern(
            isPattern ? text : "*\(escaped)*", ignoresCase: !text.contains(where: \.isUppercase))
        var count = 0
        try await found(
            Files.Find.Input(
                path: Self.asFolder(path), filter: Files.Filter(patterns: [pattern]), minimumDepth: 1),
            on: folder.device
        ) { found in
            count += found.entries.count
            send(.entries(ticket, found.entries))
            guard count < Self.searchLimit else {
                throw KithError(
                    .exhausted, "More than \(Self.searchLimit) were found: search for something more specific.")
            }
        }
    }

    /// The path with a slash behind it, so that a link to a folder is one.
    private static func asFolder(_ path: Files.Path) -> Files.Path {
        path.bytes.last == UInt8(ascii: "/") ? path : Files.Path(bytes: path.bytes + [UInt8(ascii: "/")])
    }

    private func found(
        _ input: Files.Find.Input, on device: String?, _ take: (Files.Found) throws -> Void
    ) async throws {
        let check = try FoundCheck(input, from: device)
        let stream = try await client.open(Files.Find.self, input, on: device).stream
        try await abandoning(stream.bytes) {
            for try await found in stream.messages {
                try check.check(found)
                try take(found)
                if let failure = found.failure { throw failure.error }
                if found.isLast { return }
            }
            throw KithError(.closed, "The connection was lost before all was listed.")
        }
    }

    /// Runs `body`; when it fails or is called off, the other end hears of it at once.
    private func abandoning<Result>(_ stream: any ByteStream, _ body: () async throws -> Result) async throws -> Result
    {
        do {
            return try await body()
        } catch {
            stream.abort(.cancelled)
            throw error
        }
    }

    // MARK: - Contents

    private func bytes(_ device: String?, _ path: Files.Path, offset: UInt64 = 0, length: Int) async throws -> [UInt8] {
        var reading = try await RemoteReading(
            Files.Read.Input(path: path, offset: offset, length: UInt64(length)), on: device, client)
        do {
            var bytes: [UInt8] = []
            while bytes.count < length, let part = try await reading.next() { bytes += part }
            await reading.finish()
            return bytes
        } catch {
            reading.stop()
            throw error
        }
    }

    private func preview(of item: Item, _ device: String?, _ path: Files.Path) async throws -> Preview {
        var (kind, size) = (item.kind, item.size)
        if kind == .link {
            let entry = try await client.describe(path, followsLinks: true, on: device)
            (kind, size) = (Item(entry).kind, entry.size)
        }
        switch kind {
        case .folder:
            let input = Files.List.Input(path: Self.asFolder(path), limit: 200)
            let page = try await client.call(Files.List.self, input, on: device)
            try page.check(against: input, from: device)
            return .folder(page.entries.map { Item($0) }, hasMore: page.hasMore)
        case .file:
            var head = try await bytes(device, path, length: Preview.headSize)
            let isExtracted = extracted.wantsWhole(head, size: size)
            if isExtracted || Preview.wantsWhole(head, size: size) {
                head = try await bytes(device, path, length: Preview.imageSizeLimit)
            }
            if isExtracted, let preview = try await extracted.preview(of: head) { return preview }
            return Preview(bytes: head, size: size)
        default: return .failure("It is not a regular file.")
        }
    }

    private func read(
        _ ticket: Ticket, _ device: String?, _ path: Files.Path, offset: UInt64, length: Int
    ) async throws {
        let part = try await bytes(device, path, offset: offset, length: length)
        if offset == 0 {
            let entry = try await client.describe(path, followsLinks: true, on: device)
            let isWhole = UInt64(part.count) >= entry.size
            let isExtracted = extracted.wantsWhole(part, size: entry.size)
            if isExtracted || isWhole || Preview.wantsWhole(part, size: entry.size),
                isExtracted || ImageHeader(part)?.isDecoded ?? ImageHeader.mayFollow(part)
            {
                let all = isWhole ? part : try await bytes(device, path, length: Preview.imageSizeLimit)
                var preview = Preview(bytes: all, size: entry.size)
                if isExtracted, let other = try await extracted.preview(of: all) { preview = other }
                if case .picture = preview { send(.preview(ticket, preview)) }
            }
        }
        send(.bytes(ticket, part, isLast: part.count < length))
    }

    // MARK: - Changing

    /// The items of a copy's sources that are at its destination already, by name.
    private func namesakes(_ order: Browser.CopyOrder) async throws -> [Files.Path] {
        let destination = order.destination
        var isFolder = order.intoFolder
        if !isFolder {
            let there = try await client.call(
                Files.Exists.self, Files.Exists.Input(path: destination.path), on: destination.device)
            guard let kind = there.kind else { return [] }
            isFolder = kind == .folder
            if kind != .folder { return [destination.path] }
        }
        let folder = Folder(device: destination.device, path: destination.path)
        var present: [Files.Path] = []
        for source in order.sources {
            let path = folder.path(of: Folder(device: nil, path: source.path).name)
            let there = try await client.call(Files.Exists.self, Files.Exists.Input(path: path), on: destination.device)
            if there.kind != nil { present.append(path) }
        }
        return present
    }

    private func copy(_ ticket: Ticket, _ order: Browser.CopyOrder) async throws {
        let stream = try await client.open(
            Files.Copy.self,
            Files.Copy.Input(
                sources: order.sources, destination: order.destination, recursive: true,
                receiving: Files.ReceiveOptions(overwrite: order.overwrite, intoFolder: order.intoFolder))
        ).stream
        try await abandoning(stream.bytes) {
            for try await progress in stream.messages {
                send(.progress(ticket, progress))
                if progress.summary != nil || progress.failure != nil { return }
            }
            throw KithError(.closed, "The copy was interrupted. Copy again to go on where it was.")
        }
    }

    /// Deletes one after the other, and goes on after one that fails.
    private func delete(_ ticket: Ticket, _ device: String?, _ paths: [Files.Path]) async throws {
        var failures: [KithError] = []
        for (index, path) in paths.enumerated() {
            do {
                _ = try await client.call(
                    Files.Delete.self, Files.Delete.Input(path: path, recursive: true), on: device)
            } catch let error as KithError where error.code != .cancelled && error.code != .closed {
                failures.append(error)
            }
            try Task.checkCancellation()
            send(.advanced(ticket, index + 1))
        }
        guard let first = failures.first else { return }
        let more = failures.count > 1 ? " \(failures.count - 1) more could not be deleted either." : ""
        throw KithError(first.code, first.message + more, cause: first)
    }

    /// Edits a file on this process's terminal, which nothing else uses meanwhile.
    func edit(_ ticket: Ticket, device: String?, _ path: Files.Path) async {
        do {
            if let device {
                note("kith: fetching \(printable(device)):\(printable(path.description))")
                let isChanged = try await RemoteEdit(device: device, path: path, client: client).run()
                send(.edited(ticket, isChanged: isChanged))
            } else {
                guard let text = String(validating: path.bytes, as: UTF8.self) else {
                    throw KithError(.unsupported, "A file whose name is not UTF-8 cannot be given to an editor.")
                }
                let status = try await Editor.run(on: text)
                guard status == 0 else { throw KithError(.cancelled, "The editor ended with status \(status).") }
                send(.edited(ticket, isChanged: true))
            }
            send(.ended(ticket, nil))
        } catch let error as KithError {
            send(.ended(ticket, error))
        } catch {
            send(.ended(ticket, KithError(.internal, "The file could not be edited: \(error).", cause: error)))
        }
    }
}
