import ArgumentParser
import Foundation
import KithWire

/// Runs `body` for each path and goes on after one that fails, as the coreutils do.
///
/// - Throws: the error when there is one path alone, else the exit status of the first that failed.
func forEach(
    _ paths: [RemotePath], _ globals: GlobalOptions, _ body: (RemotePath) async throws -> Void
) async throws {
    var status: Int32?
    for path in paths {
        do {
            try await body(path)
        } catch let error as KithError where paths.count > 1 && error.code != .closed {
            report(await suggestingColon(error, globals), json: globals.json)
            if status == nil { status = error.code.exitStatus }
        }
    }
    if let status { throw ExitCode(status) }
}

/// `==> name <==` above each file, when there are several.
struct FileHeadings {
    let isShown: Bool
    private var current: RemotePath?

    init(isShown: Bool) { self.isShown = isShown }

    /// The heading before bytes of `path`; empty when its heading is the last one printed.
    mutating func heading(for path: RemotePath) -> String {
        guard isShown, current != path else { return "" }
        defer { current = path }
        return (current == nil ? "" : "\n") + "==> \(printable(path.description)) <==\n"
    }
}
