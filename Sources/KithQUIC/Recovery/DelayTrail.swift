/// The round trips of the newest acknowledgements, by packet number: what a packet met that was lost between two of them.
struct DelayTrail: Hashable, Sendable {
    private static let capacity = 32

    private var numbers: [UInt64] = []
    private var delays: [Int64] = []
    private var place = 0

    /// Notes the round trip of the largest number an ACK frame acknowledged.
    @inline(__always)
    mutating func append(_ number: UInt64, _ delay: Int64) {
        if numbers.count < Self.capacity {
            numbers.append(number)
            delays.append(delay)
        } else {
            numbers[place] = number
            delays[place] = delay
            place = (place + 1) % Self.capacity
        }
    }

    /// Returns the round trip of the newest packet before that number; 0 when none is known.
    func delay(before number: UInt64) -> Int64 {
        var best: (number: UInt64, delay: Int64)?
        for index in numbers.indices where numbers[index] < number {
            if best.map({ numbers[index] >= $0.number }) ?? true { best = (numbers[index], delays[index]) }
        }
        return best?.delay ?? 0
    }
}
