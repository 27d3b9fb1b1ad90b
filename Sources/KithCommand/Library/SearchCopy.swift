import ArgumentParser
import CKithSystem
import Crypto
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// Copies what a search has found into a folder of this machine.
///
/// What comes from another device may be anything: names are used only when they are ones, sizes are what arrived, and
/// nothing that is there is overwritten.
struct SearchCopy {
    /// The deepest folder in a folder.
    private static let depthLimit = 200
    /// The most files and folders.
    private static let countLimit = 1_000_000

    /// A file that was copied, or was there.
    struct Copied: Encodable {
        var from: Files.Path
        var to: Files.Path
        var size: UInt64
        /// True when it was there already, with the same size and time.
        var isThere: Bool
    }

    let client: Client
    let device: String?
    let library: String?
    let globals: GlobalOptions
    /// The folder, from the top of the file system.
    let target: String
    private var line: StatusLine
    private var copied: [Copied] = []
    private var failure: KithError?
    private var skipped = 0
    private var count = 0
    private let start = ContinuousClock.now
    private var bytes: UInt64 = 0

    init(to folder: String, _ client: Client, on device: String?, library: String?, _ globals: GlobalOptions) {
        (self.client, self.device, self.library, self.globals) = (client, device, library, globals)
        target = absolutePath(folder)
        line = StatusLine(isShown: !globals.json, isPlain: globals.isPlain)
    }

    /// Copies files, and folders with what is in them as the library has it.
    ///
    /// - Throws: the exit status of the first file that could not be copied, after all others.
    mutating func run(_ entries: [Library.Entry]) async throws {
        defer { line.clear() }
        // Names are the other device's: `.profile` among them would be obeyed where a person's own settings are.
        guard target != "/", target != absolutePath("~") else {
            throw KithError(.invalid, "Nothing is copied to \(printable(target)) itself. Name a folder in it.")
        }
        let locations = try await client.call(Locations.List.self, .init(library: library), on: device).locations
        try await makeFolder(Array(target.utf8))
        // What lies in a folder that was found, too, comes with it.
        let folders = entries.filter { $0.kind == .folder }.map { $0.path.bytes + [UInt8(ascii: "/")] }
        for entry in entries where !folders.contains(where: { entry.path.bytes.starts(with: $0) }) {
            do {
                try await copy(entry, to: Array(target.utf8), locations, depth: 0)
            } catch let error as KithError where Self.isAboutOne(error) {
                failed(error)
            }
        }
        line.clear()
        if globals.json {
            printLine(try jsonText(copied))
        } else {
            let fresh = copied.count { !$0.isThere }
            let there = copied.count - fresh
            note(
                "\(Wording.count(fresh, "file", "files")) copied to \(printable(target)), \(Wording.size(bytes))"
                    + (there > 0 ? "; \(grouped(there)) were there" : "")
                    + (skipped > 0 ? "; \(grouped(skipped)) links and others were left out" : "") + ".")
        }
        if let failure { throw ExitCode(failure.code.exitStatus) }
    }

    /// Tells whether the others can be copied all the same.
    private static func isAboutOne(_ error: KithError) -> Bool {
        // Without the grant there is nothing to be had.
        if error.code == .denied, error.message.contains("library:read") { return false }
        return ![.cancelled, .unreachable, .closed, .exhausted, .timedOut, .unpaired].contains(error.code)
    }

    private mutating func failed(_ error: KithError) {
        line.clear()
        report(error, json: globals.json)
        failure = failure ?? error
    }

    private mutating func copy(
        _ entry: Library.Entry, to folder: [UInt8], _ locations: [Library.Location], depth: Int
    ) async throws {
        count += 1
        guard depth <= Self.depthLimit, count <= Self.countLimit else {
            throw KithError(
                .exhausted, "More than \(Self.countLimit) files, or \(Self.depthLimit) folders in each other.")
        }
        let name = lastName(of: entry.path)
        guard !name.isEmpty, !name.contains(0), name != Array(".".utf8), name != Array("..".utf8), name.count <= 255
        else { throw KithError(.invalid, "\(entry.path) has no name that a file can have here.") }
        switch entry.kind {
        case .file: try await copyFile(entry, name, to: folder)
        case .folder:
            let place = folder + [UInt8(ascii: "/")] + name
            try await makeFolder(place)
            guard let location = locations.first(where: { $0.id == entry.location }),
                entry.path.bytes.starts(with: location.path.bytes)
            else { throw KithError(.notFound, "\(entry.path) lies in no location any more.") }
            let rest = entry.path.bytes.dropFirst(location.path.bytes.count).drop { $0 == UInt8(ascii: "/") }
            var after: Files.Path?
            while true {
                let page = try await client.call(
                    Locations.Browse.self,
                    .init(id: location.id, path: Files.Path(bytes: Array(rest)), after: after, library: library),
                    on: device)
                for inner in page.entries {
                    do {
                        try await copy(inner, to: place, locations, depth: depth + 1)
                    } catch let error as KithError where Self.isAboutOne(error) {
                        failed(error)
                    }
                }
                guard page.hasMore, let last = page.entries.last else { return }
                after = Files.Path(bytes: lastName(of: last.path))
            }
        default: skipped += 1
        }
    }

    private func makeFolder(_ path: [UInt8]) async throws {
        _ = try await client.call(Files.MakeFolder.self, .init(path: Files.Path(bytes: path), parents: true))
    }

    // MARK: - One file

    private mutating func copyFile(_ entry: Library.Entry, _ name: [UInt8], to folder: [UInt8]) async throws {
        // What takes a moment needs no line.
        if start.duration(to: .now) > .milliseconds(500) {
            line.show(
                "Copying \(printable(String(decoding: name, as: UTF8.self))): \(grouped(copied.count)) done, \(Wording.size(bytes))"
            )
        }
        for number in 1...1_000 {
            let place = folder + [UInt8(ascii: "/")] + Self.numbered(name, number)
            let path = Files.Path(bytes: place)
            let there: Files.Entry?
            do { there = try await client.call(Files.Stat.self, .init(path: path)) } catch let error as KithError
                where error.code == .notFound
            {
                there = nil
            }
            if let there {
                // The same as before: a second run begins where the first one ended.
                if there.kind == .file, there.size == entry.size, there.modified == entry.modified {
                    copied.append(Copied(from: entry.path, to: path, size: entry.size, isThere: true))
                    return
                }
                continue
            }
            do {
                try await transfer(entry, to: path)
            } catch let error as KithError where error.code == .conflict && error.message.contains("is there already") {
                continue
            }
            setTime(entry.modified, of: place)
            copied.append(Copied(from: entry.path, to: path, size: entry.size, isThere: false))
            bytes += entry.size
            return
        }
        throw KithError(.conflict, "A thousand files of that name are in \(printable(target)) already.")
    }

    /// The name, with a number before its extension from the second on.
    private static func numbered(_ name: [UInt8], _ number: Int) -> [UInt8] {
        guard number > 1 else { return name }
        let dot = name.lastIndex(of: UInt8(ascii: ".")).flatMap { $0 > 0 ? $0 : nil } ?? name.endIndex
        return Array(name[..<dot]) + Array(" (\(number))".utf8) + Array(name[dot...])
    }

    private func transfer(_ entry: Library.Entry, to path: Files.Path) async throws {
        let source = try await client.open(
            Locations.Read.self, .init(entry: entry.id, library: library), on: device
        ).stream
        let output = try await client.open(Files.Write.self, .init(path: path, overwrite: false)).stream
        do {
            var (hash, count) = (SHA256(), UInt64(0))
            while let part = try await source.read(upTo: 256 << 10) {
                count += UInt64(part.count)
                guard count <= entry.size else {
                    throw KithError(.corrupt, "More of \(entry.path) came than it has bytes. Nothing was kept of it.")
                }
                hash.update(data: part)
                try await output.write(part)
            }
            guard count == entry.size else {
                throw KithError(.closed, "Only a part of \(entry.path) came. Nothing was kept of it.")
            }
            try await output.finish()
            guard let written = try await output.receive() else {
                throw KithError(.closed, "\(path) may not have been written.")
            }
            if let failure = written.failure { throw failure.error }
            guard written.size == count, written.sha256.bytes == Array(hash.finalize()) else {
                throw KithError(.corrupt, "What was written of \(path) is not what came (SHA-256).")
            }
        } catch {
            source.abort(.cancelled)
            output.abort(.cancelled)
            throw error
        }
    }

    private func setTime(_ seconds: Int64, of path: [UInt8]) {
        let file = unsafe open(path.map { CChar(bitPattern: $0) } + [0], O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        guard file >= 0 else { return }
        defer { close(file) }
        // A file system without times has the file all the same.
        _ = unsafe kith_file_times(file, "", seconds, 0)
    }
}
