import CKithPage
import Foundation
import Kith
import KithAPI
import KithIdentity
import KithTesting
import KithWire
import Testing

@testable import KithWeb

/// The page in a real browser: `Browser/tour.py`, which Playwright drives.
@Suite(.timeLimit(.minutes(5)), .enabled(if: WebBrowserTests.isPossible)) struct WebBrowserTests {
    private static let tour = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("Browser/tour.py")

    static var isPossible: Bool {
        guard FileManager.default.fileExists(atPath: tour.path), kith_page_count() > 1 else {
            print("skipped: there is no page to look at")
            return false
        }
        return PythonPeer.isInstalled("playwright")
    }

    @Test func `a person looks around on the page, and finds what there is`() async throws {
        try await ServedPage.run { served in
            let link = try await served.device.client.call(Web.Link.self, .init())
            let folder = served.folder.path + "/tour"
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            let process = try ChildProcess(
                "/usr/bin/env", ["python3", "-B", Self.tour.path, link.url, "--folder", folder], output: .connected,
                errors: .inherited)
            let output = try #require(process.output)
            let lines = String(decoding: try output.readToEnd() ?? Data(), as: UTF8.self).split(separator: "\n")
            for line in lines where line.contains(#""ok": false"#) { Issue.record("\(line)") }
            #expect(process.waitUntilExit() == 0 && !lines.isEmpty)
        }
    }
}
