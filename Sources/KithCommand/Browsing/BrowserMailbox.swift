import Foundation
import KithAPI
import KithBrowser
import KithTerminal
import Synchronization

/// What waits to be handled by the browser; whoever has something puts it here, one loop takes it all at once.
final class BrowserMailbox: Sendable {
    enum Letter: Sendable {
        case terminal(BrowserTerminal.Happening)
        case event(Browser.Event)
        /// A time that was waited for has come.
        case time
    }

    private let letters = Mutex<[Letter]>([])
    private let bell: AsyncStream<Void>.Continuation
    /// Gives something whenever letters may have come.
    let rings: AsyncStream<Void>

    init() { (rings, bell) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1)) }

    func put(_ letter: Letter) {
        letters.withLock { $0.append(letter) }
        bell.yield()
    }

    func takeAll() -> [Letter] {
        letters.withLock { letters in
            defer { letters = [] }
            return letters
        }
    }
}
