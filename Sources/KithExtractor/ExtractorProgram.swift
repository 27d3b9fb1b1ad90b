import Foundation

/// Where `kith-extract` is, the program that reads files for a library.
package enum ExtractorProgram {
    /// Beside the program that runs, or below its prefix; `nil` when it is in neither place.
    package static var path: String? {
        // Not what the arguments say: whoever starts a program chooses those.
        guard let folder = Bundle.main.executableURL?.resolvingSymlinksInPath().deletingLastPathComponent() else {
            return nil
        }
        return [
            folder.appendingPathComponent("kith-extract"),
            folder.deletingLastPathComponent().appendingPathComponent("libexec/kith-extract"),
        ].map(\.path).first { FileManager.default.isExecutableFile(atPath: $0) }
    }
}
