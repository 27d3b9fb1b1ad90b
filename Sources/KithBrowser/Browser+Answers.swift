import KithAPI
import KithCommandLine
import KithWire

extension Browser {
    /// Takes in an answer; one that nobody waits for any more changes nothing.
    mutating func handle(answer event: Event, _ effects: inout [Effect]) {
        switch event {
        case .resolved(let ticket, let path):
            guard let pane = pane(waitingFor: ticket), let folder = panes[pane].pending?.location.folder else { return }
            let absolute = Folder(device: folder.device, path: path)
            switch panes[pane].pending?.location {
            case .search(_, let pattern): panes[pane].pending?.location = .search(absolute, pattern)
            default: panes[pane].pending?.location = .folder(absolute)
            }
        case .entries(let ticket, let entries): received(entries, ticket)
        case .devices(let ticket, let devices): received(devices, ticket)
        case .described(let ticket, let entry): follow(ticket, entry, &effects)
        case .preview(let ticket, let content):
            if preview.ticket == ticket { preview.content = content }
            if pager?.loading == ticket, case .picture(let picture, _) = content { pager?.picture = picture }
        case .bytes(let ticket, let bytes, let isLast):
            if pager?.loading == ticket { pager?.append(bytes, isLast: isLast) }
        case .present(let ticket, let paths): compared(ticket, paths, &effects)
        case .progress(let ticket, let progress):
            guard copies.first?.ticket == ticket else { return }
            copies[0].progress = progress
            copies[0].skipped += UInt64(progress.skipped.count)
            rate.note(progress.bytes, at: now)
        case .advanced(let ticket, let count):
            guard case .change(var change)? = tasks[ticket]?.purpose else { return }
            change.count = count
            tasks[ticket]?.purpose = .change(change)
        case .edited(let ticket, let isChanged):
            guard case .change(var change)? = tasks[ticket]?.purpose else { return }
            change.isUnchanged = !isChanged
            tasks[ticket]?.purpose = .change(change)
        case .ended(let ticket, let error): ended(ticket, error, &effects)
        case .input, .resized, .timePassed: break
        }
    }

    private func pane(waitingFor ticket: Ticket) -> Int? { panes.firstIndex { $0.pending?.ticket == ticket } }

    private mutating func received(_ entries: [Files.Entry], _ ticket: Ticket) {
        guard let pane = pane(waitingFor: ticket), var pending = panes[pane].pending else { return }
        pending.items += entries.filter { Self.isSound($0.name, isPath: pending.location.isSearch) }.map { Item($0) }
        // A folder that is shown already stays as it was until all is here; another is shown at once, and put in order
        // again only when there is four times as much.
        let isReload = pending.location == panes[pane].location && !pending.isShown && panes[pane].listing.count > 0
        if !isReload, pending.items.count >= 4 * pending.arranged {
            arrange(pending, in: pane)
            pending.isShown = true
            pending.arranged = pending.items.count
            if panes[pane].current?.name == pending.select { pending.select = nil }
        }
        panes[pane].pending = pending
    }

    /// Tells whether a device sent a name that a folder can hold, or a path of such names: nothing that leads
    /// elsewhere.
    static func isSound(_ name: Files.Path, isPath: Bool) -> Bool {
        let bytes = name.bytes
        guard !bytes.isEmpty, bytes.count <= (isPath ? 4_096 : 255), !bytes.contains(0) else { return false }
        if !bytes.contains(UInt8(ascii: "/")) {
            return !bytes.elementsEqual(".".utf8) && !bytes.elementsEqual("..".utf8)
        }
        let names = bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        return isPath
            && names.allSatisfy { !$0.isEmpty && !$0.elementsEqual(".".utf8) && !$0.elementsEqual("..".utf8) }
    }

    private mutating func received(_ devices: [Devices.Info], _ ticket: Ticket) {
        guard let pane = pane(waitingFor: ticket) else { return }
        var items = [Item(name: [], kind: .device, note: "")]
        for device in devices {
            let note =
                device.isOnline
                ? device.roundTripMilliseconds.map { "online, \(Self.tenths($0)) ms" } ?? "online" : "not connected"
            items.append(Item(name: Array(device.name.utf8), kind: .device, note: note))
        }
        // What is known comes first, and again when those that are not connected have been asked.
        guard var pending = panes[pane].pending else { return }
        pending.items = items
        arrange(pending, in: pane)
        pending.isShown = true
        panes[pane].pending = pending
    }

    /// A number with one digit behind its point.
    private static func tenths(_ number: Double) -> String {
        let tenths = Int((min(number, 1e9) * 10).rounded())
        return "\(tenths / 10).\(tenths % 10)"
    }

    private mutating func ended(_ ticket: Ticket, _ error: KithError?, _ effects: inout [Effect]) {
        if let pane = pane(waitingFor: ticket) { return listed(pane, error, &effects) }
        if copies.first?.ticket == ticket { return copied(error, &effects) }
        if preview.ticket == ticket {
            preview.ticket = nil
            if let error, preview.content == nil { preview.content = .failure(error.message) }
            return
        }
        if pager?.loading == ticket {
            pager?.loading = nil
            if let error { pager?.failure = error.message }
            return
        }
        guard let task = tasks.removeValue(forKey: ticket) else { return }
        switch task.purpose {
        case .follow, .compare: if let error { show(error.message, isError: error.code != .cancelled) }
        case .change(let change): changed(change, error, &effects)
        }
    }

    private mutating func listed(_ pane: Int, _ error: KithError?, _ effects: inout [Effect]) {
        guard let pending = panes[pane].pending else { return }
        panes[pane].pending = nil
        guard let error else { return arrange(pending, in: pane) }
        if pending.isShown {
            arrange(pending, in: pane)
            showError("Only a part was listed. \(error.message)")
        } else if panes[pane].listing.count == 0, panes[pane].location.folder != nil {
            // Nothing has ever been shown here: the way up is, and why there is no more.
            panes[pane].replace([], at: pending.location, select: nil, height: height(pane))
            panes[pane].failure = error.message
        } else {
            showError(error.message)
        }
    }

    private mutating func follow(_ ticket: Ticket, _ entry: Files.Entry, _ effects: inout [Effect]) {
        guard case .follow(let pane, let folder, let item)? = tasks.removeValue(forKey: ticket)?.purpose else { return }
        switch entry.kind {
        case .folder: open(.folder(folder.child(item.name)), in: pane, &effects)
        case .file: view(item, in: folder, size: entry.size)
        default: showError("\(item.text) leads to nothing that can be shown.")
        }
    }

    // MARK: - Copies

    private mutating func compared(_ ticket: Ticket, _ present: [Files.Path], _ effects: inout [Effect]) {
        guard case .compare(let order)? = tasks.removeValue(forKey: ticket)?.purpose else { return }
        guard !present.isEmpty else { return start(order, &effects) }
        let names = present.prefix(4).map { Wording.printable(Self.lastName($0)) }
        let more = present.count > 4 ? " and \(present.count - 4) more" : ""
        dialog = .choice(
            Dialog.Choice(
                title: "Already there",
                lines: [
                    "At \(Wording.printable(Self.text(order.destination))) there "
                        + (present.count == 1 ? "is already" : "are already") + ":",
                    names.joined(separator: ", ") + more,
                    "Files that are the same are not sent again. Others:",
                ],
                answers: [
                    Dialog.Choice.Answer(key: "r", label: "replace them"),
                    Dialog.Choice.Answer(key: "s", label: "leave them, copy the rest"),
                ],
                purpose: .copy(order), isGrave: true))
    }

    static func lastName(_ path: Files.Path) -> String {
        String(decoding: path.bytes.split(separator: UInt8(ascii: "/")).last ?? [], as: UTF8.self)
    }

    static func text(_ location: Files.Location) -> String {
        Folder(device: location.device, path: location.path).text
    }

    /// Puts a copy at the end of the line; starts it when nothing is before it.
    mutating func start(_ order: CopyOrder, _ effects: inout [Effect]) {
        let what =
            order.sources.count == 1
            ? Self.lastName(order.sources[0].path) : "\(Wording.grouped(order.sources.count)) items"
        let title = "\(what) → \(Self.text(order.destination))"
        copies.append(CopyTask(ticket: makeTicket(), order: order, title: title))
        for pane in 0..<2 { panes[pane].show(height: height(pane)) }
        if copies.count == 1 { startNextCopy(&effects) }
    }

    private mutating func startNextCopy(_ effects: inout [Effect]) {
        guard !copies.isEmpty else { return }
        rate = TransferRate()
        copies[0].began = now
        effects.append(.copy(copies[0].ticket, copies[0].order))
    }

    /// Ends the copy that runs; what has arrived of it stays for the next attempt.
    mutating func cancelCopy(_ effects: inout [Effect]) {
        guard !copies.isEmpty, !copies[0].isCancelled else { return show("Nothing is being copied.") }
        copies[0].isCancelled = true
        effects.append(.cancel(copies[0].ticket))
    }

    private mutating func copied(_ error: KithError?, _ effects: inout [Effect]) {
        let copy = copies.removeFirst()
        let took = copy.began.map { now - $0 } ?? .zero
        if copy.isCancelled {
            show("The copy was cancelled. Copied again, it goes on where it was.")
        } else if let error = error ?? copy.progress.failure?.error {
            showError(error.message)
        } else if let summary = copy.progress.summary {
            var parts = [Wording.count(Int(clamping: summary.files), "file", "files")]
            if summary.unchanged > 0 { parts.append("\(summary.unchanged) unchanged") }
            if summary.skipped > 0 { parts.append("\(summary.skipped) left out") }
            show(
                "Copied \(parts.joined(separator: ", ")): \(Wording.size(summary.bytes)) in "
                    + Wording.duration(max(took / .seconds(1), 0.001)), isError: summary.skipped > 0)
        }
        let destination = Folder(device: copy.order.destination.device, path: copy.order.destination.path)
        reload([destination] + (destination.parent.map { [$0] } ?? []), &effects)
        startNextCopy(&effects)
    }

    // MARK: - Changes

    private mutating func changed(_ change: SmallTask.Change, _ error: KithError?, _ effects: inout [Effect]) {
        if let error {
            if error.code == .conflict, error.message.contains("there already"), let (device, move) = change.move {
                dialog = .choice(
                    Dialog.Choice(
                        title: "Already there",
                        lines: [Wording.printable(error.message), "Replace what is there?"],
                        answers: [Dialog.Choice.Answer(key: "y", label: "replace it")],
                        purpose: .replace(device: device, move), isGrave: true))
            } else {
                show(error.message, isError: error.code != .cancelled)
            }
        } else {
            show(change.isUnchanged ? "Nothing was changed." : change.done)
        }
        if !change.isUnchanged { reload(change.folders, select: error == nil ? change.select : nil, &effects) }
    }
}
