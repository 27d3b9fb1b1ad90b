import KithAPI

extension Screen.Rectangle {
    /// The part that lies in `other`, too; `nil` when there is none.
    func intersection(_ other: Self) -> Self? {
        let left = max(Int64(x), Int64(other.x))
        let top = max(Int64(y), Int64(other.y))
        let right = min(Int64(x) + Int64(width), Int64(other.x) + Int64(other.width))
        let bottom = min(Int64(y) + Int64(height), Int64(other.y) + Int64(other.height))
        // Between the two of either, so that each fits where those did.
        guard left < right, top < bottom else { return nil }
        return Self(x: Int32(left), y: Int32(top), width: UInt32(right - left), height: UInt32(bottom - top))
    }
}

#if Screen && os(Linux) && canImport(CXCB)
import CXCB
import KithWire

/// The areas of a screen that changed, as the server gathers them until they are asked for.
///
/// The server tells once that something has changed, and then only after the areas were taken: a screen full of motion
/// makes no more events than there are questions.
@safe final class X11Damage {
    /// The most areas of one answer; more are answered by the one around them.
    static let limit = 64

    private let connection: X11Connection
    private let damage: UInt32
    private let region: UInt32

    /// Begins to gather.
    init(_ connection: X11Connection) {
        self.connection = connection
        damage = connection.makeID()
        region = connection.makeID()
        let level = UInt8(XCB_DAMAGE_REPORT_LEVEL_NON_EMPTY.rawValue)
        unsafe xcb_damage_create(connection.raw, damage, connection.root, level)
        unsafe xcb_xfixes_create_region(connection.raw, region, 0, nil)
    }

    /// Takes the areas that changed since the last call.
    ///
    /// What changes from now on is told of anew: pictures are to be taken after this.
    ///
    /// - Throws: `KithError` `.unreachable` when the screen is gone.
    func take() throws(KithError) -> [Screen.Rectangle] {
        let raw = unsafe connection.raw
        unsafe xcb_damage_subtract(raw, damage, 0, region)
        return try unsafe connection.reply(to: xcb_xfixes_fetch_region(raw, region), xcb_xfixes_fetch_region_reply) {
            reply in
            let count = unsafe Int(xcb_xfixes_fetch_region_rectangles_length(reply))
            let areas = unsafe UnsafeBufferPointer(start: xcb_xfixes_fetch_region_rectangles(reply), count: count)
            if count > Self.limit { return unsafe [reply.pointee.extents].compactMap(Screen.Rectangle.init) }
            return unsafe areas.compactMap(Screen.Rectangle.init)
        }
    }
}

extension Screen.Rectangle {
    /// The same in this package's terms; `nil` for an empty one.
    init?(_ area: xcb_rectangle_t) {
        guard area.width > 0, area.height > 0 else { return nil }
        self.init(x: Int32(area.x), y: Int32(area.y), width: UInt32(area.width), height: UInt32(area.height))
    }
}
#endif
