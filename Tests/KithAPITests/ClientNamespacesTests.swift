import Foundation
import KithTesting
import Testing

@testable import KithAPI

@Suite struct `The namespaces of a client` {
    private static let file = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "../../Sources/KithAPI/Generated/Client+Namespaces.swift").standardizedFileURL

    /// Renew it with `KITH_RENEW_GOLDEN=1 swift test --filter KithAPITests`, then build again.
    @Test func `are those of the table`() throws {
        let source = ClientNamespaces.source(for: API.methods)
        if ProcessInfo.processInfo.environment["KITH_RENEW_GOLDEN"] == "1" {
            try Data(source.utf8).write(to: Self.file)
        }
        #expect(try String(contentsOf: Self.file, encoding: .utf8) == source)
    }

    @Test func `have a function for each method, and only for ours`() throws {
        let source = ClientNamespaces.source(for: API.methods)
        for method in API.methods { #expect(source.contains("`\(method.name)`. Callers:"), "\(method.name)") }
        let other = AnyMethod(
            MethodHeader.query("weather.now", by: .paired, "Tells."), input: Nothing.self, output: Nothing.self
        ) { _ in .paired }
        #expect(!ClientNamespaces.source(for: [other]).contains("weather"))
    }

    @Test(arguments: [
        ("remote.all_devices", "remoteAllDevices"), ("import", "import"), ("2fa", "_2fa"), ("", "value"),
        ("--", "value"),
    ])
    func `are named with words of the language`(text: String, name: String) {
        #expect(SwiftWord.camel(text) == name)
        #expect(SwiftWord.escaped("import") == "`import`" && SwiftWord.escaped("find") == "find")
    }
}
