import CKithSystem
import Crypto
import KithAPI
import KithCatalog
import KithWire
import Synchronization

/// A file or folder on its way: it has a name of its own until it is whole, and then takes its real one at once.
///
/// There are two kinds. One with a fresh name goes when its transfer ends, however that is. One with a ``Key`` stays when
/// the transfer is interrupted; the next transfer of the same thing to the same name finds it and goes on with it, and
/// after a week without one it is removed.
///
/// While it is alive it holds a lock on itself, so that one left by a process that was killed can be told from it.
final class Partial {
    private static let freshPrefix = Array(".kith-partial-".utf8)
    private static let keptPrefix = Array(".kith-resume-".utf8)
    private static let randomCount = 20
    private static let letters = Array("abcdefghijklmnopqrstuvwxyz234567".utf8)
    /// The time a kept one waits for its transfer to go on, in seconds.
    private static let patience: Int64 = 7 * 86_400

    /// The identity of a kept one's whole: its name at the destination, and the thing at the source it comes from.
    struct Key: Hashable {
        /// The name it will have.
        var name: [UInt8]
        /// Which file on the source's device.
        var identity: UInt64
        /// Its size and time of change there; zero for folders, whose contents are compared one by one.
        var size: UInt64 = 0
        var seconds: Int64 = 0
        var nanoseconds: UInt32 = 0

        /// The name it has until then.
        var partialName: [UInt8] {
            var writer = ByteWriter()
            writer.integer(identity)
            writer.integer(size)
            writer.integer(UInt64(bitPattern: seconds))
            writer.integer(nanoseconds)
            writer.bytes(name)
            return keptPrefix + SHA256.hash(data: writer.bytes).prefix(randomCount).map { letters[Int($0 & 31)] }
        }
    }

    let folder: Descriptor
    let name: [UInt8]
    /// The file, or the folder.
    let descriptor: Descriptor
    /// True when an earlier transfer has left something in it.
    let isResumed: Bool
    private let isFolder: Bool
    private var isDone = false
    /// The decision whether it stays behind; `nil` for one with a fresh name, which never does.
    private let keeping: Keeping?
    private let claim: ActivePartials.Claim?

    /// The decision whether kept ones stay behind: when a transfer was interrupted, not when it has failed for good.
    final class Keeping: Sendable {
        private let value = Atomic(false)
        var isOn: Bool {
            get { value.load(ordering: .relaxed) }
            set { value.store(newValue, ordering: .relaxed) }
        }
    }

    /// Makes one in `folder`.
    static func make(in folder: Descriptor, isFolder: Bool, mode: UInt32) throws(Errno) -> Partial {
        while true {
            let name = freshName()
            let descriptor: Descriptor
            if isFolder {
                try folder.makeFolder(name, mode: mode)
                descriptor = try folder.open(name: name, [.folder, .noFollow])
            } else {
                descriptor = try folder.open(name: name, [.readWrite, .create, .noFollow], mode: mode)
            }
            // Between its making and its locking it looks abandoned, and may have been removed.
            _ = try descriptor.lock(waiting: true)
            if try isNamed(name, descriptor, in: folder) {
                return Partial(folder: folder, name: name, descriptor: descriptor, isFolder: isFolder)
            }
        }
    }

    /// Goes on with the one of this key, or makes it.
    ///
    /// One that another transfer of this process works on is taken over: that transfer ends. One that cannot be had
    /// is left alone, and a fresh one made.
    static func resume(
        _ key: Key, in folder: Descriptor, isFolder: Bool, mode: UInt32, keeping: Keeping, active: ActivePartials,
        takenOver: @escaping @Sendable () -> Void
    ) throws(Errno) -> Partial {
        let name = key.partialName
        for _ in 0..<3 {
            // Neither a link of that name nor what may not be opened is gone on with.
            guard let opened = try? open(name, in: folder, isFolder: isFolder, mode: mode) else { continue }
            let info = try opened.descriptor.info()
            guard isOwn(info, isFolder: isFolder), try locks(opened.descriptor, info, active, for: keeping)
            else { break }
            guard try isNamed(name, opened.descriptor, in: folder) else { continue }
            // Its week begins anew.
            if opened.isResumed { try opened.descriptor.setModified(kith_now(), 0) }
            return Partial(
                folder: folder, name: name, descriptor: opened.descriptor, isFolder: isFolder,
                isResumed: opened.isResumed, keeping: keeping,
                claim: active.claim(info.device, info.inode, by: keeping, takenOver))
        }
        return try make(in: folder, isFolder: isFolder, mode: mode)
    }

    /// Tells whether nobody else can have put it there, and no other name would change with it.
    private static func isOwn(_ info: Descriptor.Info, isFolder: Bool) -> Bool {
        info.kind == (isFolder ? .folder : .file) && (isFolder || info.links == 1) && info.user == kith_effective_user()
    }

    /// Opens what has the name, or makes it; `nil` when another was faster at that.
    private static func open(
        _ name: [UInt8], in folder: Descriptor, isFolder: Bool, mode: UInt32
    ) throws(Errno) -> (descriptor: Descriptor, isResumed: Bool)? {
        do throws(Errno) {
            return (try folder.open(name: name, isFolder ? [.folder, .noFollow] : [.readWrite, .noFollow]), true)
        } catch {
            guard error == .notFound else { throw error }
        }
        do throws(Errno) {
            guard isFolder else {
                return (try folder.open(name: name, [.readWrite, .create, .noFollow], mode: mode), false)
            }
            try folder.makeFolder(name, mode: mode)
            return (try folder.open(name: name, [.folder, .noFollow]), false)
        } catch {
            guard error == .exists else { throw error }
            return nil
        }
    }

    /// Takes the lock, from another transfer of this process if need be.
    private static func locks(
        _ descriptor: Descriptor, _ info: Descriptor.Info, _ active: ActivePartials, for transfer: Keeping
    ) throws(Errno) -> Bool {
        if try descriptor.lock(waiting: false) { return true }
        guard active.takeOver(info.device, info.inode, for: transfer) else { return false }
        // That transfer lets go as soon as its tasks have seen the end of its stream.
        for _ in 0..<500 {
            kith_sleep_milliseconds(10)
            if try descriptor.lock(waiting: false) { return true }
        }
        return false
    }

    /// Tells whether a name still stands for what is open.
    private static func isNamed(
        _ name: [UInt8], _ descriptor: Descriptor, in folder: Descriptor
    ) throws(Errno) -> Bool {
        do throws(Errno) {
            let (named, own) = (try folder.info(name), try descriptor.info())
            return named.inode == own.inode && named.device == own.device
        } catch .notFound {
            return false
        }
    }

    private init(
        folder: Descriptor, name: [UInt8], descriptor: Descriptor, isFolder: Bool, isResumed: Bool = false,
        keeping: Keeping? = nil, claim: ActivePartials.Claim? = nil
    ) {
        self.folder = folder
        self.name = name
        self.descriptor = descriptor
        self.isFolder = isFolder
        self.isResumed = isResumed
        self.keeping = keeping
        self.claim = claim
    }

    deinit {
        guard !isDone, keeping?.isOn != true else { return }
        // What cannot be removed now is removed by a later transfer into this folder.
        try? Self.remove(name, isFolder: isFolder, from: folder)
    }

    /// Gives it its real name.
    func commit(as name: [UInt8], overwrite: Bool) throws(Errno) {
        try folder.rename(self.name, to: name, in: folder, overwrite: overwrite)
        isDone = true
    }

    /// True for one that stays behind when its transfer is interrupted.
    var stays: Bool { !isDone && keeping != nil }

    /// The name it has now; `nil` once it has its real one.
    var currentName: [UInt8]? { isDone ? nil : name }

    /// Removes it, whatever kind it is of.
    func discard() {
        guard !isDone else { return }
        isDone = true
        // What cannot be removed now is removed by a later transfer into this folder.
        try? Self.remove(name, isFolder: isFolder, from: folder)
    }

    /// A name nothing else has.
    static func freshName() -> [UInt8] {
        freshPrefix + (0..<randomCount).map { _ in letters[Int.random(in: 0..<32)] }
    }

    /// Tells whether a name is that of a partial.
    static func isPartial(name: [UInt8]) -> Bool {
        for prefix in [freshPrefix, keptPrefix] where name.count == prefix.count + randomCount {
            if name.starts(with: prefix) { return true }
        }
        return false
    }

    /// Removes from a folder what transfers have left there whose process is gone, and that nobody went on with.
    ///
    /// What cannot be removed stays.
    static func removeStale(in folder: Descriptor) {
        // A folder that cannot be listed keeps what it has.
        try? folder.forEachName { name throws(Errno) in
            if isPartial(name: name) { removeStale(name, in: folder) }
        }
    }

    private static func removeStale(_ name: [UInt8], in folder: Descriptor) {
        guard let info = try? folder.info(name), info.kind == .file || info.kind == .folder else { return }
        if name.starts(with: keptPrefix), kith_now().saturatingSubtracting(info.seconds) < patience { return }
        let isFolder = info.kind == .folder
        guard let descriptor = try? folder.open(name: name, isFolder ? [.folder, .noFollow] : .noFollow),
            (try? descriptor.lock(waiting: false)) == true
        else { return }
        try? remove(name, isFolder: isFolder, from: folder)
    }

    private static func remove(_ name: [UInt8], isFolder: Bool, from folder: Descriptor) throws {
        if isFolder {
            _ = try Removal.removeTree(name, from: folder)
        } else {
            try folder.remove(name)
        }
    }
}

/// The kept partials this process works on, so that a transfer begun again can take them from the one before it.
///
/// That one may not have noticed yet that its connection is gone.
final class ActivePartials: Sendable {
    private struct Identity: Hashable {
        var device: UInt64
        var inode: UInt64
    }

    private struct Holder {
        var serial: UInt64
        var transfer: ObjectIdentifier
        var takenOver: @Sendable () -> Void
    }

    private let claims = Mutex<[Identity: Holder]>([:])
    private let serials = Atomic<UInt64>(0)

    /// A claim on a partial; given up when nobody holds it any more.
    final class Claim {
        private let end: () -> Void
        fileprivate init(end: @escaping () -> Void) { self.end = end }
        deinit { end() }
    }

    /// Notes which transfer has the partial, and who is to be told when it is taken over.
    func claim(
        _ device: UInt64, _ inode: UInt64, by transfer: Partial.Keeping, _ takenOver: @escaping @Sendable () -> Void
    ) -> Claim {
        let identity = Identity(device: device, inode: inode)
        let serial = serials.add(1, ordering: .relaxed).newValue
        let holder = Holder(serial: serial, transfer: ObjectIdentifier(transfer), takenOver: takenOver)
        claims.withLock { $0[identity] = holder }
        return Claim { [self] in
            claims.withLock { claims in
                if claims[identity]?.serial == serial { claims[identity] = nil }
            }
        }
    }

    /// Tells the transfer that works on the partial to end; false when this process has none but `transfer` itself,
    /// whose sender names one thing twice.
    func takeOver(_ device: UInt64, _ inode: UInt64, for transfer: Partial.Keeping) -> Bool {
        let holder = claims.withLock { $0[Identity(device: device, inode: inode)] }
        guard let holder, holder.transfer != ObjectIdentifier(transfer) else { return false }
        holder.takenOver()
        return true
    }
}

/// Deletion of whole folders.
enum Removal {
    /// Deletes a name in a folder with everything beneath; follows no link.
    ///
    /// Returns how many things it deleted.
    static func removeTree(_ name: [UInt8], from folder: Descriptor) throws -> UInt64 {
        var count: UInt64 = 0
        try removeTree(name, from: folder, counting: &count)
        return count
    }

    /// Deletes a name in a folder with everything beneath, and counts what is gone, as far as it comes.
    static func removeTree(
        _ name: [UInt8], from folder: Descriptor, counting count: inout UInt64, depth: Int = 0
    ) throws {
        let info = try folder.info(name)
        guard info.kind == .folder else {
            try folder.remove(name)
            count += 1
            return
        }
        guard depth < TreeSource.maximumDepth else {
            throw KithError(.exhausted, "Folders nest deeper than \(TreeSource.maximumDepth) levels.")
        }
        // Before anything in it is gone.
        try folder.check(mayGo: name)
        let inner = try folder.open(name: name, [.folder, .noFollow])
        // A part at a time: what is removed while a folder is listed may hide what follows.
        while true {
            let names = try inner.firstNames(4_096)
            // Inside a cancelled task a partial folder is still to go.
            for child in names { try removeTree(child, from: inner, counting: &count, depth: depth + 1) }
            if names.isEmpty { break }
        }
        try folder.remove(name, isFolder: true)
        count += 1
    }

    /// The outcome of deleting something.
    struct Outcome {
        /// The number of things that were deleted, or would be.
        var count: UInt64 = 0
        /// True while none of it was spared.
        var isWhole = true
    }

    /// Deletes a name in a folder with everything beneath but what the rules leave out, and the folders that holds.
    ///
    /// A dry run deletes nothing and answers the same.
    static func removeTree(
        _ name: [UInt8], from folder: Descriptor, sparing rules: IgnoreRules, relative: [UInt8], dryRun: Bool = false,
        depth: Int = 0
    ) throws -> Outcome {
        if rules.isEmpty, !dryRun { return Outcome(count: try removeTree(name, from: folder)) }
        let info = try folder.info(name)
        if rules.excludes(relative, isFolder: info.kind == .folder) { return Outcome(isWhole: false) }
        guard info.kind == .folder else {
            if !dryRun { try folder.remove(name) }
            return Outcome(count: 1)
        }
        guard depth < TreeSource.maximumDepth else {
            throw KithError(.exhausted, "Folders nest deeper than \(TreeSource.maximumDepth) levels.")
        }
        try folder.check(mayGo: name)
        let inner = try folder.open(name: name, [.folder, .noFollow])
        var outcome = Outcome()
        for child in try inner.names() {
            let part = try removeTree(
                child, from: inner, sparing: rules, relative: relative + [UInt8(ascii: "/")] + child, dryRun: dryRun,
                depth: depth + 1)
            outcome.count += part.count
            if !part.isWhole { outcome.isWhole = false }
        }
        // One that holds something spared stays, and one that something new came into.
        guard outcome.isWhole, try dryRun || inner.firstNames(1).isEmpty else {
            outcome.isWhole = false
            return outcome
        }
        if !dryRun { try folder.remove(name, isFolder: true) }
        outcome.count += 1
        return outcome
    }
}
