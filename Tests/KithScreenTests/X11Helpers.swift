#if Screen && os(Linux) && canImport(CXCB)
import CXCB
import KithAPI
import KithTesting
import KithWire

@testable import KithScreen

extension Array {
    func chunked(_ count: Int) -> [ArraySlice<Element>] {
        stride(from: 0, to: self.count, by: count).map { self[$0..<Swift.min($0 + count, self.count)] }
    }
}

/// The whole screen as the source sees it.
func pixels(of source: X11Source, _ width: Int, _ height: Int) async throws -> [UInt8] {
    let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: width * height * 4, alignment: 16)
    defer { memory.deallocate() }
    try await source.capture(
        Screen.Rectangle(width: UInt32(width), height: UInt32(height)), into: memory, stride: width * 4)
    return Array(memory)
}

/// Waits until the source has taken in what happened on the server before.
func settle(_ source: X11Source) async throws {
    // What comes with the first answer has been looked at before the second.
    for _ in 0..<2 { _ = try await pixels(of: source, 1, 1) }
}

/// Waits for changes until something holds.
func waitForDamage(of source: X11Source, until holds: () async throws -> Bool) async throws {
    while try await !holds() { _ = try await source.nextChanges() }
}

func damage(_ changes: [ScreenChange]) -> [Screen.Rectangle] {
    changes.flatMap { if case .damage(let areas) = $0 { areas } else { [Screen.Rectangle]() } }
}

/// The code of the error a call ends with; `nil` when it succeeds.
func outcome(_ body: @Sendable () async throws -> Void) async -> KithError.Code? {
    do {
        try await body()
        return nil
    } catch {
        return (error as? KithError)?.code ?? .internal
    }
}

/// A program that draws on the screen itself.
struct Painter {
    private let connection: X11Connection
    private let context: UInt32

    init(_ server: XServer) throws {
        connection = try X11Connection(display: server.display, name: "painter")
        context = connection.makeID()
        let values: [UInt32] = [0x123456, 1]
        let fields = XCB_GC_FOREGROUND.rawValue | XCB_GC_SUBWINDOW_MODE.rawValue
        xcb_create_gc(connection.raw, context, connection.root, fields, values)
    }

    /// Fills an area, and returns when it has been.
    func fill(x: Int, y: Int, width: Int, height: Int) {
        let area = xcb_rectangle_t(x: Int16(x), y: Int16(y), width: UInt16(width), height: UInt16(height))
        xcb_poly_fill_rectangle(connection.raw, connection.root, context, 1, [area])
        try? connection.synchronize()
    }

    /// Gives the pointer a shape over the root: of each row the first `shapes` pixels are seen, the first `inks` of them
    /// red, the others blue.
    func setPointer(width: UInt16, height: UInt16, inks: [UInt16], shapes: [UInt16], hotX: UInt16, hotY: UInt16) {
        let raw = connection.raw
        func bitmap(_ rows: [UInt16]) -> UInt32 {
            let (map, pen) = (connection.makeID(), connection.makeID())
            xcb_create_pixmap(raw, 1, map, connection.root, width, height)
            xcb_create_gc(raw, pen, map, XCB_GC_FOREGROUND.rawValue, [0] as [UInt32])
            xcb_poly_fill_rectangle(raw, map, pen, 1, [xcb_rectangle_t(x: 0, y: 0, width: width, height: height)])
            xcb_change_gc(raw, pen, XCB_GC_FOREGROUND.rawValue, [1] as [UInt32])
            for (row, count) in rows.enumerated() {
                let area = xcb_rectangle_t(x: 0, y: Int16(row), width: count, height: 1)
                xcb_poly_fill_rectangle(raw, map, pen, 1, [area])
            }
            return map
        }
        let cursor = connection.makeID()
        xcb_create_cursor(raw, cursor, bitmap(inks), bitmap(shapes), 0xFFFF, 0, 0, 0, 0, 0xFFFF, hotX, hotY)
        xcb_change_window_attributes(raw, connection.root, XCB_CW_CURSOR.rawValue, [cursor])
        try? connection.synchronize()
    }
}
#endif
