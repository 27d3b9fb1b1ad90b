import CKithSystem
import KithAPI
import KithIO
import KithWire

/// Copies one file or link on this device, to a name that nothing has.
///
/// Contents are shared where the file system can, copied by the kernel where it can do that, and else read and written;
/// holes stay holes. Times, permission bits and the attributes a person may set go along.
struct FileCopying {
    /// The most bytes between two looks at whether to go on.
    static let part = 8 << 20

    let source: Descriptor
    let name: [UInt8]
    let identity: FileIdentity
    let folder: Descriptor
    /// The name it gets here, until it is whole.
    let temporary: [UInt8]
    /// Told of bytes; throws to end the copy.
    let progress: (UInt64) throws -> Void

    /// Copies, and returns which file it is now, with its descriptor, by which it is to be brought to the disk.
    ///
    /// - Throws: ``Errno/truncated`` when the source is not what it was, or does not stay so; what the disk says.
    func run() throws -> (landed: FileIdentity, file: Descriptor?) {
        if identity.kind == .link { return (try copyLink(), nil) }
        guard identity.kind == .file else { throw Errno.notRegular }
        let from = try source.open(name: name, .noFollow)
        let before = try from.info()
        guard FileIdentity(before) == identity else { throw Errno.truncated }
        // Nobody else may read it before it has its own permissions.
        let to = try folder.open(name: temporary, [.readWrite, .create, .noFollow], mode: 0o600)
        if kith_file_clone(from.number, to.number) < 0 {
            try copyContents(from, to, size: before.size)
            try to.truncate(to: before.size)
        }
        guard FileIdentity(try from.info()) == identity else { throw Errno.truncated }
        try copyAttributes(from, to)
        // Those for other users only where it is the same one: a copy belongs to whoever makes it.
        let own = try to.info()
        let isSameOwner = own.user == before.user && own.group == before.group
        try to.setMode(isSameOwner ? before.mode : before.mode & 0o777)
        try to.setModified(before.seconds, before.nanoseconds)
        // The disk begins with it while the next one is copied: to wait for each by itself takes many times as long.
        kith_file_begin_sync(to.number)
        return (FileIdentity(try to.info()), to)
    }

    private func copyLink() throws -> FileIdentity {
        let info = try source.info(name)
        guard FileIdentity(info) == identity else { throw Errno.truncated }
        try folder.makeLink(temporary, to: try source.target(ofLink: name))
        // Its time is a nicety that some file systems do not have.
        try? folder.setModified(info.seconds, info.nanoseconds, of: temporary)
        return FileIdentity(try folder.info(temporary))
    }

    private func copyContents(_ from: Descriptor, _ to: Descriptor, size: UInt64) throws {
        var usesKernel = true
        var offset: UInt64 = 0
        var buffer: UnsafeMutableRawBufferPointer?
        defer { unsafe buffer?.deallocate() }
        while offset < size, let data = try from.nextData(from: offset) {
            if data.lowerBound > offset { try progress(min(data.lowerBound, size) - offset) }
            offset = data.lowerBound
            // What grew meanwhile is found out at the end.
            let end = min(data.upperBound, size)
            while offset < end {
                let wanted = Int(min(UInt64(Self.part), end - offset))
                if usesKernel {
                    let count = kith_file_copy_range(from.number, to.number, offset, wanted)
                    if count > 0 {
                        offset += UInt64(count)
                        try progress(UInt64(count))
                        continue
                    }
                    if count == 0 { throw Errno.truncated }
                    let failure = Errno(Int32(truncatingIfNeeded: -count))
                    guard failure == .notSupported else { throw failure }
                    usesKernel = false
                    unsafe buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 4_096)
                }
                guard let whole = unsafe buffer else { break }
                let part = unsafe UnsafeMutableRawBufferPointer(rebasing: whole[..<min(wanted, whole.count)])
                let count = try unsafe from.read(into: part, at: offset)
                if count == 0 { throw Errno.truncated }
                try unsafe to.write(Array(part[..<count])[...], at: offset)
                offset += UInt64(count)
                try progress(UInt64(count))
            }
        }
    }

    private func copyAttributes(_ from: Descriptor, _ to: Descriptor) throws {
        do throws(Errno) {
            try ExtendedAttributes.write(try ExtendedAttributes.read(from), to: to)
        } catch {
            // A file system without them takes the file as it is.
            guard error == .notSupported || error.isDenial else { throw error }
        }
    }
}
