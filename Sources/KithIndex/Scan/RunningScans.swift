/// The scans that go on at this moment, and what each has to know of the others.
struct RunningScans {
    private var numbers: Set<Int64> = []
    private var lastListing: UInt64 = 0
    /// The listing that each folder was brought to last; noted while several scans go on.
    private var applied: [[UInt8]: UInt64] = [:]

    /// True as long as no other scan goes on than the one that asks.
    var isAlone: Bool { numbers.count <= 1 }

    mutating func begin(_ number: Int64) { numbers.insert(number) }

    mutating func end(_ number: Int64) {
        numbers.remove(number)
        if numbers.isEmpty { applied = [:] }
    }

    /// The number of a listing that is about to begin.
    mutating func nextListing() -> UInt64 {
        lastListing += 1
        return lastListing
    }

    /// Tells whether a listing is to be used: not when another scan has brought the folder to a later one.
    mutating func take(_ listing: FolderListing) -> Bool {
        if let last = applied[listing.path], last > listing.number { return false }
        if !isAlone { applied[listing.path] = listing.number }
        return true
    }
}
