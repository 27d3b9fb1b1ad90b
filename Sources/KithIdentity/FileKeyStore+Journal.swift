import Crypto
package import KithWire

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

// Changes to several files of a folder, which happen together: all of them or, whatever ends the process, none.
//
//     step   on the disk afterwards
//     1      each new content in a file of its own, NAME.….new
//     2      the whole change in `reseal.pending`, moved there: from here on it is done
//     3      each content in its place, and each file that goes gone
//     4      `reseal.pending` gone
//
// A disk that is full says so in step 1, when nothing is changed yet.

/// One step of a change to a folder, after which the process may end.
package enum FolderStep: Hashable, Sendable {
    /// Makes a file with this content, flushed to the disk.
    case write(String, [UInt8])
    /// Gives a file another name, in place of what has it.
    case move(String, to: String)
    /// Removes a file; nothing happens when there is none.
    case remove(String)
    /// Flushes the names in the folder to the disk.
    case flush

    /// Does it in a folder.
    package func perform(in directory: String) throws(KithError) {
        switch self {
        case .write(let name, let bytes): try SecretFile.create(bytes, at: "\(directory)/\(name)")
        case .move(let name, let place): try SecretFile.move("\(directory)/\(name)", to: "\(directory)/\(place)")
        case .remove(let name): try SecretFile.remove("\(directory)/\(name)")
        case .flush: SecretFile.flush(folder: directory)
        }
    }
}

extension FileKeyStore {
    /// The record of a change that is written before any file is changed.
    struct Change: Codable {
        /// The new contents by file name.
        var files: [String: ByteString] = [:]
        /// Files that go.
        var removed: [String] = []
        /// SHA-256 of the list of keys that this change follows; `nil` when there was none.
        var previous: ByteString?

        func encoded() throws(KithError) -> [UInt8] {
            do {
                return try CBOREncoder().encode(self)
            } catch {
                throw KithError(.internal, "Could not write down what is sealed anew.", cause: error)
            }
        }
    }

    private static let pendingFile = "reseal.pending"
    private static let pendingLimit = 1 << 20

    private var pendingPath: String { "\(directory)/\(Self.pendingFile)" }

    /// The steps of a change: those that undo themselves, with the one at their end by which it is done, and the rest.
    func steps(of change: Change) throws(KithError) -> (preparation: [FolderStep], completion: [FolderStep]) {
        let pending = try change.encoded()
        guard pending.count <= Self.pendingLimit else {
            throw KithError(.exhausted, "\(directory) holds too many secrets to seal them at once.")
        }
        let end = ".\(getpid()).\(UInt32.random(in: 0 ... .max)).new"
        let files = change.files.sorted { $0.key < $1.key }
        return (
            files.map { .write($0.key + end, $0.value.bytes) } + [
                .write(Self.pendingFile + end, pending), .move(Self.pendingFile + end, to: Self.pendingFile), .flush,
            ],
            files.map { .move($0.key + end, to: $0.key) } + change.removed.map { .remove($0) } + [
                .flush, .remove(Self.pendingFile),
            ]
        )
    }

    /// Makes a change, all of it or nothing.
    func commit(_ change: Change) throws(KithError) {
        try removeLeftovers()
        let (preparation, completion) = try steps(of: change)
        do throws(KithError) {
            for step in preparation { try step.perform(in: directory) }
        } catch {
            // One that stays is removed before the next change.
            for case .write(let name, _) in preparation { try? SecretFile.remove("\(directory)/\(name)") }
            throw error
        }
        for step in completion { try step.perform(in: directory) }
    }

    /// Removes the new contents of a change that was killed before it was done.
    private func removeLeftovers() throws(KithError) {
        for name in try SecretFile.names(in: directory) where name.hasSuffix(".new") {
            let isOurs =
                name.contains("\(Self.suffix).")
                || [Self.pendingFile, Self.machineKeyFile].contains { name.hasPrefix("\($0).") }
            if isOurs { try SecretFile.remove("\(directory)/\(name)") }
        }
    }

    /// The change that was begun and is to be finished; `nil` when there is none.
    private func pendingChange() throws(KithError) -> Change? {
        guard SecretFile.exists(pendingPath), let bytes = try SecretFile.read(pendingPath, limit: Self.pendingLimit)
        else { return nil }
        do {
            return try CBORDecoder().decode(Change.self, from: bytes)
        } catch {
            throw KithError(.corrupt, "\(pendingPath) is damaged. Restore the folder from a backup.", cause: error)
        }
    }

    /// Puts what an earlier call has written down in place; as often as it takes.
    func finishPending() throws(KithError) {
        guard let change = try pendingChange() else { return }
        for name in Array(change.files.keys) + change.removed { try checkPending(name) }
        // One from another time would put older files in the place of newer ones.
        let index = try SecretFile.read(path(Self.indexName), limit: Self.indexLimit).map(Self.digest)
        let isNext = index == change.previous
        guard isNext || index == change.files[Self.indexName + Self.suffix].map({ Self.digest($0.bytes) }) else {
            throw KithError(
                .corrupt,
                "\(pendingPath) is of another time than the keys beside it. Restore the newest copy of the whole folder."
            )
        }
        for (name, bytes) in change.files { try SecretFile.write(bytes.bytes, to: "\(directory)/\(name)") }
        for name in change.removed { try SecretFile.remove("\(directory)/\(name)") }
        SecretFile.flush(folder: directory)
        try SecretFile.remove(pendingPath)
    }

    private func checkPending(_ name: String) throws(KithError) {
        if name == Self.machineKeyFile { return }
        guard name.hasSuffix(Self.suffix) else {
            throw KithError(.corrupt, "\(pendingPath) is damaged. Restore the folder from a backup.")
        }
        try check(String(name.dropLast(Self.suffix.count)))
    }

    /// Tells whether a change that was begun brings a file.
    func isPending(_ name: String) -> Bool {
        do {
            return try pendingChange()?.files[name] != nil
        } catch {
            // Opening it says why it cannot be told.
            return true
        }
    }
}
