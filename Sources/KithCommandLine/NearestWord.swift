extension Wording {
    /// The one of `words` that `typed` was most likely meant to be; `nil` when none is near enough.
    ///
    /// Near enough is one slip in a word of up to four letters, two in a longer one. Of two that are as near, the one with
    /// the most letters in common: letters change places, or are forgotten, more often than others are typed instead.
    package static func nearest(to typed: String, in words: some Sequence<String>) -> String? {
        let limit = typed.count <= 4 ? 1 : 2
        return words.map { (slips: slips(typed, $0), strange: strangeLetters(typed, $0), word: $0) }
            .filter { $0.slips <= limit }.min(by: <)?.word
    }

    /// The number of letters that only one of two words has, each as often as it has it more.
    private static func strangeLetters(_ left: String, _ right: String) -> Int {
        var counts: [Character: Int] = [:]
        for letter in left { counts[letter, default: 0] += 1 }
        for letter in right { counts[letter, default: 0] -= 1 }
        return counts.values.reduce(0) { $0 + abs($1) }
    }

    /// The number of slips between two words: a letter too many, too few, wrong, or changed with the next one.
    ///
    /// The optimal string alignment distance; costs the product of their lengths.
    package static func slips(_ left: String, _ right: String) -> Int {
        let (left, right) = (Array(left), Array(right))
        var (before, last) = ([Int](), Array(0...right.count))
        for row in left.indices {
            var current = [row + 1]
            for column in right.indices {
                let isSame = left[row] == right[column]
                var best = min(last[column + 1] + 1, current[column] + 1, last[column] + (isSame ? 0 : 1))
                if row > 0, column > 0, left[row] == right[column - 1], left[row - 1] == right[column] {
                    best = min(best, before[column - 1] + 1)
                }
                current.append(best)
            }
            (before, last) = (last, current)
        }
        return last[right.count]
    }
}
