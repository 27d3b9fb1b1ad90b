import Foundation
import KithMLS
import KithMLSVectors
import Testing

/// The official vectors, from `$KITH_VECTORS` or `../shared/vectors` beside the package.
@Suite struct OfficialVectorTests {
    @Test(arguments: VectorKind.allCases)
    func `every case of a file whose suite the engine has passes`(kind: VectorKind) throws {
        let root =
            ProcessInfo.processInfo.environment["KITH_VECTORS"]
            ?? URL(filePath: #filePath).appending(path: "../../../../shared/vectors").standardized.path
        let file = URL(filePath: root).appending(path: "mls").appending(path: kind.fileName)
        guard let content = try? Data(contentsOf: file) else {  // missing, which is said
            print("skipped \(kind.fileName): there is no \(file.path); set KITH_VECTORS to the folder that holds mls/")
            return
        }
        let start = ContinuousClock.now
        let report = try Vectors.verify(kind, json: [UInt8](content))
        print("\(report.description) (\(ContinuousClock.now - start))")
        #expect(report.failures.isEmpty, "\(report.failures.prefix(5).joined(separator: "\n"))")
        #expect(!report.passed.isEmpty)
    }
}
