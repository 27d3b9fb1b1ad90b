import KithAPI
import KithTerminal
import KithWire
import Testing

@testable import KithBrowser

@Suite struct BrowserTests {
    @Test func `it begins with a folder here and the devices to choose from`() {
        var harness = Harness()
        #expect(
            harness.effects == [
                .list(1, Folder(device: nil, path: "/home/ana")), .listDevices(2),
            ])
        harness.answer(["b.txt", "docs/", ".hidden", "a10", "a9"])
        #expect(harness.names(0) == ["..", "docs", "a9", "a10", "b.txt"])
        let screen = harness.screen()
        #expect(screen.contains("docs/") && screen.contains("here:/home/ana") && !screen.contains("hidden"))
    }

    @Test func `going into a folder and out again comes back to where it was`() {
        var harness = Harness.filled(["docs/", "x"])
        harness.press(.down, .enter)
        #expect(harness.next() == .list(3, Folder(device: nil, path: "/home/ana/docs")))
        // What was shown stays until something has come.
        #expect(harness.names(0) == ["..", "docs", "x"])
        harness.handle(.entries(3, [Harness.entry("inner")]))
        #expect(harness.names(0) == ["..", "inner"])
        harness.handle(.ended(3, nil))
        harness.press(.backspace)
        harness.answer(["docs/", "x"])
        #expect(harness.current == "docs")
        harness.press(.left)
        #expect(harness.effects == [.list(5, Folder(device: nil, path: "/home"))])
    }

    @Test func `going up twice in haste goes up twice`() {
        var harness = Harness.filled([])
        harness.press(.left, .left)
        #expect(
            harness.effects == [
                .list(3, Folder(device: nil, path: "/home")), .cancel(3), .list(4, Folder(device: nil, path: "/")),
            ])
    }

    @Test func `a folder that cannot be listed leaves what is shown, and says why`() {
        var harness = Harness.filled(["docs/"])
        harness.press(.down, .enter)
        harness.handle(.ended(3, KithError(.denied, "Not permitted to read /home/ana/docs.")))
        #expect(harness.names(0) == ["..", "docs"])
        #expect(harness.screen().contains("Not permitted to read /home/ana/docs."))
        harness.press(.enter)
        let long = String(repeating: "and for a reason ", count: 12) + "that ends like this."
        harness.handle(.ended(4, KithError(.denied, long)))
        #expect(harness.screen().contains("that ends like this."))
    }

    @Test func `a slow listing shows that it goes on, and can be stopped`() {
        var harness = Harness.filled(["docs/"])
        harness.press(.down, .enter)
        #expect(!harness.screen().contains("Esc stops"))
        harness.wait(.milliseconds(200))
        #expect(harness.screen().contains("Esc stops"))
        #expect(harness.screen().contains("/home/ana/docs"))
        _ = harness.next()
        harness.press(.escape)
        #expect(harness.effects == [.cancel(3)])
        #expect(harness.names(0) == ["..", "docs"])
        // What comes all the same changes nothing.
        harness.handle(.entries(3, [Harness.entry("late")]))
        harness.handle(.ended(3, nil))
        #expect(harness.names(0) == ["..", "docs"])
        #expect(harness.screen().contains("here:/home/ana "))
    }

    @Test func `the home folder of a device gets its absolute path, so that one can go up`() {
        var harness = Harness()
        harness.handle(
            .devices(
                2, []))
        harness.handle(.ended(2, nil))
        harness.press(.scalar(":"))
        harness.effects = []
        harness.type("laptop:")
        harness.press(.enter)
        #expect(harness.effects.last == .list(3, Folder(device: "laptop", path: "~")))
        harness.handle(.resolved(3, "/home/bob"))
        harness.handle(.entries(3, [Harness.entry("mail/")]))
        harness.handle(.ended(3, nil))
        #expect(harness.browser.panes[0].location == .folder(Folder(device: "laptop", path: "/home/bob")))
        harness.effects = []
        harness.press(.left)
        #expect(harness.effects == [.list(4, Folder(device: "laptop", path: "/home"))])
    }

    @Test func `many names stay in order while they come`() {
        var harness = Harness(columns: 80, rows: 24)
        let ticket = harness.takeListing() ?? 0
        for batch in 0..<60 {
            harness.handle(
                .entries(ticket, (0..<500).map { Harness.entry("file \(29_999 - batch * 500 - $0)") }))
        }
        // It is put in order each time there is four times as much, not each time something comes.
        #expect(harness.browser.panes[0].listing.count > 7_500)
        harness.handle(.ended(ticket, nil))
        #expect(harness.browser.panes[0].listing.count == 30_001)
        #expect(harness.browser.panes[0].listing[1].text == "file 0")
        harness.press(.end)
        #expect(harness.current == "file 29999")
        #expect(harness.screen().contains("file 29999"))
        #expect(harness.screen().contains("30,000 items"))
        harness.press(.scalar("/"))
        harness.type("29998")
        #expect(harness.names(0) == ["..", "file 29998"])
    }

    @Test func `the filter shows what has the text, and Esc shows all again`() {
        var harness = Harness.filled(["Alpha", "beta", "gamma/", "ALSO"])
        harness.press(.scalar("/"))
        harness.type("al")
        #expect(harness.names(0) == ["..", "Alpha", "ALSO"])
        #expect(harness.current == "Alpha")
        harness.press(.backspace, .backspace)
        harness.type("AL")
        #expect(harness.names(0) == ["..", "ALSO"])
        harness.press(.enter)
        #expect(harness.browser.filter == nil)
        #expect(harness.screen().contains("with “AL”"))
        harness.press(.escape)
        #expect(harness.names(0).count == 5)
    }

    @Test func `what is marked stays so behind a filter, until it is gone`() {
        var harness = Harness.filled(["alpha", "beta", "gamma"])
        harness.press(.down, .scalar(" "), .scalar("/"))
        harness.type("gam")
        harness.press(.enter, .scalar(" "))
        #expect(harness.screen().contains("2 marked"))
        harness.press(.scalar("d"))
        #expect(harness.screen().contains("Delete 2 items?") && harness.screen().contains("alpha"))
        harness.press(.escape, .scalar("R"))
        harness.answer(["beta", "gamma"])
        #expect(harness.browser.panes[0].marked == [Array("gamma".utf8)])
        harness.press(.scalar("+"))
        harness.type("bet")
        harness.press(.enter)
        #expect(harness.browser.panes[0].markedSize == 200)
        harness.press(.scalar("u"))
        #expect(harness.browser.panes[0].chosen.map(\.text) == ["gamma"], "the line at the cursor")
    }

    @Test func `every order puts folders first, and turns round`() {
        var harness = Harness()
        let ticket = harness.takeListing() ?? 0
        harness.handle(
            .entries(
                ticket,
                [
                    Harness.entry("b.txt", size: 5, modified: 30), Harness.entry("a.zip", size: 50, modified: 10),
                    Harness.entry("c.txt", size: 9, modified: 20), Harness.entry("z/", modified: 1),
                ]))
        harness.handle(.ended(ticket, nil))
        harness.press(.tab, .tab)
        for (key, names) in [
            ("s", ["..", "z", "a.zip", "c.txt", "b.txt"]), ("t", ["..", "z", "b.txt", "c.txt", "a.zip"]),
            ("k", ["..", "z", "b.txt", "c.txt", "a.zip"]), ("r", ["..", "z", "a.zip", "b.txt", "c.txt"]),
            ("a", ["..", "z", "a.zip", "b.txt", "c.txt"]), ("r", ["..", "z", "c.txt", "b.txt", "a.zip"]),
        ] {
            harness.press(.function(9))
            harness.type(key)
            #expect(harness.names(0) == names, "\(key)")
        }
    }

    @Test func `a copy is asked about, compared, and told of until its end`() throws {
        var harness = Harness.filled(["a", "b", "c"], ["old"])
        harness.press(.down, .scalar(" "), .scalar(" "), .function(5))
        #expect(harness.screen().contains("Copy 2 items to"))
        #expect(harness.screen().contains("laptop:/srv/"))
        harness.press(.enter)
        let order = Browser.CopyOrder(
            sources: [
                Files.Location(device: nil, path: "/home/ana/a"), Files.Location(device: nil, path: "/home/ana/b"),
            ], destination: Files.Location(device: "laptop", path: "/srv"), intoFolder: true)
        #expect(harness.next() == .compare(3, order))
        harness.handle(.present(3, []))
        #expect(harness.next() == .copy(4, order))
        harness.handle(.ended(3, nil))
        harness.handle(.progress(4, Files.Progress(bytes: 0, totalBytes: 4_000_000, files: 0, totalFiles: 2)))
        harness.now += .seconds(1)
        harness.handle(.progress(4, Files.Progress(bytes: 1_000_000, totalBytes: 4_000_000, files: 1, totalFiles: 2)))
        let screen = harness.screen()
        #expect(screen.contains("25 %") && screen.contains("1.0 MB/s") && screen.contains("3.0 s left"), "\(screen)")
        harness.handle(
            .progress(4, Files.Progress(bytes: 4_000_000, summary: Files.Summary(bytes: 4_000_000, files: 2))))
        harness.handle(.ended(4, nil))
        #expect(harness.screen().contains("Copied 2 files: 4.0 MB"))
        #expect(harness.next() == .list(5, Folder(device: "laptop", path: "/srv")))
    }

    @Test func `what is there already is replaced only after asking`() {
        for (key, overwrite) in [("r", true), ("s", false)] {
            var harness = Harness.filled(["a"], ["a"])
            harness.press(.down, .function(5), .enter)
            harness.effects = []
            harness.handle(.present(3, ["/srv/a"]))
            #expect(harness.screen().contains("Already there"))
            harness.type(key)
            guard case .copy(_, let order)? = harness.next() else {
                Issue.record("no copy")
                continue
            }
            #expect(order.overwrite == overwrite)
        }
        var harness = Harness.filled(["a"], ["a"])
        harness.press(.down, .function(5), .enter)
        harness.effects = []
        harness.handle(.present(3, ["/srv/a"]))
        harness.press(.escape)
        #expect(harness.effects.isEmpty && harness.browser.copies.isEmpty)
    }

    @Test func `copies wait for one another, and the one that runs can be cancelled`() {
        var harness = Harness.filled(["a", "b"])
        for _ in 0..<2 {
            harness.press(.down, .function(5), .enter)
            guard case .compare(let ticket, _)? = harness.effects.last else {
                Issue.record("nothing compared")
                return
            }
            harness.handle(.present(ticket, []))
        }
        #expect(harness.browser.copies.count == 2)
        #expect(harness.effects.filter { if case .copy = $0 { true } else { false } }.count == 1)
        harness.effects = []
        harness.control("x")
        let running = harness.browser.copies[0].ticket
        #expect(harness.effects == [.cancel(running)])
        harness.handle(.ended(running, KithError(.cancelled, "Cancelled.")))
        #expect(harness.browser.copies.count == 1)
        #expect(harness.effects.contains { if case .copy = $0 { true } else { false } })
        harness.press(.function(10))
        #expect(harness.screen().contains("Leave?"))
        harness.type("y")
        #expect(harness.effects.last == .quit)
    }

    @Test func `nothing is deleted before y is pressed`() {
        for key in [Key.enter, .escape, .scalar("n"), .scalar("x"), .scalar(" ")] {
            var harness = Harness.filled(["a", "docs/"])
            harness.press(.down, .function(8))
            let screen = harness.screen()
            #expect(screen.contains("Delete this folder?") && screen.contains("docs/  with everything in it"))
            harness.press(key)
            #expect(harness.effects.isEmpty, "\(key)")
        }
        var harness = Harness.filled(["a", "docs/"])
        harness.press(.down, .scalar(" "), .scalar(" "), .scalar("d"), .scalar("y"))
        #expect(harness.next() == .delete(3, device: nil, ["/home/ana/docs", "/home/ana/a"]))
        harness.handle(.ended(3, nil))
        #expect(harness.next() == .list(4, Folder(device: nil, path: "/home/ana")))
        harness.press(.home, .delete)
        #expect(harness.browser.dialog == nil, "the way up is not deleted")
    }

    @Test func `a folder is made and a file renamed, and the cursor goes there`() {
        var harness = Harness.filled(["note.txt"])
        harness.press(.function(7))
        harness.type("neu")
        harness.press(.enter)
        #expect(harness.next() == .makeFolder(3, device: nil, "/home/ana/neu"))
        harness.handle(.ended(3, nil))
        harness.answer(["note.txt", "neu/"])
        #expect(harness.current == "neu")
        harness.press(.down, .function(6))
        // The cursor stands before the suffix.
        harness.type("-2")
        harness.press(.enter)
        let move = Browser.Move(from: "/home/ana/note.txt", to: "/home/ana/note-2.txt")
        #expect(harness.next() == .move(5, device: nil, [move], overwrite: false))
        harness.handle(
            .ended(5, KithError(.conflict, "Cannot rename: something of that name is there already.")))
        #expect(harness.screen().contains("Replace what is there?"))
        harness.type("y")
        #expect(harness.effects.last == .move(7, device: nil, [move], overwrite: true))
        for name in ["a/b", "..", ".", String(repeating: "x", count: 256)] {
            harness.effects = []
            harness.press(.function(7))
            harness.type(name)
            harness.press(.enter)
            #expect(harness.effects.isEmpty, "\(name)")
        }
    }

    @Test func `files move between the panes on one device only`() {
        var harness = Harness.filled(["a"])
        harness.press(.down, .scalar("m"))
        #expect(harness.effects.isEmpty && harness.screen().contains("copied (c), then deleted (d)"))
        var same = Harness(right: .folder(Folder(device: nil, path: "/tmp")))
        same.answer(["a"])
        same.answer([])
        same.press(.down, .scalar("m"))
        #expect(
            same.effects == [
                .move(3, device: nil, [Browser.Move(from: "/home/ana/a", to: "/tmp/a")], overwrite: false)
            ])
    }

    @Test func `a search shows paths, and opening one goes to where it is`() {
        var harness = Harness.filled(["docs/"])
        harness.press(.scalar("f"))
        harness.type("note")
        harness.press(.enter)
        #expect(harness.next() == .search(3, Folder(device: nil, path: "/home/ana"), "note"))
        harness.handle(.entries(3, [Harness.entry("docs/old/note.txt")]))
        harness.handle(.ended(3, nil))
        #expect(harness.names(0) == ["..", "docs/old/note.txt"])
        harness.press(.down, .enter)
        #expect(harness.next() == .list(4, Folder(device: nil, path: "/home/ana/docs/old")))
        harness.handle(.entries(4, [Harness.entry("a"), Harness.entry("note.txt")]))
        harness.handle(.ended(4, nil))
        #expect(harness.current == "note.txt")
    }

    @Test func `names that a terminal would obey are only shown`() {
        var harness = Harness.filled(["a\u{1B}[31mred", "line\nend", "\u{202E}gpj.exe", "日本"])
        let screen = harness.screen()
        #expect(
            screen.contains("\\u{1b}[31mred") && screen.contains("line\\u{a}end") && screen.contains("\\u{202e}gpj"))
        #expect(screen.contains("日本"))
        #expect(!screen.unicodeScalars.contains { $0 == "\u{1B}" || $0 == "\u{202E}" })
        // Copied and deleted is the name itself.
        harness.press(.down, .function(8), .scalar("y"))
        guard case .delete(_, _, let paths)? = harness.next() else {
            Issue.record("nothing deleted")
            return
        }
        #expect(paths == [Files.Path(bytes: Array("/home/ana/".utf8) + (harness.browser.panes[0].current?.name ?? []))])
    }

    @Test func `what a device must not say changes nothing`() {
        var harness = Harness()
        let ticket = harness.takeListing() ?? 0
        let names = ["", ".", "..", "../x", "/etc/passwd", "a/b", "a\0b", String(repeating: "x", count: 256)]
        var entries = names.map { Harness.entry($0, size: 1) }
        // A slash behind the name made some of them folders.
        for index in entries.indices { entries[index].name = Files.Path(names[index]) }
        harness.handle(.entries(ticket, entries))
        for (index, time) in [Int64.min, -1, 0, .max].enumerated() {
            harness.handle(.entries(ticket, [Harness.entry("t\(index)", size: .max, modified: time)]))
        }
        harness.handle(.ended(ticket, nil))
        #expect(harness.names(0) == ["..", "t0", "t1", "t2", "t3"])
        for _ in 0..<5 {
            harness.press(.scalar(" "))
            _ = harness.screen()
        }
        harness.handle(.resized(columns: 200, rows: 24))
        _ = harness.screen()
        for path in ["../x", "/x", "a//b", "a/../b", "./a"] {
            #expect(!Browser.isSound(Files.Path(path), isPath: true), "\(path)")
        }
        #expect(Browser.isSound("a/b c/d", isPath: true) && Browser.isSound("..a", isPath: false))
    }

    @Test func `numbers of a copy that make no sense are drawn all the same`() {
        var harness = Harness.filled(["a"])
        harness.press(.down, .function(5), .enter)
        harness.handle(.present(3, []))
        for progress in [
            Files.Progress(bytes: .max, totalBytes: 1), Files.Progress(bytes: 0, totalBytes: 0),
            Files.Progress(bytes: .max, totalBytes: .max, files: .max, totalFiles: .max),
            Files.Progress(bytes: 1, totalBytes: .max, current: Files.Path("\u{1B}[2J"), waiting: "\u{1B}c"),
        ] {
            harness.handle(.progress(4, progress))
            harness.now += .nanoseconds(1)
            let screen = harness.screen()
            #expect(!screen.contains("\u{1B}"))
        }
    }

    @Test(arguments: [(80, 24), (40, 10), (200, 60), (12, 5), (2, 1), (59, 12), (121, 30)])
    func `it draws itself in every size, with every dialog`(columns: Int, rows: Int) {
        var harness = Harness.filled(
            (0..<50).map { "file number \($0).txt" } + ["folder/"], ["x"], columns: columns, rows: rows)
        _ = harness.screen()
        for key in [
            Key.function(1), .function(5), .function(6), .function(7), .function(8), .function(9), .scalar("p"),
        ] {
            harness.press(.down, key)
            _ = harness.screen()
            harness.press(.escape)
        }
        harness.press(.end)
        let screen = harness.screen()
        #expect(screen.split(separator: "\n", omittingEmptySubsequences: false).count == rows)
        if columns >= 40 { #expect(screen.contains("file numb")) }
        harness.handle(.resized(columns: 80, rows: 24))
        #expect(harness.screen().contains("file number 49.txt"))
    }

    @Test func `the mouse selects, opens, marks, scrolls and presses keys`() {
        var harness = Harness.filled((0..<40).map { "f\($0)" } + ["sub/"])
        _ = harness.screen()
        func press(_ column: Int, _ row: Int, _ button: MouseEvent.Button = .left) {
            harness.handle(.input(.mouse(MouseEvent(.press, button, column: column, row: row))))
            harness.handle(.input(.mouse(MouseEvent(.release, button, column: column, row: row))))
        }
        press(5, 4)
        #expect(harness.current == "f0")
        press(5, 3)
        harness.now += .milliseconds(100)
        press(5, 3)
        #expect(harness.next() == .list(3, Folder(device: nil, path: "/home/ana/sub")))
        press(5, 5, .right)
        #expect(harness.browser.panes[0].marked == [Array("f1".utf8)])
        harness.handle(.input(.mouse(MouseEvent(.wheelDown, .other, column: 5, row: 5))))
        #expect(harness.browser.panes[0].top == 3)
        press(50, 8)
        #expect(harness.browser.active == 1)
        _ = harness.screen()
        press(74, 23)
        #expect(harness.effects.last == .quit)
    }

    @Test func `a breadcrumb leads to its folder`() {
        var harness = Harness.filled([])
        let screen = harness.screen()
        let line = Array(screen.split(separator: "\n")[0])
        let column = line.indices.first { line[$0...].starts(with: "home/") }
        harness.handle(.input(.mouse(MouseEvent(.press, column: (column ?? 0) + 1, row: 0))))
        #expect(harness.effects == [.list(3, Folder(device: nil, path: "/home"))])
    }

    @Test func `the preview is asked for once the cursor rests`() {
        var harness = Harness.filled(["a", "b", "c"])
        harness.press(.down, .scalar("p"))
        #expect(harness.effects.isEmpty)
        harness.press(.down)
        harness.wait(.milliseconds(100))
        #expect(harness.effects.isEmpty, "the cursor has just moved")
        harness.wait(.milliseconds(50))
        guard case .preview(let ticket, nil, "/home/ana/b", _)? = harness.next() else {
            Issue.record("no preview of b")
            return
        }
        harness.handle(.preview(ticket, Preview(bytes: Array("hello\u{1B}[2J\n".utf8), size: 10)))
        #expect(harness.screen().contains("hello^[[2J"))
        harness.press(.down)
        #expect(harness.effects == [.cancel(ticket)])
        #expect(!harness.screen().contains("hello"))
    }

    @Test func `a file is looked at piece by piece`() {
        var harness = Harness.filled(["log"])
        harness.press(.down, .function(3))
        guard case .read(let first, nil, "/home/ana/log", offset: 0, let length)? = harness.next() else {
            Issue.record("nothing is read")
            return
        }
        let lines = (0..<100_000).map { "line \($0)\n" }.joined().utf8
        harness.handle(.bytes(first, Array(lines.prefix(length)), isLast: false))
        harness.handle(.ended(first, nil))
        #expect(harness.screen().contains("line 0\n") && harness.effects.isEmpty, "enough for several screens is there")
        harness.press(.end)
        guard case .read(_, nil, _, offset: UInt64(length), _)? = harness.next() else {
            Issue.record("the next piece is not read")
            return
        }
        harness.press(.home, .scalar("/"))
        harness.type("LINE 99")
        harness.press(.enter)
        #expect(harness.screen().contains("No “LINE 99”"))
        harness.press(.scalar("/"))
        harness.type("line 777")
        harness.press(.enter)
        #expect(harness.screen().contains("line 777"))
        harness.press(.scalar("x"))
        #expect(harness.screen().contains("6c 69 6e 65"))
        harness.press(.scalar("q"))
        #expect(harness.browser.pager == nil)
    }

    @Test func `text is typed and changed like in a shell`() {
        var field = TextField("one two.txt")
        for (event, text) in [
            (InputEvent.key(.scalar("w"), .control), "one two."), (.key(.scalar("a"), .control), "one two."),
            (.key(.scalar("X")), "Xone two."), (.key(.scalar("e"), .control), "Xone two."),
            (.key(.backspace), "Xone two"), (.key(.left), "Xone two"), (.key(.delete), "Xone tw"),
            (.key(.scalar("e")), "Xone twe"), (.key(.scalar("\u{301}")), "Xone twe\u{301}"),
            (.key(.backspace), "Xone tw"), (.paste(Array("a\u{1B}b\nrest".utf8)), "Xone twab"),
            (.key(.scalar("u"), .control), ""),
        ] {
            let isTaken = field.handle(event)
            #expect(isTaken)
            #expect(field.text == text, "\(event)")
        }
        let isTaken = field.handle(.key(.up))
        #expect(!isTaken)
    }

    @Test func `the help fits a terminal of eighty columns`() {
        #expect(Browser.help.allSatisfy { CharacterWidth.columns(of: $0) <= 76 })
        var harness = Harness.filled([])
        harness.press(.function(1))
        #expect(harness.screen().contains("move to the other pane") && harness.screen().contains("↓ shows more"))
        harness.press(.end)
        #expect(harness.screen().contains("keys in the last row"))
    }

    @Test func `dates are those of the calendar`() {
        var harness = Harness()
        #expect(harness.browser.timeText(0, width: 16) == "1970-01-01 00:00")
        #expect(harness.browser.timeText(951_782_400, width: 16) == "2000-02-29 00:00")
        #expect(harness.browser.timeText(1_795_279_021, width: 12) == "Nov 21 16:37")
        #expect(harness.browser.timeText(-86_401, width: 16) == "1969-12-30 23:59")
        _ = harness.next()
    }
}
