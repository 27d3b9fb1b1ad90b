import Foundation

/// Where the programs are that `kith` starts and that stand beside it.
package enum HelperProgram {
    /// The path of one, beside the program that runs or below its prefix; `nil` when it is in neither place.
    package static func path(of name: String) -> String? {
        // Not what the arguments say: whoever starts a program chooses those.
        guard let folder = Bundle.main.executableURL?.resolvingSymlinksInPath().deletingLastPathComponent() else {
            return nil
        }
        return [
            folder.appendingPathComponent(name),
            folder.deletingLastPathComponent().appendingPathComponent("libexec/\(name)"),
        ].map(\.path).first { FileManager.default.isExecutableFile(atPath: $0) }
    }
}
