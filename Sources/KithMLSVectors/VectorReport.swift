import KithMLS

/// The result of one file of vectors.
public struct VectorReport: Sendable {
    /// The kind of vectors in the file.
    public let kind: VectorKind
    /// The number of cases that passed, by suite number; zero for kinds that have no suite.
    public internal(set) var passed: [UInt16: Int] = [:]
    /// The number of cases left out because the engine lacks their suite.
    public internal(set) var skipped: [UInt16: Int] = [:]
    /// One line for each case that failed.
    public internal(set) var failures: [String] = []

    /// The file's result in one line.
    public var description: String {
        let cases = passed.sorted { $0.key < $1.key }.map {
            $0.key == 0 ? "\($0.value) passed" : "suite \($0.key): \($0.value)"
        }
        let left = skipped.sorted { $0.key < $1.key }.map { "\($0.value) of suite \($0.key)" }
        var line = "\(kind.fileName): " + (cases.isEmpty ? "none passed" : cases.joined(separator: ", "))
        if !left.isEmpty { line += "; skipped, no such suite in this engine: " + left.joined(separator: ", ") }
        if !failures.isEmpty { line += "; FAILED: \(failures.count)" }
        return line
    }
}

/// The reason a vector did not pass.
struct VectorFailure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// Says which part of a vector came out wrong.
func check(_ condition: Bool, _ part: @autoclosure () -> String) throws(VectorFailure) {
    guard condition else { throw VectorFailure("\(part()) differs") }
}
