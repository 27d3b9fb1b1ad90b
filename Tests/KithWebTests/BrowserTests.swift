import CKithPage
import Foundation
import Kith
import KithAPI
import KithIdentity
import KithTesting
import KithWire
import Testing

@testable import KithWeb

private let tour = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("Browser/tour.py")

private var canLookAround: Bool {
    guard FileManager.default.fileExists(atPath: tour.path), kith_page_count() > 1 else {
        print("skipped: there is no page to look at")
        return false
    }
    return PythonPeer.isInstalled("playwright")
}

/// The page in a real browser: `Browser/tour.py`, which Playwright drives.
@Suite(.timeLimit(.minutes(5)), .enabled(if: canLookAround)) struct WebBrowserTests {
    @Test func `a person looks around on the page, and finds what there is`() async throws {
        try await ServedPage.run { served in
            let link = try await served.device.client.call(Web.Link.self, .init())
            // Not in the device's own folder, which nothing may change.
            let folder = try TemporaryFolder()
            let (text, status) = try await onThread {
                let process = try ChildProcess(
                    "/usr/bin/env", ["python3", "-B", tour.path, link.url, "--folder", folder.path],
                    output: .connected, errors: .inherited)
                let output = try process.output?.readToEnd() ?? Data()
                return (String(decoding: output, as: UTF8.self), process.waitUntilExit())
            }
            for line in text.split(separator: "\n") where line.contains(#""ok": false"#) { Issue.record("\(line)") }
            #expect(status == 0 && !text.isEmpty)
        }
    }
}
