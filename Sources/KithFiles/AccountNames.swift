import CKithSystem
import KithAPI

/// The names of this machine's users and groups; each is looked up once.
final class AccountNames {
    private var users: [UInt32: String?] = [:]
    private var groups: [UInt32: String?] = [:]

    /// Adds to a description whose the file is, and how many names it has.
    func describe(_ entry: inout Files.Entry, _ info: Descriptor.Info) {
        entry.links = info.links
        entry.userName = unsafe Self.name(info.user, in: &users, kith_user_name)
        entry.groupName = unsafe Self.name(info.group, in: &groups, kith_group_name)
    }

    private static func name(
        _ number: UInt32, in known: inout [UInt32: String?],
        _ look: (UInt32, UnsafeMutablePointer<UInt8>?, Int) -> Int32
    ) -> String? {
        if let name = known[number] { return name }
        let bytes = unsafe [UInt8](unsafeUninitializedCapacity: 256) { buffer, count in
            count = max(Int(unsafe look(number, buffer.baseAddress, buffer.count)), 0)
        }
        // An account without a name, or with one that cannot be told, is its number.
        let name = bytes.isEmpty ? nil : String(validating: bytes, as: UTF8.self)
        known[number] = name
        return name
    }
}
