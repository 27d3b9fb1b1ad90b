import KithAPI
import KithWire

/// An archive of files and folders of a device: what goes into it, and the bytes of it in order.
struct ArchiveStream: Sendable {
    /// The most entries of an archive.
    static let entryLimit = 250_000
    /// The most small files that are read at once, and the bytes of them.
    private static let batch = (files: 16, bytes: UInt64(4 << 20))

    private let form: ArchiveForm
    private let entries: [ArchiveEntry]
    private let paths: [Files.Path]
    private let device: String?
    private let client: Client
    private let zip: ZipLayout?
    /// The size of the archive, in bytes.
    let size: UInt64

    /// Looks at all that goes into an archive: files and folders, no links, nothing special.
    init(_ form: ArchiveForm, of tops: [Files.Path], on device: String?, client: Client) async throws {
        var entries: [ArchiveEntry] = []
        var paths: [Files.Path] = []
        var names: Set<String> = []
        for top in tops {
            let name = Self.free(ArchiveEntry.name(DownloadTicket.name(of: top).utf8), among: names)
            names.insert(name)
            let entry = try await client.call(Files.Stat.self, .init(path: top, followsLinks: true), on: device)
            if entry.kind == .file {
                entries.append(Self.entry(name, entry))
                paths.append(top)
                continue
            }
            guard entry.kind == .folder else { continue }
            let slash = UInt8(ascii: "/")
            let folder = top.bytes.last == slash ? top : Files.Path(bytes: top.bytes + [slash])
            let input = Files.Find.Input(path: folder, filter: Files.Filter(kinds: [.file, .folder]))
            let check = try FoundCheck(input, from: device)
            let found = try await client.open(Files.Find.self, input, on: device).stream
            while let part = try await found.receive() {
                try check.check(part)
                for item in part.entries {
                    let beneath = item.name.bytes
                    entries.append(
                        Self.entry(beneath.isEmpty ? name : name + "/" + ArchiveEntry.name(beneath), item))
                    paths.append(top.appending(beneath))
                }
                guard entries.count <= Self.entryLimit else {
                    found.abort(.cancelled)
                    throw KithError(
                        .exhausted, "There are more than \(Self.entryLimit) files: take fewer folders at a time.")
                }
                if let failure = part.failure { throw failure.error }
                if part.isLast { break }
            }
        }
        try Self.check(entries)
        // Parents first, as some that unpack want it.
        let order = entries.indices.sorted { entries[$0].name < entries[$1].name }
        self.entries = order.map { entries[$0] }
        self.paths = order.map { paths[$0] }
        (self.form, self.device, self.client) = (form, device, client)
        zip = form == .zip ? ZipLayout(self.entries) : nil
        size = zip?.size ?? TarLayout.size(self.entries)
    }

    /// Refuses sizes that no files have, which another device may name all the same.
    static func check(_ entries: [ArchiveEntry]) throws(KithError) {
        var rest: UInt64 = 1 << 60
        for entry in entries {
            guard entry.size <= min(DownloadTicket.sizeLimit, rest) else {
                throw KithError(.invalid, "“\(entry.name)” says it has \(entry.size) bytes: that is no file.")
            }
            rest -= entry.size
        }
    }

    /// The name, or with a number where another top has it.
    private static func free(_ name: String, among names: Set<String>) -> String {
        guard names.contains(name) else { return name }
        return (2...(names.count + 2)).lazy.map { "\(name) (\($0))" }.first { !names.contains($0) } ?? name
    }

    private static func entry(_ name: String, _ entry: Files.Entry) -> ArchiveEntry {
        ArchiveEntry(
            name: name, isFolder: entry.kind == .folder, size: entry.kind == .folder ? 0 : entry.size,
            modified: entry.modified, mode: entry.mode)
    }

    /// Sends the archive.
    ///
    /// - Throws: `KithError` `.conflict` when a file became shorter meanwhile: what was announced cannot be kept then.
    func send(_ body: ([UInt8]) async throws -> Void) async throws {
        var checksums: [UInt32] = []
        var index = 0
        while index < entries.count {
            let small = smallFiles(from: index)
            if small.isEmpty {
                checksums.append(try await sendLarge(index, body))
                index += 1
                continue
            }
            for (place, contents) in zip2(small, try await read(small)) {
                var crc = CRC32()
                crc.update(contents)
                try await body(header(place, crc.value) + contents + trailer(place, crc.value))
                checksums.append(crc.value)
            }
            index = small.upperBound
        }
        if let zip {
            try await zip.directory(checksums, body)
        } else {
            try await body(TarLayout.end)
        }
    }

    private func zip2(_ places: Range<Int>, _ contents: [[UInt8]]) -> Zip2Sequence<Range<Int>, [[UInt8]]> {
        Swift.zip(places, contents)
    }

    private func header(_ index: Int, _ crc: UInt32) -> [UInt8] {
        form == .zip ? ZipLayout.header(entries[index], crc: crc) : TarLayout.header(entries[index])
    }

    private func trailer(_ index: Int, _ crc: UInt32) -> [UInt8] {
        form == .zip
            ? ZipLayout.trailer(entries[index], crc: crc)
            : [UInt8](repeating: 0, count: TarLayout.padding(entries[index]))
    }

    /// The small files from a place on, and folders among them.
    private func smallFiles(from index: Int) -> Range<Int> {
        var (end, bytes) = (index, UInt64(0))
        while end < entries.count, end - index < Self.batch.files, entries[end].size <= ZipLayout.smallSize,
            bytes + entries[end].size <= Self.batch.bytes
        {
            bytes += entries[end].size
            end += 1
        }
        return index..<end
    }

    /// Reads small files, all at once.
    private func read(_ places: Range<Int>) async throws -> [[UInt8]] {
        try await withThrowingTaskGroup(of: (Int, [UInt8]).self) { group in
            for place in places where !entries[place].isFolder && entries[place].size > 0 {
                group.addTask {
                    var contents: [UInt8] = []
                    try await self.contents(place) { contents += $0 }
                    return (place, contents)
                }
            }
            var all = [[UInt8]](repeating: [], count: places.count)
            for try await (place, contents) in group { all[place - places.lowerBound] = contents }
            return all
        }
    }

    private func sendLarge(_ index: Int, _ body: ([UInt8]) async throws -> Void) async throws -> UInt32 {
        var crc = CRC32()
        try await body(header(index, 0))
        try await contents(index) { bytes in
            crc.update(bytes)
            try await body(bytes)
        }
        try await body(trailer(index, crc.value))
        return crc.value
    }

    /// The contents of a file, as long as it was when the archive was laid out.
    private func contents(_ index: Int, _ body: ([UInt8]) async throws -> Void) async throws {
        let size = entries[index].size
        let stream = try await client.open(
            Files.Read.self, .init(path: paths[index], length: size), on: device
        ).stream
        var rest = size
        while rest > 0, let bytes = try await stream.read(upTo: 256 << 10) {
            rest -= min(rest, UInt64(bytes.count))
            try await body(bytes)
        }
        guard rest == 0 else {
            throw KithError(.conflict, "“\(entries[index].name)” became shorter while it was read.")
        }
    }
}
