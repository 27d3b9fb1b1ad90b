/// The scans that go on at this moment, and what each has to know of the others.
struct RunningScans {
    private var numbers: Set<Int64> = []
    /// Those of them that have not listed everything yet.
    private var listing: Set<Int64> = []
    private var lastListing: UInt64 = 0
    /// The listing that each folder was brought to last; noted while several scans go on.
    private var applied: [[UInt8]: UInt64] = [:]

    /// True as long as no other scan goes on than the one that asks.
    var isAlone: Bool { numbers.count <= 1 }

    /// True when no scan may find any more what another one misses: then what has gone may be removed.
    ///
    /// Of several that have listed everything at the same moment each may see to it: it is the same to be done.
    var hasListedAll: Bool { listing.isEmpty }

    mutating func begin(_ number: Int64) {
        numbers.insert(number)
        listing.insert(number)
    }

    /// Notes that a scan has listed everything.
    mutating func endListing(_ number: Int64) { listing.remove(number) }

    mutating func end(_ number: Int64) {
        numbers.remove(number)
        listing.remove(number)
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
