import Kith
import KithIdentity
import KithAPI
import KithTesting
import Testing

@testable import KithWeb

/// Another WebSocket, another Ed25519, and curl.
@Suite(.timeLimit(.minutes(2)), .enabled(if: PythonPeer.isInstalled("websockets, cryptography")))
struct WebInteropTests {
    private struct Result: Decodable {
        var name: String
        var id: String
        var size: Int
        var same: Bool
    }

    @Test func `a page in Python signs in, calls, sends a file and has it back`() async throws {
        try await ServedPage.run { served in
            let link = try await served.device.client.call(Web.Link.self, .init())
            let id = served.device.id.description
            try await PythonPeer.run("web_page.py", [link.url, served.folder.path]) { peer in
                let result = try await peer.next(Result.self)
                #expect(result.name == "nas" && result.id == id)
                #expect(result.size == 10_240_000 && result.same)
            }
        }
    }
}
