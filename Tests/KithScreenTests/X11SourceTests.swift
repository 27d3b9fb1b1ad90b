#if Screen && os(Linux) && canImport(CXCB)
import Foundation
import KithAPI
import KithTesting
import KithWire
import Testing

@testable import KithScreen

/// Seeing a screen: pictures, changes, displays and the pointer's shape, against a real server.
@Suite(.needsX11, .serialized, .timeLimit(.minutes(8))) struct X11SourceTests {
    @Test func `a picture equals the one of xwd, pixel for pixel`() async throws {
        let server = try XServer("801x599x24")
        let window = try server.start("xlogo", ["-geometry", "301x203+17+33", "-fg", "#c0392b", "-bg", "#16a085"])
        let source = try await X11Source.open(display: server.display)
        try await waitForDamage(of: source) {
            try await !pixels(of: source, 801, 599).allSatisfy { $0 == 0 || $0 == 0xFF }
        }
        let expected = try await XWDPicture(server.run("xwd", ["-root", "-silent"]))
        #expect(expected.width == 801 && expected.height == 599)
        #expect(Set(expected.pixels.chunked(4)).count > 2)
        #expect(try await pixels(of: source, 801, 599) == expected.pixels)
        await source.close()
        window.kill()
    }

    @Test func `a picture is the same without shared memory`() async throws {
        let server = try XServer("1200x900x24")
        let window = try server.start("xlogo", ["-geometry", "1200x900+0+0", "-bg", "#16a085"])
        let connection = try X11Connection(display: server.display, name: "x11")
        let displays = try connection.displays()
        let (shared, sent) = (X11Capture(connection), X11Capture(connection, isShared: false))
        func picture(_ capture: X11Capture) throws -> [UInt8] {
            capture.resize(width: 1_200, height: 900)
            var bytes = [UInt8](repeating: 7, count: 1_200 * 900 * 4)
            try bytes.withUnsafeMutableBytes { try capture.copy(displays[0].bounds, into: $0, stride: 4_800) }
            return bytes
        }
        try await eventually { try Set(picture(shared).chunked(4)).count > 1 }
        #expect(!shared.isRemote && sent.isRemote)
        #expect(try picture(shared) == picture(sent))
        window.kill()
    }

    @Test func `an area keeps its place, and what lies outside of the screen stays`() async throws {
        let server = try XServer("320x200x24")
        try await server.run("xsetroot", ["-solid", "#0000ff"])
        let source = try await X11Source.open(display: server.display)
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: 3 * 60, alignment: 16)
        defer { bytes.deallocate() }
        for index in bytes.indices { bytes[index] = 9 }
        let area = Screen.Rectangle(x: 318, y: -1, width: 4, height: 3)
        try await source.capture(area, into: bytes, stride: 60)
        let blue: [UInt8] = [0xFF, 0, 0, 0xFF]
        for row in 0..<3 {
            let isSeen = row > 0
            #expect(Array(bytes[row * 60..<row * 60 + 8]) == (isSeen ? blue + blue : [UInt8](repeating: 9, count: 8)))
            #expect(bytes[row * 60 + 8..<row * 60 + 60].allSatisfy { $0 == 9 })
        }
        await source.close()
    }

    @Test func `a change is told of where it happened`() async throws {
        let server = try XServer()
        let source = try await X11Source.open(display: server.display)
        let first = try await source.nextChanges()
        #expect(first.contains { if case .displays(let displays) = $0 { displays.count == 2 } else { false } })
        #expect(first.contains { if case .cursor = $0 { true } else { false } })
        let window = try server.start("xlogo", ["-geometry", "100x80+200+300"])
        var areas: [Screen.Rectangle] = []
        while areas.isEmpty { areas = try await damage(source.nextChanges()) }
        let around = Screen.Rectangle(x: 190, y: 290, width: 120, height: 100)
        #expect(areas.allSatisfy { $0.intersection(around) == $0 })
        await source.close()
        window.kill()
    }

    @Test func `more areas than are answered become the one around them`() async throws {
        let server = try XServer()
        let connection = try X11Connection(display: server.display, name: "x11")
        let gatherer = X11Damage(connection)
        _ = try gatherer.take()
        let painter = try Painter(server)
        for index in 0..<200 { painter.fill(x: 4 * (index % 50) + 10, y: 4 * (index / 50) + 20, width: 1, height: 1) }
        #expect(try gatherer.take() == [Screen.Rectangle(x: 10, y: 20, width: 197, height: 13)])
        painter.fill(x: 3, y: 5, width: 2, height: 2)
        painter.fill(x: 300, y: 5, width: 2, height: 2)
        #expect(
            try Set(gatherer.take()) == [
                Screen.Rectangle(x: 3, y: 5, width: 2, height: 2),
                Screen.Rectangle(x: 300, y: 5, width: 2, height: 2),
            ])
        #expect(try gatherer.take().isEmpty)
    }

    @Test func `a resize while it runs is followed`() async throws {
        let server = try XServer()
        let source = try await X11Source.open(display: server.display)
        _ = try await source.nextChanges()
        let mode = ["640x400", "25", "640", "650", "660", "700", "400", "410", "420", "440"]
        try await server.run("xrandr", ["--newmode"] + mode)
        try await server.run("xrandr", ["--addmode", "screen", "640x400"])
        try await server.run("xrandr", ["--output", "screen", "--mode", "640x400"])
        var displays: [Screen.Display] = []
        while displays.first?.bounds.width != 640 {
            for case .displays(let now) in try await source.nextChanges() { displays = now }
        }
        let whole = Screen.Rectangle(width: 640, height: 400)
        #expect(
            displays == [
                Screen.Display(number: 0, name: "all", bounds: whole, isPrimary: false),
                Screen.Display(number: 1, name: "screen", bounds: whole, isPrimary: true),
            ])
        try await server.run("xsetroot", ["-solid", "#00ff00"])
        let expected = try await XWDPicture(server.run("xwd", ["-root", "-silent"]))
        #expect(try await pixels(of: source, 640, 400) == expected.pixels)
        await source.close()
    }

    @Test func `monitors have their places, and the primary one is known`() async throws {
        let server = try XServer("1600x600x24")
        let source = try await X11Source.open(display: server.display)
        _ = try await source.nextChanges()
        try await server.run("xrandr", ["--setmonitor", "left", "800/200x600/150+0+0", "screen"])
        try await server.run("xrandr", ["--setmonitor", "*right", "800/200x600/150+800+0", "none"])
        while try await source.displays.count != 3 { _ = try await source.nextChanges() }
        let displays = try await source.displays.dropFirst().sorted { $0.bounds.x < $1.bounds.x }
        #expect(displays.map(\.name) == ["left", "right"])
        #expect(displays.map(\.bounds.x) == [0, 800])
        #expect(displays.map(\.isPrimary) == [false, true])
        await source.close()
    }

    @Test func `the shape of the pointer comes with its hot spot and colours`() async throws {
        let server = try XServer()
        let source = try await X11Source.open(display: server.display)
        _ = try await source.nextChanges()
        let painter = try Painter(server)
        painter.setPointer(width: 8, height: 2, inks: [4, 1], shapes: [6, 2], hotX: 3, hotY: 1)
        var shape = CursorImage(width: 0, height: 0, hotX: 0, hotY: 0, pixels: [])
        while shape.width != 8 {
            for case .cursor(let now) in try await source.nextChanges() { shape = now }
        }
        let (red, blue, none): ([UInt8], [UInt8], [UInt8]) = ([0, 0, 255, 255], [255, 0, 0, 255], [0, 0, 0, 0])
        let rows = [red, red, red, red, blue, blue, none, none] + [red, blue, none, none, none, none, none, none]
        #expect(shape == CursorImage(width: 8, height: 2, hotX: 3, hotY: 1, pixels: Array(rows.joined())))
        // The server keeps this one to itself, as its maker has ended; the source goes on.
        try await server.run("xsetroot", ["-cursor_name", "watch"])
        try await server.run("xsetroot", ["-solid", "#336699"])
        while try await damage(source.nextChanges()).isEmpty {}
        await source.close()
    }

    @Test func `a pointer that others move is told of`() async throws {
        let server = try XServer()
        let source = try await X11Source.open(display: server.display)
        _ = try await source.nextChanges()
        try await server.run("xdotool", ["mousemove", "123", "456"])
        var places: [ScreenChange] = []
        while !places.contains(.pointer(x: 123, y: 456)) { places = try await source.nextChanges() }
        await source.close()
    }

    @Test func `a server that is killed makes every call fail, and no more`() async throws {
        let server = try XServer()
        let source = try await X11Source.open(display: server.display)
        _ = try await source.nextChanges()
        async let waiting = outcome { while true { _ = try await source.nextChanges() } }
        async let clipboard = outcome { _ = try await source.clipboard(.clipboard, as: .text) }
        server.kill()
        #expect(await waiting == .unreachable)
        #expect([.unreachable, .notFound].contains(await clipboard))
        #expect(await outcome { try await source.perform(.text("x")) } == .unreachable)
        #expect(await outcome { _ = try await source.displays } == .unreachable)
        #expect(await outcome { _ = try await pixels(of: source, 10, 10) } == .unreachable)
        await source.releaseAll()
        await source.close()
    }

    @Test func `a wait ends with the task, and with the source`() async throws {
        let server = try XServer()
        let source = try await X11Source.open(display: server.display)
        _ = try await source.nextChanges()
        let cancelled = Task { await outcome { while true { _ = try await source.nextChanges() } } }
        cancelled.cancel()
        #expect(await cancelled.value == .cancelled)
        async let closed = outcome { while true { _ = try await source.nextChanges() } }
        await source.close()
        #expect(await closed == .closed)
        #expect(await outcome { _ = try await source.nextChanges() } == .closed)
    }

    @Test func `a screen of few colours is refused, and one that is not there`() async throws {
        let server = try XServer("320x200x16")
        #expect(await outcome { _ = try await X11Source.open(display: server.display) } == .unsupported)
        server.kill()
        #expect(await outcome { _ = try await X11Source.open(display: server.display) } == .unreachable)
    }
}
#endif
