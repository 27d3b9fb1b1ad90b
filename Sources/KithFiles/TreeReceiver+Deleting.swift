import KithAPI
import KithWire

/// Deletes what has the name of something else, and what the source does not have.
extension TreeReceiver {
    private static let maximumToDelete = 1 << 20

    /// Deletes the folder that has the name of something that is not a folder, but for what the patterns leave out.
    ///
    /// Returns whether the name is free; when it is not, what was to have it is left out, and that has been said.
    func makeWay(for name: [UInt8], in folder: ReceivedFolder, _ descriptor: Descriptor) throws -> Bool {
        guard !folder.isHidden else {
            _ = try Removal.removeTree(name, from: descriptor)
            return true
        }
        if try delete(name, in: folder, descriptor) { return true }
        let path = shown(name, in: folder)
        leaveOut(
            Files.Skipped(
                path: path,
                failure: Files.Failure(
                    code: .conflict,
                    message: "Cannot replace the folder \(path): it holds what the patterns leave out.")))
        return false
    }

    /// Removes what an earlier transfer has left and the source does not have any more.
    func removeOthers(than listed: ListedNames, from descriptor: Descriptor) throws {
        var gone: [[UInt8]] = []
        try listed.forEachOther(in: descriptor) { name throws(Errno) in gone.append(name) }
        for name in gone { _ = try Removal.removeTree(name, from: descriptor) }
    }

    /// Notes what of a folder the source does not have.
    func markExtraneous(beyond listed: ListedNames, in folder: ReceivedFolder, _ descriptor: Descriptor) throws(Errno) {
        try listed.forEachOther(in: descriptor) { name throws(Errno) in
            guard !Partial.isPartial(name: name) else { return }
            guard toDelete.count < Self.maximumToDelete else { throw .tooMany }
            toDelete.append((folder, name))
        }
    }

    /// Deletes what the source does not have, unless not all of that is known.
    func deleteExtraneous(_ isComplete: Bool) throws {
        guard options.delete, !toDelete.isEmpty else { return }
        guard isComplete else {
            return try skip(
                Files.Skipped(
                    path: destination,
                    failure: Files.Failure(
                        code: .conflict,
                        message: "Nothing was deleted, because not all of the source could be read."),
                    isHarmless: true))
        }
        var changed: [ReceivedFolder] = []
        defer { for folder in changed { restoreTime(of: folder) } }
        for (folder, name) in toDelete {
            try Task.checkCancellation()
            let descriptor = try folder.reopened()
            // Those of one folder follow each other.
            if changed.last !== folder { changed.append(folder) }
            guard (try? descriptor.info(name)) != nil else { continue }  // gone already
            _ = try delete(name, in: folder, descriptor)
        }
    }

    /// Deletes a name but for what the patterns leave out, and tells of it; a dry run only tells.
    ///
    /// Returns whether all of it goes.
    private func delete(_ name: [UInt8], in folder: ReceivedFolder, _ descriptor: Descriptor) throws -> Bool {
        let outcome: Removal.Outcome
        do {
            outcome = try Removal.removeTree(
                name, from: descriptor, sparing: rules, relative: folder.relative(of: name) ?? name,
                dryRun: options.dryRun)
        } catch let error as Errno {
            let path = shown(name, in: folder)
            guard error == .protected else { throw error.failure("delete", path) }
            leaveOut(
                Files.Skipped(path: path, failure: Files.Failure(error.failure("delete", path)), isHarmless: true))
            return false
        }
        if outcome.count > 0 {
            summary.deleted += outcome.count
            note(folder, name, .deleted)
        }
        return outcome.isWhole
    }

    /// Gives a folder the source's time again, after something in it was deleted.
    private func restoreTime(of folder: ReceivedFolder) {
        guard let attributes = folder.attributes, options.preserve, !options.dryRun else { return }
        // A folder that is gone by now needs no time.
        try? folder.reopened().setModified(attributes.seconds, attributes.nanoseconds)
    }
}
