/// The values of a viewer's format for our colours.
struct PixelValues: Sendable {
    private let red: [UInt32]
    private let green: [UInt32]
    private let blue: [UInt32]
    private let isOurs: Bool

    init(_ format: RFBPixelFormat) {
        red = (0..<256).map { format.value(of: $0 << 16) }
        green = (0..<256).map { format.value(of: $0 << 8) }
        blue = (0..<256).map { format.value(of: $0) }
        isOurs = format.hasBytes && format.redShift == 16 && format.greenShift == 8 && format.blueShift == 0
    }

    /// Writes the values of a rectangle's colours to the beginning of `values`, row after row without gaps.
    func read(_ rectangle: RFBRectangle, of frame: RFBFrameBuffer, into values: inout [UInt32]) {
        values.reserve(rectangle.area)
        var at = 0
        unsafe values.withUnsafeMutableBufferPointer { values in
            guard let base = values.baseAddress else { return }
            unsafe frame.forEachRow(of: rectangle) { row in
                guard let from = row.baseAddress else { return }
                let (to, count) = unsafe (base + at, row.count)
                if isOurs {
                    for index in 0..<count { unsafe to[index] = from[index] & 0xFF_FFFF }
                } else {
                    for index in 0..<count {
                        let color = unsafe from[index]
                        unsafe to[index] =
                            red[Int(color >> 16 & 0xFF)] | green[Int(color >> 8 & 0xFF)] | blue[Int(color & 0xFF)]
                    }
                }
                at += count
            }
        }
    }
}

/// The different values of a piece of picture, numbered in the order in which they appear.
struct Palette: Sendable {
    /// The most it can hold.
    static let limit = 256
    private static let slots = 1024
    private(set) var colors: [UInt32] = []
    private var keys = [UInt32](repeating: 0, count: slots)
    /// The number of a key's colour, and the generation in which it was written.
    private var entries = [UInt32](repeating: 0, count: slots)
    private var generation: UInt32 = 0

    init() { colors.reserveCapacity(Self.limit) }

    /// Collects the first `count` values; false as soon as there are more than `limit` different ones.
    mutating func collect(_ values: [UInt32], count: Int, limit: Int) -> Bool {
        colors.removeAll(keepingCapacity: true)
        generation &+= 1
        if generation >= 1 << 23 {
            generation = 1
            for index in entries.indices { entries[index] = 0 }
        }
        guard count > 0 else { return true }
        return unsafe values.withUnsafeBufferPointer { values in
            var last = unsafe ~values[0]
            for index in 0..<count {
                let value = unsafe values[index]
                if value == last { continue }
                last = value
                guard insert(value, limit: limit) else { return false }
            }
            return true
        }
    }

    private mutating func insert(_ value: UInt32, limit: Int) -> Bool {
        var slot = Self.slot(value)
        while entries[slot] >> 9 == generation {
            if keys[slot] == value { return true }
            slot = (slot + 1) & (Self.slots - 1)
        }
        guard colors.count < limit else { return false }
        keys[slot] = value
        entries[slot] = generation << 9 | UInt32(colors.count)
        colors.append(value)
        return true
    }

    /// The number of a value that was collected.
    func index(of value: UInt32) -> Int {
        var slot = Self.slot(value)
        while keys[slot] != value || entries[slot] >> 9 != generation { slot = (slot + 1) & (Self.slots - 1) }
        return Int(entries[slot] & 0x1FF)
    }

    private static func slot(_ value: UInt32) -> Int { Int((value &* 0x9E37_79B1) >> 22) }
}
