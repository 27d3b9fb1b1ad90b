import Crypto
import KithIdentity
import KithWire

/// The keys that rows of groups are sealed with.
///
/// Rows without secrets (the members' public keys, the bulk of a group) are sealed with a key that stays. Rows with secrets
/// are sealed with the newest of a row of keys: when enough secrets were deleted, a new key is made, the rows that are
/// left are sealed anew a few at a time, and when none is left the old key is forgotten. From then on nothing that was
/// deleted before can be opened, whatever a disk, a write-ahead log or a backup still holds of it.
///
/// Beside them stands the number of changes that the database has seen: one that has seen fewer is an old copy.
///
/// ```
///  byte     what, in the key store's secret "groups"
///  0        3, the form; 2 while the database has no tag over its own number, 1 without the number of changes
///  1…32     the key that stays
///  33…40    the number of changes
///  41       how many keys follow: 1 or 2
///  then     a generation (8 bytes) and its key (32 bytes), oldest first
/// ```
struct GroupKeys {
    static let secretName = "groups"

    /// For rows without secrets, which say generation 0.
    let lasting: SymmetricKey
    /// The number of changes that were written to the database, or one less while the last is being told.
    var changes: Int64 = 0
    /// True once the database has a tag over its number of changes, without which it is not believed.
    var tagsChanges = true
    /// For rows with secrets, by generation, which count from 1.
    private(set) var generations: [(number: Int64, key: SymmetricKey)]

    var oldest: Int64 { generations.first?.number ?? 0 }
    var newest: Int64 { generations.last?.number ?? 0 }

    /// The first keys of a new database.
    init() {
        lasting = SymmetricKey(size: .bits256)
        generations = [(1, SymmetricKey(size: .bits256))]
    }

    /// Reads the keys; nil when there are none.
    init?(_ store: any KeyStore) throws(KithError) {
        guard var bytes = try store.secret(named: Self.secretName) else { return nil }
        defer { bytes.clear() }
        let count = bytes.first == 1 ? 33 : 41
        guard bytes.count > count, 1...3 ~= bytes[0], 1...2 ~= bytes[count],
            bytes.count == count + 1 + 40 * Int(bytes[count])
        else {
            throw KithError(.corrupt, "The keys of the groups are damaged, or of a later version of Kith.")
        }
        tagsChanges = bytes[0] > 2
        lasting = SymmetricKey(data: bytes[1..<33])
        if count > 33 { changes = bytes[33..<41].reduce(0) { $0 << 8 | Int64($1) } }
        generations = stride(from: count + 1, to: bytes.count, by: 40).map { start in
            let number = bytes[start..<start + 8].reduce(0) { $0 << 8 | Int64($1) }
            return (number, SymmetricKey(data: bytes[start + 8..<start + 40]))
        }
    }

    func write(to store: any KeyStore) throws(KithError) {
        var bytes: [UInt8] = [tagsChanges ? 3 : 2]
        bytes.reserveCapacity(42 + 40 * generations.count)
        unsafe lasting.withUnsafeBytes { unsafe bytes.append(contentsOf: $0) }
        for shift in stride(from: 56, through: 0, by: -8) {
            bytes.append(UInt8(truncatingIfNeeded: changes >> shift))
        }
        bytes.append(UInt8(generations.count))
        for (number, key) in generations {
            for shift in stride(from: 56, through: 0, by: -8) {
                bytes.append(UInt8(truncatingIfNeeded: number >> shift))
            }
            unsafe key.withUnsafeBytes { unsafe bytes.append(contentsOf: $0) }
        }
        defer { bytes.clear() }
        try store.store(bytes, named: Self.secretName)
    }

    func key(_ generation: Int64) -> SymmetricKey? {
        generation == 0 ? lasting : generations.first { $0.number == generation }?.key
    }

    /// Makes the next key, beside the newest.
    mutating func add() { generations.append((newest + 1, SymmetricKey(size: .bits256))) }

    /// Forgets all keys before a generation.
    mutating func forget(before generation: Int64) { generations.removeAll { $0.number < generation } }
}

/// The location of a row, which is authenticated with it: a row moved to another location does not open.
struct GroupRowLocation {
    let bytes: [UInt8]

    init(group: [UInt8], kind: UInt8, epoch: UInt64, number: UInt64) {
        var bytes: [UInt8] = [1, kind]
        for value in [epoch, number] {
            for shift in stride(from: 56, through: 0, by: -8) {
                bytes.append(UInt8(truncatingIfNeeded: value >> UInt64(shift)))
            }
        }
        self.bytes = bytes + group
    }

    init(item kind: UInt8, name: [UInt8]) { bytes = [2, kind] + name }
}
