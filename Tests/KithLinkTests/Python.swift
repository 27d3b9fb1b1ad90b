import Foundation

/// The peers of `Tests/Interop` that are written in Python.
enum Python {
    static let isAioquicInstalled = isInstalled("aioquic")
    static let isIrohInstalled = isInstalled("iroh")
    static let isZeroconfInstalled = isInstalled("zeroconf")
    /// Cross-traffic comes from a few lines of Python.
    static let isInstalled = Program.succeeds(["python3", "-c", "pass"])

    private static func isInstalled(_ module: String) -> Bool {
        let isThere = Program.succeeds(["python3", "-c", "import \(module)"])
        if !isThere { print("skipped: the Python package \(module) is not installed") }
        return isThere
    }

    /// The command that runs a script of `Tests/Interop`; its last argument is a JSON object of `options`.
    static func command(_ script: String, _ mode: String, _ options: [String: any Sendable]) throws -> [String] {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Interop")
        let json = String(decoding: try JSONSerialization.data(withJSONObject: options), as: UTF8.self)
        return ["python3", "-B", folder.appendingPathComponent(script).path, mode, json]
    }
}
