/// Shares a limited capacity among its users: those with the most give up theirs first.
public enum FairShare {
    /// The amount each user of `amounts` gives up, so that together they use no more than `limit`.
    ///
    /// A user with no more than an equal share gives up nothing.
    public static func cut(_ amounts: [Int], to limit: Int) -> [Int] {
        var left = max(0, limit)
        var users = amounts.count
        var kept = [Int](repeating: 0, count: amounts.count)
        // The small ones first: what they leave of their shares is shared by the others.
        for index in amounts.indices.sorted(by: { amounts[$0] < amounts[$1] }) {
            // Rounded up for the last ones, so that nothing is given up in vain.
            kept[index] = min(max(0, amounts[index]), (left + users - 1) / users)
            left -= kept[index]
            users -= 1
        }
        return zip(amounts, kept).map { max(0, $0 - $1) }
    }
}
