import CKithSystem
import KithIO
import KithWire

/// Extended attributes and access lists of open files.
///
/// Only those an owner of the file may set for themselves travel: `user.*` and the POSIX access lists. The others
/// (capabilities, labels of the system) would let a sender hand out rights at the receiver.
enum ExtendedAttributes {
    private static let lists = ["system.posix_acl_access", "system.posix_acl_default"].map { Array($0.utf8) }
    private static let user = Array("user.".utf8)

    /// About how many bytes they take in memory.
    static func cost(of attributes: [TransferFrame.ExtendedAttribute]) -> Int {
        // Two arrays each, with their heads.
        attributes.reduce(0) { $0 + $1.name.count + $1.value.count + 96 }
    }

    static func mayTravel(_ name: [UInt8]) -> Bool { name.starts(with: user) || lists.contains(name) }

    /// Those of an open file, by name; none where the file system has none.
    static func read(_ file: Descriptor) throws(Errno) -> [TransferFrame.ExtendedAttribute] {
        var attributes: [TransferFrame.ExtendedAttribute] = []
        var total = 0
        for name in try names(file) where mayTravel(name) {
            guard let value = try value(name, file) else { continue }
            total += name.count + value.count + 8
            guard total <= TransferFrame.maximumExtended else { throw .tooMany }
            attributes.append(TransferFrame.ExtendedAttribute(name: name, value: value))
        }
        return attributes.sorted { $0.name.lexicographicallyPrecedes($1.name) }
    }

    /// Gives an open file these and, of those that travel, no others.
    static func write(_ attributes: [TransferFrame.ExtendedAttribute], to file: Descriptor) throws(Errno) {
        for attribute in attributes where mayTravel(attribute.name) {
            if try value(attribute.name, file) == attribute.value { continue }
            let result = unsafe withCString(attribute.name) { name in
                unsafe attribute.value.withUnsafeBytes { value in
                    // An empty value has no address, and is not the same as none.
                    var nothing: UInt8 = 0
                    guard let base = value.baseAddress else {
                        return unsafe kith_file_set_attribute(file.number, name, &nothing, 0)
                    }
                    return unsafe kith_file_set_attribute(file.number, name, base, value.count)
                }
            }
            _ = try Errno.check(result)
        }
        for name in try names(file) where mayTravel(name) && !attributes.contains(where: { $0.name == name }) {
            _ = try Errno.check(
                unsafe withCString(name) { unsafe kith_file_set_attribute(file.number, $0, nil, 0) })
        }
    }

    private static func names(_ file: Descriptor) throws(Errno) -> [[UInt8]] {
        var result = 0
        let bytes = unsafe [CChar](unsafeUninitializedCapacity: 64 << 10) { buffer, count in
            result = unsafe kith_file_list_attributes(file.number, buffer.baseAddress, buffer.count)
            count = max(result, 0)
        }
        if result < 0 {
            let error = Errno(Int32(truncatingIfNeeded: -result))
            if error == .notSupported { return [] }
            throw error
        }
        return bytes.split(separator: 0).map { $0.map { UInt8(bitPattern: $0) } }
    }

    private static func value(_ name: [UInt8], _ file: Descriptor) throws(Errno) -> [UInt8]? {
        var result = 0
        let value = unsafe withCString(name) { name in
            unsafe [UInt8](unsafeUninitializedCapacity: 64 << 10) { buffer, count in
                result = unsafe kith_file_attribute(file.number, name, buffer.baseAddress, buffer.count)
                count = max(result, 0)
            }
        }
        if result < 0 {
            let error = Errno(Int32(truncatingIfNeeded: -result))
            // It was removed since it was listed, or is not there yet.
            if error == .noAttribute || error == .notSupported { return nil }
            throw error
        }
        return Array(value[...])
    }
}
