import KithAPI
import Testing

@testable import KithWindow

@Suite struct WindowDropTests {
    private let start = ContinuousClock.now

    private func window() -> ViewerWindow {
        var window = ViewerWindow.sample()
        window.received(.phase(.active), at: start)
        _ = window.drain()
        return window
    }

    private func texts(_ window: ViewerWindow) -> [String] {
        window.scene.items.compactMap { if case .text(let text, _, _, _) = $0 { text } else { nil } }
    }

    @Test func `what is put on the window at once is one copy, by the exact names`() {
        var window = window()
        window.dropped("/a b/é.txt")
        window.dropped(Files.Path(bytes: [47, 0xFF, 47]))
        window.dropped("/")
        #expect(window.drain().isEmpty)
        window.dropEnded(at: start)
        #expect(window.drain() == [.send(.dropped(["/a b/é.txt", Files.Path(bytes: [47, 0xFF]), "/"]))])
        window.dropped("/c")
        window.dropEnded(at: start)
        #expect(window.drain() == [.send(.dropped(["/c"]))])
    }

    @Test func `what is no file here, and too much at once, is refused in the window`() {
        var window = window()
        window.dropEnded(at: start)
        #expect(!window.drain().contains { if case .send = $0 { true } else { false } })
        #expect(texts(window) == ["Only files and folders of this computer can be put here."])
        for _ in 0..<5_000 { window.dropped("/x") }
        window.dropEnded(at: start)
        #expect(!window.drain().contains { if case .send = $0 { true } else { false } })
        #expect(texts(window).first?.hasPrefix("Nothing was copied") == true)
        for _ in 0..<1_000 { window.dropped("/x") }
        window.dropEnded(at: start)
        #expect(window.drain().contains(.send(.dropped([Files.Path](repeating: "/x", count: 1_000)))))
    }

    @Test func `a copy is seen as long as it runs, beside what a person should read`() {
        var window = window()
        window.received(.copying("Copying a  34 %"), at: start)
        window.received(.notice("Something else."), at: start)
        #expect(texts(window) == ["Copying a  34 %", "Something else."])
        window.timedOut(at: start + .seconds(60))
        #expect(texts(window) == ["Copying a  34 %"])
        window.received(.copying(nil), at: start + .seconds(61))
        #expect(texts(window).isEmpty)
        // The reason of a refusal is read to its end.
        let reason = "Not permitted: " + String(repeating: "many words ", count: 20) + "the end."
        window.received(.notice(reason), at: start + .seconds(61))
        #expect(texts(window).count == 3 && texts(window).contains { $0.hasSuffix("the end.") })
    }
}
