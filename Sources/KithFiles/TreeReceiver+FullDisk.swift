import CKithSystem
import KithAPI
import KithWire

/// Decides what stays when the disk is full: as much as is worth going on with, and never the last of its room.
extension TreeReceiver {
    /// Gives room back, and says what of the transfer stays and where.
    ///
    /// So much as ``DiskRoom/wanted`` says is free afterwards, as far as what this transfer has not put in place goes:
    /// first what is arriving is cut short, then files of a folder that nobody sees yet go. What stays is gone on with by
    /// the next transfer of the same thing. Returns `nil` where nothing stays.
    func leaveRoom() -> String? {
        let arriving = (contents.map { [$0] } ?? []) + arrivingOnSubstreams.values
        let folders = arriving.map(\.file.folder) + [lastBegun, level].compactMap(\.self)
        guard !options.dryRun, let disk = folders.lazy.compactMap(\.descriptor).first else { return nil }
        var lacking = DiskRoom(of: disk).lacking
        for contents in arriving { Self.cut(contents, by: &lacking) }
        var left: [Files.Path] = []
        for folder in folders {
            guard let (around, partial) = folder.outermostPartial else { continue }
            // What cannot be removed now goes with the rest, a week from now.
            if lacking > 0 { try? Self.empty(partial.descriptor, of: &lacking) }
            left.append(path(ofPartial: partial, in: around))
        }
        for contents in arriving where contents.file.folder.outermostPartial == nil {
            guard let partial = contents.partial, partial.stays else { continue }
            let size = (try? partial.descriptor.info().size) ?? 0
            // Less than one leaf is nothing to go on with.
            if size >= UInt64(contents.file.leafSize) {
                left.append(path(ofPartial: partial, in: contents.file.folder))
            } else {
                partial.discard()
            }
        }
        guard let first = left.first else { return nil }
        return "What had come waits in \(first) for a week: make room and run the same command again, "
            + "or delete that to free the disk."
    }

    /// Cuts what has arrived of one file short.
    private static func cut(_ contents: ReceivedContents, by lacking: inout UInt64) {
        guard lacking > 0, let info = try? contents.arriving.descriptor.info() else { return }
        let count = min(lacking, info.size)
        // Where that cannot be done, what is there stays as it is.
        guard (try? contents.arriving.descriptor.truncate(to: info.size - count)) != nil else { return }
        let freed = info.allocated - min(info.allocated, (try? contents.arriving.descriptor.info().allocated) ?? 0)
        lacking -= min(lacking, freed)
    }

    /// Removes files of a folder that nobody sees yet, until enough is free.
    private static func empty(_ folder: Descriptor, of lacking: inout UInt64, depth: Int = 0) throws {
        guard depth < TreeSource.maximumDepth else { return }
        for name in try folder.names() where lacking > 0 {
            let info = try folder.info(name)
            if info.kind == .folder {
                let inner = try folder.open(name: name, [.folder, .noFollow])
                try empty(inner, of: &lacking, depth: depth + 1)
            } else if info.links == 1 {
                try folder.remove(name)
                lacking -= min(lacking, info.allocated)
            }
        }
    }
}

extension ReceivedFolder {
    /// The new folder this one lies in, or is, that has no name of its own yet, and the folder around that.
    fileprivate var outermostPartial: (around: ReceivedFolder, partial: Partial)? {
        var found: (ReceivedFolder, Partial)?
        var folder: ReceivedFolder? = self
        while let current = folder {
            if let partial = current.partial, partial.stays, let around = current.parent { found = (around, partial) }
            folder = current.parent
        }
        return found
    }
}

/// The free room of a file system, and the room that a failed transfer leaves free.
struct DiskRoom {
    /// The most that is left free.
    static let most: UInt64 = 64 << 20

    /// Bytes that are to be free: a sixteenth of all, at most ``most``.
    let wanted: UInt64
    /// Bytes that are free for this process's user.
    let free: UInt64

    /// Looks at the file system something lies on; where that cannot be told, nothing is lacking.
    init(of descriptor: Descriptor) {
        var (total, free) = (UInt64(0), UInt64(0))
        guard unsafe kith_file_system_room(descriptor.number, &total, &free) == 0 else {
            (wanted, self.free) = (0, 0)
            return
        }
        wanted = min(total / 16, Self.most)
        self.free = free
    }

    /// Bytes that are to be given back.
    var lacking: UInt64 { wanted - min(wanted, free) }
}
