import ArgumentParser
import Crypto
import Foundation
import KithAPI
import KithCommandLine
import KithWire

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// `kith edit`.
struct EditCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "edit",
        abstract: "Edit a file on a device with the editor of this one.",
        discussion: helpText(
            """
              kith edit laptop:/etc/hosts
              EDITOR='code --wait' kith edit laptop:notes.txt

            Runs $VISUAL, else $EDITOR, else vi, on a private copy. What was changed replaces the file at once and
            whole, with its mode, unless somebody else has changed it meanwhile: then nothing is written, and where
            your copy is kept is said. A file that is not there is made.
            """))

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "The file: DEVICE:PATH.") var path: RemotePath

    func run() async throws {
        let (device, file) = try path.remote()
        guard Editor.isPossible else {
            throw KithError(
                .invalid, "This needs a terminal for vi, or another editor in $EDITOR. Without: `kith cat`, `kith cp`.")
        }
        let isChanged = try await withClient(globals) { client in
            try await RemoteEdit(device: device, path: file, client: client).run()
        }
        if !isChanged { note("\(printable(path.description)) is as it was; nothing was written.") }
    }
}

/// Edits a file on a device with the editor of this one.
struct RemoteEdit {
    let device: String
    let path: Files.Path
    let client: Client

    /// The most that is edited: it is held in memory.
    private static let sizeLimit = 256 << 20

    /// Fetches it, runs the editor on this process's terminal, and writes what was changed; returns whether there was
    /// anything.
    func run() async throws -> Bool {
        let file = try await resolved(path)
        let original = try await contents(of: file)
        let copy = try PrivateCopy(named: file, holding: original ?? [])
        var isKept = false
        defer { if !isKept { copy.wipe() } }
        let status = try await Editor.run(on: copy.path)
        guard status == 0 else {
            throw KithError(.cancelled, "The editor ended with status \(status). Nothing was written.")
        }
        let edited = try copy.contents(limit: Self.sizeLimit)
        if edited == original || (original == nil && edited.isEmpty) { return false }
        do {
            try await write(edited, to: file, replacing: original)
        } catch let error as KithError {
            isKept = true
            throw KithError(error.code, "\(error.message) Your copy is kept in \(copy.path)", cause: error)
        }
        return true
    }

    /// Follows links to the file itself: the link stays what it is.
    private func resolved(_ path: Files.Path) async throws -> Files.Path {
        var path = path
        for _ in 0..<40 {
            let entry: Files.Entry
            do {
                entry = try await client.describe(path, on: device)
            } catch let error as KithError where error.code == .notFound && error.message.contains("no such file") {
                return path
            }
            switch entry.kind {
            case .file: return path
            case .folder: throw KithError(.conflict, "Cannot edit \(path): it is a folder.")
            case .special: throw KithError(.unsupported, "Cannot edit \(path): it is not a regular file.")
            case .link: break
            }
            guard let target = entry.target else { return path }
            if target.bytes.first == UInt8(ascii: "/") {
                path = target
            } else {
                let folder = path.bytes.lastIndex(of: UInt8(ascii: "/")).map { Array(path.bytes[...$0]) } ?? []
                guard !target.bytes.split(separator: UInt8(ascii: "/")).contains(Array("..".utf8)[...]) else {
                    throw KithError(
                        .unsupported, "\(path) is a link to \(target). Edit that by its own path.")
                }
                path = Files.Path(bytes: folder + target.bytes)
            }
        }
        throw KithError(.invalid, "Cannot edit \(path): links lead in a circle.")
    }

    /// The file as it is; `nil` when there is none.
    private func contents(of file: Files.Path) async throws -> [UInt8]? {
        var reading: RemoteReading
        do {
            reading = try await RemoteReading(Files.Read.Input(path: file), on: device, client)
        } catch let error as KithError where error.code == .notFound && error.message.contains("no such file") {
            return nil
        }
        var bytes: [UInt8] = []
        while let part = try await reading.next() {
            bytes += part
            guard bytes.count <= Self.sizeLimit else {
                reading.stop()
                throw KithError(.exhausted, "\(path) is larger than 256 MiB: fetch it with kith cp and edit the copy.")
            }
        }
        await reading.finish()
        return bytes
    }

    private func write(
        _ bytes: [UInt8], to file: Files.Path, replacing original: [UInt8]?
    ) async throws {
        let input = Files.Write.Input(
            path: file, overwrite: original != nil, replacing: original.map { ByteString(Array(SHA256.hash(data: $0))) }
        )
        let stream = try await client.open(Files.Write.self, input, on: device).stream
        for start in stride(from: 0, to: bytes.count, by: 256 << 10) {
            try await stream.write(Array(bytes[start..<min(start + 256 << 10, bytes.count)]))
        }
        try await stream.finish()
        guard let written = try await stream.receive() else {
            throw KithError(.closed, "The connection was lost before \(path) was written for certain.")
        }
        if let failure = written.failure { throw failure.error }
        guard written.sha256.bytes == Array(SHA256.hash(data: bytes)) else {
            throw KithError(.corrupt, "What arrived of \(path) is not what was sent (SHA-256).")
        }
    }
}

/// A file only this person can read, in a folder of its own.
struct PrivateCopy {
    /// Where it is.
    let path: String
    private let folder: String

    /// Makes it, with the name of the original so that the editor knows its kind.
    init(named original: Files.Path, holding bytes: [UInt8]) throws {
        let environment = ProcessInfo.processInfo.environment
        let base =
            environment["XDG_RUNTIME_DIR"].flatMap { unsafe access($0, W_OK) == 0 ? $0 : nil }
            ?? environment["TMPDIR"].flatMap { $0.hasPrefix("/") ? $0 : nil } ?? "/tmp"
        var template = Array((base + "/kith-edit-XXXXXX").utf8CString)
        // mkdtemp makes it 0700.
        let made = unsafe template.withUnsafeMutableBufferPointer { buffer -> String? in
            guard let start = buffer.baseAddress, let made = unsafe mkdtemp(start) else { return nil }
            return unsafe String(cString: made)
        }
        guard let made else { throw KithError(.denied, "Cannot make a private folder in \(base).") }
        folder = made
        let last = original.bytes.split(separator: UInt8(ascii: "/")).last.map { String(decoding: $0, as: UTF8.self) }
        let name = String((last ?? "file").map { $0.isLetter || $0.isNumber || "-_.".contains($0) ? $0 : "_" })
        // Never an option of the editor, never hidden, never longer than a name may be.
        path = folder + "/" + (name.hasPrefix("-") || name.hasPrefix(".") ? "_" : "") + String(name.suffix(60))
        let file = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard file >= 0 else { throw KithError(.denied, "Cannot make the private copy \(path).") }
        do {
            let handle = FileHandle(fileDescriptor: file, closeOnDealloc: true)
            try handle.write(contentsOf: Data(bytes))
            try handle.close()
        } catch {
            wipe()
            throw KithError(.exhausted, "Cannot write the private copy \(path): \(error.localizedDescription)")
        }
    }

    /// What it holds now; editors replace the file, so it is opened by its name.
    func contents(limit: Int) throws -> [UInt8] {
        let file = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard file >= 0 else {
            throw KithError(.notFound, "The editor left no file behind. Nothing was written.")
        }
        let handle = FileHandle(fileDescriptor: file, closeOnDealloc: true)
        guard let data = try handle.read(upToCount: limit + 1) else { return [] }
        guard data.count <= limit else {
            throw KithError(.exhausted, "What was edited is larger than 256 MiB. Nothing was written.")
        }
        return [UInt8](data)
    }

    /// Overwrites and removes it, and what the editor left beside it.
    func wipe() {
        // What cannot be removed is in a folder nobody else can enter.
        for name in (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [] {
            let file = unsafe open(folder + "/" + name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
            guard file >= 0 else { continue }
            let handle = FileHandle(fileDescriptor: file, closeOnDealloc: true)
            let size = (try? handle.seekToEnd()) ?? 0
            try? handle.seek(toOffset: 0)
            var left = size
            while left > 0 {
                let count = min(left, 1 << 20)
                guard (try? handle.write(contentsOf: Data(count: Int(count)))) != nil else { break }
                left -= count
            }
        }
        try? FileManager.default.removeItem(atPath: folder)
    }
}

/// The editor of the person at the keyboard.
enum Editor {
    /// The line of a shell that was chosen.
    private static var chosen: String? {
        let environment = ProcessInfo.processInfo.environment
        return ["VISUAL", "EDITOR"].lazy.compactMap { environment[$0] }.first { !$0.isEmpty }
    }

    /// Whether there is one that can work: what was chosen may need no terminal.
    static var isPossible: Bool { chosen != nil || isatty(STDIN_FILENO) == 1 }

    /// Runs it on a file, on this terminal, and waits; returns its exit status.
    static func run(on path: String) async throws -> Int32 {
        let environment = ProcessInfo.processInfo.environment
        let command = chosen ?? "vi"
        // The variable is a line for a shell: it may hold options.
        return try await ChildProcess.run(
            ["/bin/sh", "-c", "\(command) \"$1\"", "sh", path], environment: environment)
    }
}
