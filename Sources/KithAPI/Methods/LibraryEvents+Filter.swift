import KithWire

extension LibraryEvents.Follow.Input {
    /// The part of an event that is wanted; `nil` when none is.
    ///
    /// An event that lists only some of its files is wanted when those it does not list may be.
    package func wanted(of event: LibraryEvent) -> LibraryEvent? {
        guard isOfJob(event), event.kinds.contains(where: { types.isEmpty || types.contains($0) }),
            resources.isEmpty || event.resource.map(resources.contains) ?? true
        else { return nil }
        switch event {
        case .files(var files):
            guard path.map({ files.folder.isAround($0) || $0.isAround(files.folder) }) ?? true else { return nil }
            files.changes.removeAll { change in
                if !types.isEmpty, !types.contains(change.kind.type) { return true }
                return path.map { !$0.isAround(change.path) && !(change.from.map($0.isAround) ?? false) } ?? false
            }
            return files.changes.isEmpty && files.more == 0 ? nil : .files(files)
        case .locationAdded(let place), .locationRemoved(let place), .locationChanged(let place),
            .scanBegan(let place):
            return concerns(place.path) ? event : nil
        case .scanProgressed(let scan), .scanEnded(let scan): return concerns(scan.place.path) ? event : nil
        case .tags(let tags):
            // A tag that is deleted concerns files that nobody lists.
            let isWanted = path == nil || !tags.deleted.isEmpty || tags.more > 0 || tags.paths.contains(where: concerns)
            return isWanted ? event : nil
        case .annotations(let notes):
            return path == nil || notes.more > 0 || notes.paths.contains(where: concerns) ? event : nil
        // All that is at the path may be in it.
        case .library: return event
        case .jobChanged, .jobProgressed, .jobRemoved: return path == nil ? event : nil
        case .volumeAdded(let volume), .volumeRemoved(let volume): return concerns(volume.path) ? event : nil
        case .unknown: return event
        }
    }

    /// Whether an event is one of the job that alone is wanted, if one is.
    private func isOfJob(_ event: LibraryEvent) -> Bool {
        guard let job else { return true }
        return switch event {
        case .jobChanged(let other), .jobProgressed(let other): other.id.hasPrefix(job)
        case .jobRemoved(let other): other.id.hasPrefix(job)
        default: false
        }
    }

    private func concerns(_ other: Files.Path) -> Bool { path.map { $0.isAround(other) || other.isAround($0) } ?? true }
}

extension Files.Path {
    /// Tells whether the other path is this one, or beneath it.
    fileprivate func isAround(_ other: Files.Path) -> Bool {
        let own = bytes.last == UInt8(ascii: "/") ? bytes.dropLast() : bytes[...]
        guard other.bytes.starts(with: own) else { return false }
        return other.bytes.count == own.count || other.bytes[own.count] == UInt8(ascii: "/")
    }
}
