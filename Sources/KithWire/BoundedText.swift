extension String {
    /// The most marks one letter may have.
    static let marksLimit = 256

    /// True while no letter has more marks than ``marksLimit``.
    ///
    /// Swift compares and hashes texts as people see them, whatever the order of the marks on a letter; it takes time
    /// with the square of their number for that: minutes, for a megabyte of them.
    package var hasFewMarks: Bool {
        // A mark takes two bytes at least.
        guard utf8.count > 2 * Self.marksLimit else { return true }
        var marks = 0
        for scalar in unicodeScalars {
            marks = Self.isMark(scalar) ? marks + 1 : 0
            if marks > Self.marksLimit { return false }
        }
        return true
    }

    /// Tells whether a scalar is sorted among the marks of its letter.
    private static func isMark(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case ..<0x300: false
        // These are none, and are taken apart into some.
        case 0xF73, 0xF75, 0xF81: true
        default: scalar.properties.canonicalCombiningClass != .notReordered
        }
    }
}

extension String {
    /// The longest beginning of a text of whole scalars within a number of bytes in UTF-8.
    ///
    /// A number of characters bounds nothing: a character may have any number of marks.
    package func prefix(bytes limit: Int) -> String {
        guard utf8.count > limit else { return self }
        var end = utf8.index(startIndex, offsetBy: limit)
        while end > startIndex, String.Index(end, within: unicodeScalars) == nil { end = utf8.index(before: end) }
        return String(self[..<end])
    }
}
