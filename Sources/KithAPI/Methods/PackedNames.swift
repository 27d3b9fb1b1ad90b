package import KithWire

extension Files {
    /// Paths and kinds in ``Found/names``, one after the other: a letter, the path, a zero byte.
    ///
    /// | letter | what it is |
    /// | --- | --- |
    /// | `f` | a regular file |
    /// | `d` | a folder |
    /// | `l` | a symbolic link |
    /// | `p`, `s`, `c`, `b` | a pipe, a socket, a device of characters, of blocks |
    package enum PackedNames {
        /// Appends one.
        package static func append(_ path: [UInt8], kind: UInt8, to packed: inout [UInt8]) {
            packed.append(kind)
            packed += path
            packed.append(0)
        }

        /// Returns the entries that `packed` stands for, with zeros for all other attributes.
        ///
        /// - Throws: `.invalid` for an unknown letter, or without the last zero.
        package static func entries(_ packed: ByteString) throws(KithError) -> [Entry] {
            let bytes = packed.bytes
            var entries: [Entry] = []
            var start = 0
            while start < bytes.count {
                guard let end = bytes[start...].firstIndex(of: 0), let (kind, special) = kind(bytes[start]) else {
                    throw KithError(.invalid, "The other device sent a list of names that makes no sense.")
                }
                entries.append(
                    Entry(
                        name: Path(bytes: Array(bytes[(start + 1)..<end])), kind: kind, size: 0, mode: 0, modified: 0,
                        modifiedNanoseconds: 0, special: special))
                start = end + 1
            }
            return entries
        }

        private static func kind(_ letter: UInt8) -> (Kind, Special?)? {
            switch letter {
            case UInt8(ascii: "f"): (.file, nil)
            case UInt8(ascii: "d"): (.folder, nil)
            case UInt8(ascii: "l"): (.link, nil)
            case UInt8(ascii: "p"): (.special, .pipe)
            case UInt8(ascii: "s"): (.special, .socket)
            case UInt8(ascii: "c"): (.special, .characterDevice)
            case UInt8(ascii: "b"): (.special, .blockDevice)
            default: nil
            }
        }

        /// The letter of a kind.
        package static func letter(_ kind: Kind, _ special: Special?) -> UInt8 {
            switch (kind, special) {
            case (.file, _): UInt8(ascii: "f")
            case (.folder, _): UInt8(ascii: "d")
            case (.link, _): UInt8(ascii: "l")
            case (.special, .socket): UInt8(ascii: "s")
            case (.special, .characterDevice): UInt8(ascii: "c")
            case (.special, .blockDevice): UInt8(ascii: "b")
            case (.special, _): UInt8(ascii: "p")
            }
        }
    }
}

extension Files.Found {
    /// The same with ``names`` among the ``entries``.
    package func unpacked() throws(KithError) -> Self {
        guard let names else { return self }
        var found = self
        found.names = nil
        found.entries += try Files.PackedNames.entries(names)
        return found
    }
}
