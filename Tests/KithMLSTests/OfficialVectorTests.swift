import Foundation
import KithMLS
import KithMLSVectors
import Testing

/// The official vectors, from `$KITH_VECTORS` or `../shared/vectors` beside the package.
@Suite struct OfficialVectorTests {
    @Test(arguments: VectorKind.allCases)
    func `every case of a file whose suite the engine has passes`(kind: VectorKind) throws {
        guard let folder = Self.folder() else { return }
        let content = try Data(contentsOf: folder.appending(path: kind.fileName))
        let start = ContinuousClock.now
        let report = try Vectors.verify(kind, json: [UInt8](content))
        print("\(report.description) (\(ContinuousClock.now - start))")
        #expect(report.failures.isEmpty, "\(report.failures.prefix(5).joined(separator: "\n"))")
        #expect(!report.passed.isEmpty)
    }

    /// The folder with the files; nil, which is said, where it is missing.
    static func folder() -> URL? {
        let root =
            ProcessInfo.processInfo.environment["KITH_VECTORS"]
            ?? URL(filePath: #filePath).appending(path: "../../../../shared/vectors").standardized.path
        let folder = URL(filePath: root).appending(path: "mls")
        guard FileManager.default.fileExists(atPath: folder.path) else {
            print("skipped: there is no \(folder.path); set KITH_VECTORS to the folder that holds mls/")
            return nil
        }
        return folder
    }
}
