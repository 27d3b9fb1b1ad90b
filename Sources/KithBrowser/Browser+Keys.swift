import KithAPI
import KithCommandLine
import KithTerminal

extension Browser {
    /// Something that can be clicked, and what that does.
    struct Target: Hashable {
        enum Action: Hashable {
            /// A line of a pane.
            case line(pane: Int, Int)
            /// The rest of a pane.
            case pane(Int)
            case go(pane: Int, Location)
            case sort(pane: Int, SortOrder.Key)
            case key(Key)
        }

        var columns: Range<Int>
        var rows: Range<Int>
        var action: Action
    }

    /// Takes in what the person did.
    mutating func handle(_ input: InputEvent, _ effects: inout [Effect]) {
        switch input {
        case .focus: return
        case .mouse(let mouse): return handle(mouse, &effects)
        case .key(.scalar("z"), .control): return effects.append(.suspend)
        case .key(.scalar("l"), .control): return effects.append(.redraw)
        case .key(.scalar("x"), .control): return cancelCopy(&effects)
        default: break
        }
        if dialog != nil { return handleInDialog(input, &effects) }
        if pager != nil { return handleInPager(input, &effects) }
        if filter != nil, handleInFilter(input, &effects) { return }
        guard case .key(let key, let modifiers) = input else { return }
        handle(key, modifiers, &effects)
    }

    private mutating func handle(_ key: Key, _ modifiers: KeyModifiers, _ effects: inout [Effect]) {
        let height = height(active)
        if case .scalar(let scalar) = key, !modifiers.isSubset(of: .shift) {
            guard modifiers == .control else { return }
            switch scalar {
            case "p": panes[active].move(by: -1, height: height)
            case "n": panes[active].move(by: 1, height: height)
            case "b": panes[active].move(by: -max(height - 1, 1), height: height)
            case "f": panes[active].move(by: max(height - 1, 1), height: height)
            case "r": reloadActive(&effects)
            case "c": escape(&effects)
            default: break
            }
            return
        }
        switch key {
        case .scalar("p"): togglePreview()
        case .up, .scalar("k"): panes[active].move(by: -1, height: height)
        case .down, .scalar("j"): panes[active].move(by: 1, height: height)
        case .pageUp: panes[active].move(by: -max(height - 1, 1), height: height)
        case .pageDown: panes[active].move(by: max(height - 1, 1), height: height)
        case .home, .scalar("g"): panes[active].move(to: 0, height: height)
        case .end, .scalar("G"): panes[active].move(to: panes[active].listing.count - 1, height: height)
        case .tab: switchPane()
        case .enter, .right, .scalar("l"): openCurrent(&effects)
        case .left, .scalar("h"), .backspace: goUp(&effects)
        case .insert, .scalar(" "): panes[active].toggleMark(height: height)
        case .scalar("*"): panes[active].invertMarks()
        case .scalar("+"): prompt("Mark names with", .mark(isOn: true))
        case .scalar("-"): prompt("Take the mark off names with", .mark(isOn: false))
        case .scalar("u"): panes[active].unmarkAll()
        case .escape: escape(&effects)
        case .function(1), .scalar("?"): dialog = .help(top: 0)
        case .function(2), .scalar("o"): open(.devices, in: active, &effects)
        case .function(3), .scalar("v"): viewCurrent(&effects)
        case .function(4), .scalar("e"): editCurrent(&effects)
        case .function(5), .scalar("c"): askToCopy()
        case .function(6), .scalar("r"): askToRename()
        case .scalar("R"): reloadActive(&effects)
        case .scalar("m"): moveAcross(&effects)
        case .function(7), .scalar("n"): askForFolder()
        case .function(8), .scalar("d"), .delete: askToDelete()
        case .function(9), .scalar("s"): askForOrder()
        case .function(10), .scalar("q"): quit(&effects)
        case .scalar("/"): filter = TextField(panes[active].view.filter)
        case .scalar("f"): askToSearch()
        case .scalar("."): toggleHidden()
        case .scalar(":"): prompt("Go to (a path here, or DEVICE:PATH)", .goTo)
        case .scalar("~"): goHome(&effects)
        case .scalar("="): open(panes[active].location, in: 1 - active, &effects)
        case .scalar("x"): cancelCopy(&effects)
        default: break
        }
    }

    private mutating func switchPane() {
        filter = nil
        active = 1 - active
    }

    private mutating func prompt(
        _ title: String, _ purpose: Dialog.Prompt.Purpose, text: String = "", cursor: Int? = nil
    ) {
        dialog = .prompt(Dialog.Prompt(title: title, field: TextField(text, cursor: cursor), purpose: purpose))
    }

    private mutating func togglePreview() {
        hasPreview.toggle()
        for pane in 0..<2 { panes[pane].show(height: height(pane)) }
        if hasPreview, layout.preview == nil {
            show("No room for a preview: make the window larger, or press v.")
        }
    }

    /// Takes back the last thing that can be: a request, the marks, the filter.
    private mutating func escape(_ effects: inout [Effect]) {
        if cancelListing(active, &effects) { return }
        if let ticket = tasks.keys.max() {
            effects.append(.cancel(ticket))
            return
        }
        if !panes[active].marked.isEmpty { return panes[active].unmarkAll() }
        if !panes[active].view.filter.isEmpty { return setFilter("") }
        if case .search(let folder, _) = panes[active].location { return open(.folder(folder), in: active, &effects) }
        notice = nil
    }

    private mutating func toggleHidden() {
        for pane in 0..<2 { panes[pane].arrange({ $0.showsHidden.toggle() }, height: height(pane)) }
        show(panes[active].view.showsHidden ? "Hidden files are shown." : "Hidden files are not shown.")
    }

    private mutating func setFilter(_ text: String) {
        panes[active].arrange({ $0.filter = text }, height: height(active))
    }

    /// Returns whether the key belonged to the filter.
    private mutating func handleInFilter(_ input: InputEvent, _ effects: inout [Effect]) -> Bool {
        guard var field = filter else { return false }
        switch input {
        case .key(.escape, _):
            filter = nil
            setFilter("")
        case .key(.enter, _):
            filter = nil
            // What is typed until one folder is left is meant for that.
            if panes[active].listing.count == 2, panes[active].listing[0].kind == .parent {
                panes[active].move(to: 1, height: height(active))
            }
        case .key(.up, _), .key(.down, _), .key(.pageUp, _), .key(.pageDown, _), .key(.tab, _), .key(.function, _),
            .key(.insert, _):
            return false
        case .key(.backspace, _) where field.text.isEmpty: filter = nil
        default:
            guard field.handle(input) else { return true }
            filter = field
            setFilter(field.text)
            // The way up is not what was looked for.
            if panes[active].current?.kind == .parent, panes[active].listing.count > 1, !field.text.isEmpty {
                panes[active].move(to: 1, height: height(active))
            }
        }
        return true
    }

    // MARK: - Dialogs

    private mutating func handleInDialog(_ input: InputEvent, _ effects: inout [Effect]) {
        switch dialog {
        case .prompt(var prompt):
            switch input {
            case .key(.escape, _), .key(.scalar("c"), .control): dialog = nil
            case .key(.enter, _):
                dialog = nil
                answer(prompt, &effects)
            default:
                if prompt.field.handle(input) { dialog = .prompt(prompt) }
            }
        case .choice(let choice):
            guard case .key(let key, let modifiers) = input else { return }
            switch key {
            case .escape, .scalar("n"), .scalar("q"): dialog = nil
            case .scalar("c") where modifiers == .control: dialog = nil
            case .scalar(let scalar) where modifiers.isEmpty:
                guard choice.answers.contains(where: { $0.key == scalar }) else { return }
                dialog = nil
                answer(choice, scalar, &effects)
            default: break
            }
        case .help(let top):
            guard case .key(let key, _) = input else { return }
            let height = max(rows - 2, 1)
            let last = max(Self.help.count - height, 0)
            switch key {
            case .up, .scalar("k"): dialog = .help(top: max(top - 1, 0))
            case .down, .scalar("j"): dialog = .help(top: min(top + 1, last))
            case .pageUp: dialog = .help(top: max(top - height, 0))
            case .pageDown, .scalar(" "): dialog = .help(top: min(top + height, last))
            case .home: dialog = .help(top: 0)
            case .end: dialog = .help(top: last)
            default: dialog = nil
            }
        case nil: break
        }
    }

    private mutating func answer(_ choice: Dialog.Choice, _ key: Unicode.Scalar, _ effects: inout [Effect]) {
        switch choice.purpose {
        case .delete(let device, let paths): delete(paths, on: device, &effects)
        case .copy(var order):
            order.overwrite = key == "r"
            start(order, &effects)
        case .replace(let device, let move): self.move([move], on: device, overwrite: true, &effects)
        case .sort:
            let keys: [Unicode.Scalar: SortOrder.Key] = ["a": .name, "s": .size, "t": .time, "k": .kind]
            sort(active, by: keys[key])
        case .quit:
            hasQuit = true
            effects.append(.quit)
        }
    }

    /// Sorts a pane; by what it is sorted by already, or by `nil`, the other way round.
    mutating func sort(_ pane: Int, by key: SortOrder.Key?) {
        panes[pane].arrange(
            { view in
                if let key, view.order.key != key {
                    view.order = SortOrder(key)
                } else {
                    view.order.isReversed.toggle()
                }
            }, height: height(pane))
    }

    // MARK: - The pager

    private mutating func handleInPager(_ input: InputEvent, _ effects: inout [Effect]) {
        guard var pager else { return }
        defer { if self.pager != nil { self.pager = pager } }
        let (width, height) = pagerSize
        if var field = pager.field {
            switch input {
            case .key(.escape, _), .key(.scalar("c"), .control): pager.field = nil
            case .key(.enter, _):
                pager.field = nil
                if !pager.search(field.text, width: width, height: height) { notFound(in: pager) }
            default:
                if field.handle(input) { pager.field = field }
            }
            return
        }
        guard case .key(let key, let modifiers) = input else { return }
        switch key {
        case .scalar("q"), .escape, .function(3), .function(10), .left, .scalar("h"),
            .scalar("c") where modifiers == .control:
            if let ticket = pager.loading { effects.append(.cancel(ticket)) }
            self.pager = nil
        case .up, .scalar("k"): pager.scroll(-1, width: width, height: height)
        case .down, .scalar("j"), .enter: pager.scroll(1, width: width, height: height)
        case .pageUp, .scalar("b"): pager.scroll(-height, width: width, height: height)
        case .pageDown, .scalar(" "), .scalar("f"): pager.scroll(height, width: width, height: height)
        case .home, .scalar("g"): pager.goToStart()
        case .end, .scalar("G"): pager.goToEnd(width: width, height: height)
        case .scalar("x"), .function(4): pager.toggleHex(width: width)
        case .scalar("/"), .function(7): pager.field = TextField()
        case .scalar("n"): if !pager.search(width: width, height: height) { notFound(in: pager) }
        case .scalar("N"): if !pager.search(backwards: true, width: width, height: height) { notFound(in: pager) }
        default: break
        }
    }

    private mutating func notFound(in pager: Pager) {
        if pager.needle.isEmpty { return show("Press / to search.") }
        show("No “\(pager.needle)”" + (pager.isComplete ? "." : " in what has been fetched."))
    }

    // MARK: - The mouse

    private mutating func handle(_ mouse: MouseEvent, _ effects: inout [Effect]) {
        let position = Canvas.Position(column: mouse.column, row: mouse.row)
        if mouse.action == .wheelUp || mouse.action == .wheelDown {
            let rows = mouse.action == .wheelUp ? -3 : 3
            if case .help(let top)? = dialog {
                dialog = .help(top: min(max(top + rows, 0), max(Self.help.count - max(self.rows - 2, 1), 0)))
            } else if dialog == nil, pager != nil {
                let (width, height) = pagerSize
                pager?.scroll(rows, width: width, height: height)
            } else if dialog == nil {
                let pane = layout.panes.firstIndex { frame in
                    frame.map { $0.columns.contains(mouse.column) && $0.rows.contains(mouse.row) } ?? false
                }
                if let pane { panes[pane].scroll(by: rows, height: height(pane)) }
            }
            return
        }
        guard mouse.action == .press, mouse.button == .left || mouse.button == .right else { return }
        let isDouble = lastClick.map { $0.position == position && now - $0.time < .milliseconds(450) } ?? false
        lastClick = isDouble ? nil : (position, now)
        // What was drawn last lies on top.
        let target = targets.last { $0.columns.contains(mouse.column) && $0.rows.contains(mouse.row) }
        switch target?.action {
        case .key(let key): handle(.key(key), &effects)
        case .line(let pane, let index):
            if pane != active { switchPane() }
            guard index < panes[pane].listing.count else { return }
            if mouse.button == .right {
                panes[pane].toggleMark(at: index)
            } else {
                panes[pane].move(to: index, height: height(pane))
                if isDouble { openCurrent(&effects) }
            }
        case .pane(let pane): if pane != active { switchPane() }
        case .go(let pane, let location):
            if pane != active { switchPane() }
            open(location, in: pane, &effects)
        case .sort(let pane, let key): sort(pane, by: key)
        case nil: break
        }
    }
}
