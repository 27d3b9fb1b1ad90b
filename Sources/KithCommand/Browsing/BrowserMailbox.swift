import Foundation
import KithAPI
import KithBrowser
import KithTerminal
import Synchronization

/// The mailbox of the browser: any task puts messages here, one loop takes them all at once.
final class BrowserMailbox: Sendable {
    enum Message: Sendable {
        case terminal(BrowserTerminal.Event)
        case event(Browser.Event)
        /// A time that was waited for has come.
        case time
    }

    private let messages = Mutex<[Message]>([])
    private let signal: AsyncStream<Void>.Continuation
    /// Gives something whenever messages may have come.
    let signals: AsyncStream<Void>

    init() { (signals, signal) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1)) }

    func put(_ message: Message) {
        messages.withLock { $0.append(message) }
        signal.yield()
    }

    func takeAll() -> [Message] {
        messages.withLock { messages in
            defer { messages = [] }
            return messages
        }
    }
}
