extension Files {
    /// The kind of an entry, then who may do what with it, as the coreutils write them: `drwxr-sr-t` in ASCII.
    package static func modeText(_ kind: Kind, _ special: Special?, mode: UInt32) -> [UInt8] {
        let letter: Unicode.Scalar =
            switch (kind, special) {
            case (.file, _): "-"
            case (.folder, _): "d"
            case (.link, _): "l"
            case (.special, .pipe): "p"
            case (.special, .socket): "s"
            case (.special, .characterDevice): "c"
            case (.special, .blockDevice): "b"
            case (.special, nil): "?"
            }
        func right(_ bit: UInt32, _ set: Unicode.Scalar, else other: Unicode.Scalar = "-") -> UInt8 {
            UInt8(ascii: mode & bit != 0 ? set : other)
        }
        /// The right to run, and what is done with it as somebody else.
        func running(_ bit: UInt32, _ special: UInt32, _ both: Unicode.Scalar, _ alone: Unicode.Scalar) -> UInt8 {
            mode & special == 0 ? right(bit, "x") : right(bit, both, else: alone)
        }
        return [
            UInt8(ascii: letter),
            right(0o400, "r"), right(0o200, "w"), running(0o100, 0o4000, "s", "S"),
            right(0o040, "r"), right(0o020, "w"), running(0o010, 0o2000, "s", "S"),
            right(0o004, "r"), right(0o002, "w"), running(0o001, 0o1000, "t", "T"),
        ]
    }
}

extension Files.Entry {
    /// The kind and the permission bits as `ls -l` shows them, in ASCII.
    package var modeText: [UInt8] { Files.modeText(kind, special, mode: mode) }
}
