import KithIdentity
import KithWire

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The file with the key of a relay, which only its owner may read: 64 digits and a line end.
enum RelayKeyFile {
    /// The key in a folder; made when there is none.
    ///
    /// - Throws: `KithError` `.denied` when others may read it, `.corrupt` for a damaged one.
    static func key(in folder: String) throws(KithError) -> DeviceKey {
        let path = "\(folder)/key"
        if var text = try SecretFile.read(path, limit: 256) {
            defer { text.clear() }
            var digits = text.prefix { $0 != UInt8(ascii: "\n") }
            guard let line = String(validating: digits, as: UTF8.self), var seed = Hex.decode(line), seed.count == 32
            else {
                throw KithError(
                    .corrupt,
                    "\(path) is damaged. Put it back from a copy; or remove it, and give every device the new URL.")
            }
            digits = []
            defer { seed.clear() }
            return try DeviceKey(seed: seed)
        }
        guard unsafe mkdir(folder, 0o700) == 0 || errno == EEXIST else {
            throw KithError(.denied, "The folder \(folder) for the relay's key cannot be made.")
        }
        try SecretFile.removeRemains(in: folder)
        let key = DeviceKey()
        var text = Array((Hex.encode(key.seed) + "\n").utf8)
        defer { text.clear() }
        try SecretFile.write(text, to: path)
        return key
    }
}
