/// The shortest time of `body` in milliseconds over `count` runs, after one that does not count.
///
/// The shortest, because on a machine that does other things as well the rest measures those.
func milliseconds(_ count: Int = 25, _ body: () -> Void) -> Double {
    body()
    var times: [Double] = []
    for _ in 0..<count {
        let start = ContinuousClock.now
        body()
        times.append((ContinuousClock.now - start) / .milliseconds(1))
    }
    return times.min() ?? 0
}

/// A number with so many digits behind the point.
func fixed(_ value: Double, _ digits: Int = 2) -> String {
    var scale = 1.0
    for _ in 0..<digits { scale *= 10 }
    let whole = Int((value * scale).rounded())
    let text = String(whole)
    let padded = String(repeating: "0", count: max(0, digits + 1 - text.count)) + text
    return digits == 0 ? padded : padded.dropLast(digits) + "." + padded.suffix(digits)
}

/// Prints a row: the name, the time, and what it is compared with.
func row(_ name: String, _ time: Double, _ remark: String = "") {
    let dots = String(repeating: ".", count: max(3, 46 - name.count))
    print("\(name) \(dots) \(fixed(time, 3)) ms  \(remark)")
}
