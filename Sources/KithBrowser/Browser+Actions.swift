import KithAPI
import KithCommandLine
import KithTerminal

extension Browser {
    // MARK: - Going

    /// Opens the line at the cursor: goes into a folder, looks at a file.
    mutating func openCurrent(_ effects: inout [Effect]) {
        guard let item = panes[active].current else { return }
        switch (item.kind, panes[active].location) {
        case (.parent, _): goUp(&effects)
        case (.device, _):
            // At the home folder there, or at the only one that is granted.
            let device = item.name.isEmpty ? nil : item.text
            open(.folder(Folder(device: device, path: "~")), in: active, &effects)
        case (_, .search(let folder, _)):
            // To where it was found.
            let path = folder.path(of: item.name)
            guard let parent = Folder(device: folder.device, path: path).parent else { return }
            open(.folder(parent), in: active, select: Folder(device: nil, path: path).name, &effects)
        case (.folder, .folder(let folder)): open(.folder(folder.child(item.name)), in: active, &effects)
        case (.link, .folder(let folder)):
            let ticket = makeTicket()
            tasks[ticket] = SmallTask(purpose: .follow(pane: active, folder, item), began: now)
            effects.append(.describe(ticket, device: folder.device, folder.path(of: item.name)))
        default: viewCurrent(&effects)
        }
    }

    /// Goes to the parent folder of the one shown; from the top, to the list of devices.
    mutating func goUp(_ effects: inout [Effect]) {
        // Pressed again before the first has been answered, it goes on from there.
        switch panes[active].pending?.location ?? panes[active].location {
        case .devices: break
        case .search(let folder, _): open(.folder(folder), in: active, &effects)
        case .folder(let folder):
            guard let parent = folder.parent else { return open(.devices, in: active, &effects) }
            open(.folder(parent), in: active, select: folder.name, &effects)
        }
    }

    mutating func goHome(_ effects: inout [Effect]) {
        open(.folder(Folder(device: panes[active].location.folder?.device, path: "~")), in: active, &effects)
    }

    mutating func reloadActive(_ effects: inout [Effect]) { open(panes[active].location, in: active, &effects) }

    // MARK: - Looking

    mutating func viewCurrent(_ effects: inout [Effect]) {
        guard let folder = panes[active].location.folder, let item = panes[active].current, item.isReal else { return }
        switch item.kind {
        case .folder: openCurrent(&effects)
        case .file: view(item, in: folder, size: item.size)
        case .link: openCurrent(&effects)
        default: showError("\(item.text) is not a regular file.")
        }
    }

    /// Looks at a file; the bytes are asked for as they are needed.
    mutating func view(_ item: Item, in folder: Folder, size: UInt64) {
        pager = Pager(
            folder: folder,
            item: Item(name: item.name, kind: .file, size: size, mode: item.mode, modified: item.modified))
    }

    mutating func editCurrent(_ effects: inout [Effect]) {
        guard let folder = panes[active].location.folder, let item = panes[active].current, item.isReal else { return }
        guard item.kind == .file || item.kind == .link else { return showError("Only files can be edited.") }
        let ticket = makeTicket()
        tasks[ticket] = SmallTask(
            purpose: .change(
                SmallTask.Change(doing: "editing", done: "\(item.text) was written.", folders: [folder])), began: now)
        effects.append(.edit(ticket, device: folder.device, folder.path(of: item.name)))
    }

    // MARK: - Copying and moving

    mutating func askToCopy() {
        guard let folder = panes[active].location.folder else { return showError("Devices are not copied.") }
        let items = panes[active].chosen
        guard !items.isEmpty else { return showError("There is nothing to copy.") }
        guard let other = panes[1 - active].location.folder else {
            return showError("Choose a folder in the other pane first (Tab, then Enter on a device).")
        }
        let sources = items.map { Files.Location(device: folder.device, path: folder.path(of: $0.name)) }
        let destination = Files.Location(device: other.device, path: other.path)
        let text = other.text.hasSuffix("/") ? other.text : other.text + "/"
        let what = items.count == 1 ? Wording.printable(items[0].text) : Wording.count(items.count, "item", "items")
        dialog = .prompt(
            Dialog.Prompt(
                title: "Copy \(what) to", field: TextField(text),
                purpose: .copy(sources, unchanged: destination, text: text)))
    }

    private mutating func copy(
        _ sources: [Files.Location], to typed: String, unchanged: Files.Location, text: String,
        _ effects: inout [Effect]
    ) {
        guard !typed.isEmpty else { return }
        let isFolder = typed.hasSuffix("/") || sources.count > 1
        var destination = unchanged
        if typed != text {
            destination = Files.Location(typed: typed)
            if destination.device == nil, destination.path.bytes.first != UInt8(ascii: "/") {
                guard let folder = panes[active].location.folder,
                    !destination.path.bytes.starts(with: [UInt8(ascii: "~")])
                else { return showError("A path on this device begins with / here.") }
                destination = Files.Location(device: folder.device, path: folder.path(of: destination.path.bytes))
            }
        }
        for source in sources where source.device == destination.device {
            let parent = Folder(device: source.device, path: source.path).parent
            let target = Folder(device: destination.device, path: destination.path)
            if source.path == destination.path || (isFolder && parent?.path == target.path) {
                return showError("\(Wording.printable(Self.text(source))) is there already: it is the same.")
            }
        }
        let order = CopyOrder(sources: sources, destination: destination, intoFolder: isFolder)
        let ticket = makeTicket()
        tasks[ticket] = SmallTask(purpose: .compare(order), began: now)
        panes[active].unmarkAll()
        effects.append(.compare(ticket, order))
    }

    mutating func askToRename() {
        guard let folder = panes[active].location.folder, let item = panes[active].current, item.isReal else { return }
        let path = folder.path(of: item.name)
        guard let parent = Folder(device: folder.device, path: path).parent else { return }
        let old = Folder(device: nil, path: path).name
        let text = String(decoding: old, as: UTF8.self)
        // The cursor before the suffix, which mostly stays.
        let stem = text.lastIndex(of: ".").map { text.distance(from: text.startIndex, to: $0) } ?? text.count
        dialog = .prompt(
            Dialog.Prompt(
                title: "Rename \(Wording.printable(text)) to",
                field: TextField(text, cursor: stem == 0 || item.kind == .folder ? nil : stem),
                purpose: .rename(device: folder.device, from: path, folder: parent, old: old)))
    }

    /// Moves what is chosen into the folder of the other pane, on one device.
    mutating func moveAcross(_ effects: inout [Effect]) {
        guard let folder = panes[active].location.folder else { return }
        let items = panes[active].chosen
        guard !items.isEmpty, let other = panes[1 - active].location.folder else {
            return showError("There is nothing to move, or no folder in the other pane.")
        }
        guard other.device == folder.device else {
            return showError("From one device to another files are copied (c), then deleted (d).")
        }
        let moves = items.map { item in
            let from = folder.path(of: item.name)
            return Move(from: from, to: other.path(of: Folder(device: nil, path: from).name))
        }
        guard moves.allSatisfy({ $0.from != $0.to }) else { return showError("Both panes show the same folder.") }
        panes[active].unmarkAll()
        move(moves, on: folder.device, &effects)
    }

    mutating func move(
        _ moves: [Move], on device: String?, overwrite: Bool = false, _ effects: inout [Effect]
    ) {
        let ticket = makeTicket()
        let folders = moves.flatMap { move in
            [move.from, move.to].compactMap { Folder(device: device, path: $0).parent }
        }
        var change = SmallTask.Change(
            doing: "moving",
            done: moves.count == 1
                ? "Renamed to \(Self.lastName(moves[0].to))" : "Moved \(Wording.count(moves.count, "item", "items")).",
            folders: folders, select: Folder(device: device, path: moves[0].to).name, total: moves.count)
        if moves.count == 1, !overwrite { change.move = (device, moves[0]) }
        tasks[ticket] = SmallTask(purpose: .change(change), began: now)
        effects.append(.move(ticket, device: device, moves, overwrite: overwrite))
    }

    // MARK: - Making and deleting

    mutating func askForFolder() {
        guard case .folder(let folder) = panes[active].location else { return showError("Go into a folder first.") }
        dialog = .prompt(
            Dialog.Prompt(title: "Make a folder called", field: TextField(), purpose: .makeFolder(folder)))
    }

    mutating func askToDelete() {
        guard let folder = panes[active].location.folder else { return showError("Devices are not deleted here.") }
        let items = panes[active].chosen
        guard !items.isEmpty else { return }
        let folders = items.count { $0.kind == .folder }
        var lines = items.prefix(5).map { item in
            Wording.printable(item.text) + (item.kind == .folder ? "/  with everything in it" : "")
        }
        if items.count > 5 { lines.append("and \(Wording.grouped(items.count - 5)) more") }
        lines.append("on \(folder.device.map { Wording.printable($0) } ?? "this device"). Nothing is kept.")
        let title =
            items.count == 1
            ? "Delete this \(folders == 1 ? "folder" : "file")?"
            : "Delete \(Wording.grouped(items.count)) items\(folders > 0 ? ", \(Wording.count(folders, "folder", "folders")) among them" : "")?"
        dialog = .choice(
            Dialog.Choice(
                title: title, lines: lines,
                answers: [Dialog.Choice.Answer(key: "y", label: "delete")],
                purpose: .delete(device: folder.device, items.map { folder.path(of: $0.name) }), isGrave: true))
    }

    mutating func delete(_ paths: [Files.Path], on device: String?, _ effects: inout [Effect]) {
        let ticket = makeTicket()
        let folders = Set(paths.compactMap { Folder(device: device, path: $0).parent })
        panes[active].unmarkAll()
        tasks[ticket] = SmallTask(
            purpose: .change(
                SmallTask.Change(
                    doing: "deleting",
                    done: paths.count == 1
                        ? "Deleted \(Self.lastName(paths[0]))"
                        : "Deleted \(Wording.count(paths.count, "item", "items")).",
                    folders: Array(folders), total: paths.count)), began: now)
        effects.append(.delete(ticket, device: device, paths))
    }

    // MARK: - Searching, marking, sorting

    mutating func askToSearch() {
        guard let folder = panes[active].location.folder else { return showError("Go into a folder first.") }
        dialog = .prompt(
            Dialog.Prompt(
                title: "Find names here and below with (text, or a pattern with * and ?)", field: TextField(),
                purpose: .search(folder)))
    }

    mutating func askForOrder() {
        let order = panes[active].view.order
        let names: [SortOrder.Key: String] = [.name: "name", .size: "size", .time: "time", .kind: "kind"]
        dialog = .choice(
            Dialog.Choice(
                title: "Sort by",
                lines: ["Now: by \(names[order.key] ?? "")\(order.isReversed ? ", reversed" : "")"],
                answers: [
                    Dialog.Choice.Answer(key: "a", label: "name"), Dialog.Choice.Answer(key: "s", label: "size"),
                    Dialog.Choice.Answer(key: "t", label: "time"), Dialog.Choice.Answer(key: "k", label: "kind"),
                    Dialog.Choice.Answer(key: "r", label: "reverse"),
                ], purpose: .sort))
    }

    mutating func quit(_ effects: inout [Effect]) {
        guard copies.isEmpty else {
            dialog = .choice(
                Dialog.Choice(
                    title: "Leave?",
                    lines: [
                        "\(Wording.count(copies.count, "copy", "copies")) would be cut off, to go on where it was when copied again."
                    ],
                    answers: [Dialog.Choice.Answer(key: "y", label: "leave")], purpose: .quit, isGrave: true))
            return
        }
        hasQuit = true
        effects.append(.quit)
    }

    /// Does what a line of text was asked for.
    mutating func answer(_ prompt: Dialog.Prompt, _ effects: inout [Effect]) {
        let text = prompt.field.text
        switch prompt.purpose {
        case .rename(let device, let from, let folder, let old):
            guard isName(text), Array(text.utf8) != old else { return }
            move([Move(from: from, to: folder.path(of: Array(text.utf8)))], on: device, &effects)
        case .makeFolder(let folder):
            guard isName(text) else { return }
            let ticket = makeTicket()
            tasks[ticket] = SmallTask(
                purpose: .change(
                    SmallTask.Change(
                        doing: "making a folder", done: "Made \(text)", folders: [folder], select: Array(text.utf8))),
                began: now)
            effects.append(.makeFolder(ticket, device: folder.device, folder.path(of: Array(text.utf8))))
        case .search(let folder):
            if !text.isEmpty { open(.search(folder, text), in: active, &effects) }
        case .goTo: go(to: text, &effects)
        case .mark(let isOn):
            guard !text.isEmpty else { return }
            let matching = Listing(panes[active].listing.items, Listing.View(showsHidden: true, filter: text))
            for index in 0..<matching.count where matching[index].isReal {
                panes[active].mark(matching[index], isOn)
            }
            panes[active].arrange({ _ in }, height: height(active))
        case .copy(let sources, let unchanged, let before):
            copy(sources, to: text, unchanged: unchanged, text: before, &effects)
        }
    }

    private mutating func isName(_ text: String) -> Bool {
        if text.isEmpty { return false }
        guard text != ".", text != "..", !text.contains("/"), !text.contains("\0"), text.utf8.count <= 255 else {
            showError("Not a valid name: no /, and at most 255 bytes.")
            return false
        }
        return true
    }

    private mutating func go(to text: String, _ effects: inout [Effect]) {
        guard !text.isEmpty else { return }
        let location = Files.Location(typed: text)
        var folder = Folder(device: location.device, path: location.path)
        if folder.device == nil {
            let bytes = folder.path.bytes
            if bytes.first == UInt8(ascii: "~") {
                folder.device = panes[active].location.folder?.device
            } else if bytes.first != UInt8(ascii: "/") {
                guard let current = panes[active].location.folder else {
                    return showError("Begin a path with / or with a device: laptop:/srv")
                }
                folder = current.child(bytes)
            } else if let current = panes[active].location.folder {
                // A path from the top is one on the device that is shown.
                folder.device = current.device
            }
        }
        open(.folder(folder), in: active, &effects)
    }
}
