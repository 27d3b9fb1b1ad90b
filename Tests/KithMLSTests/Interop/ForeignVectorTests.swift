import Foundation
import KithMLS
import KithMLSVectors
import Testing

/// Vectors of this engine's making, verified by implementations that are not ours.
@Suite struct ForeignVectorTests {
    /// Kinds that the Python package rfc9420 can verify in its parts (`Tests/Interop/mls_vectors.py`).
    private static let pythonKinds: [VectorKind] = [
        .treeMath, .cryptoBasics, .secretTree, .keySchedule, .pskSecret, .treeValidation, .passiveClientWelcome,
    ]

    @Test(.enabled(if: hasPythonPeer()), arguments: pythonKinds)
    func `rfc9420 in Python verifies what is generated`(kind: VectorKind) throws {
        let script = URL(filePath: #filePath).appending(path: "../../../Interop/mls_vectors.py").standardized
        try Self.verify(kind, with: ["python3", "-B", script.path])
    }

    /// `KITH_MLS_PEER` is a program that is called with a kind and a file and ends with status 0 when every case
    /// verifies: a few lines over the verifiers of mlspp, for one. (That of 2025-11 looks for the wrong key when it is an
    /// unmerged leaf below a node of a joiner's copath, so about one history in sixty fails there.)
    @Test(.enabled(if: peer != nil), arguments: VectorKind.allCases)
    func `the program in KITH_MLS_PEER verifies what is generated`(kind: VectorKind) throws {
        let program = try #require(Self.peer)
        // Lengths of vectors are no kind of its own in most implementations.
        guard kind != .deserialization else { return }
        try Self.verify(kind, with: [program])
    }

    private static let peer: String? = {
        let program = ProcessInfo.processInfo.environment["KITH_MLS_PEER"]
        if program == nil { print("skipped: KITH_MLS_PEER names no program that verifies MLS vectors") }
        return program
    }()

    private static func hasPythonPeer() -> Bool {
        let (status, _) = run(["python3", "-c", "import rfc9420"])
        if status != 0 { print("skipped: the Python package rfc9420 is not installed") }
        return status == 0
    }

    private static func verify(_ kind: VectorKind, with program: [String]) throws {
        let seed = UInt64.random(in: 0...UInt64(UInt32.max))
        let file = FileManager.default.temporaryDirectory.appending(path: "kith-\(UUID().uuidString)-\(kind.fileName)")
        defer { try? FileManager.default.removeItem(at: file) }  // left behind it harms nobody
        try Data(Vectors.generate(kind, count: kind == .treeMath ? 8 : kind == .secretTree ? 2 : 1, seed: seed)).write(
            to: file)
        let (status, output) = run(program + [kind.rawValue, file.path])
        #expect(status == 0, "seed \(seed): \(output)")
    }

    /// Runs a program to its end.
    private static func run(_ command: [String]) -> (status: Int32, output: String) {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = command
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        do { try process.run() } catch { return (-1, "\(error)") }
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return (process.terminationStatus, text)
    }
}
