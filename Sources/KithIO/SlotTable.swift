/// Values by numbers that the table gives them; the number of a value that has gone is not another's, until its place has
/// been used four billion times.
///
/// Finding one compares two numbers, where a dictionary hashes. A number is never 0.
struct SlotTable<Value: Sendable>: Sendable {
    private struct Slot: Sendable {
        /// Counts the values that the slot has had.
        var generation: UInt32 = 0
        var value: Value?
    }

    private var slots: [Slot] = []
    private var free: [Int] = []

    /// The number of values.
    var count: Int { slots.count - free.count }

    /// The numbers of all values, in no particular order.
    var numbers: [UInt64] {
        slots.indices.filter { slots[$0].value != nil }.map { number(at: $0) }
    }

    /// Adds a value; returns its number.
    mutating func insert(_ value: Value) -> UInt64 {
        let index = free.popLast() ?? slots.count
        if index == slots.count { slots.append(Slot()) }
        slots[index].generation &+= 1
        // One that has been used four billion times: 0 marks none.
        if slots[index].generation == 0 { slots[index].generation = 1 }
        slots[index].value = value
        return number(at: index)
    }

    /// Takes a value out; `nil` when it has gone.
    mutating func remove(_ number: UInt64) -> Value? {
        guard let index = index(of: number) else { return nil }
        free.append(index)
        return slots[index].value.take()
    }

    /// Changes a value where it lies; returns what `change` does, or `nil` when the value has gone.
    @discardableResult
    mutating func update<Result>(_ number: UInt64, _ change: (inout Value) -> Result) -> Result? {
        guard let index = index(of: number), var value = slots[index].value.take() else { return nil }
        defer { slots[index].value = value }
        return change(&value)
    }

    private func number(at index: Int) -> UInt64 { UInt64(slots[index].generation) << 32 | UInt64(index) }

    private func index(of number: UInt64) -> Int? {
        let index = Int(number & 0xFFFF_FFFF)
        guard index < slots.count, slots[index].generation == UInt32(number >> 32), slots[index].value != nil else {
            return nil
        }
        return index
    }
}
