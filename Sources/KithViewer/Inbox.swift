#if Viewer && os(Linux) && canImport(CSDL2)
import CSDL2
import Foundation
import KithWindow
import Synchronization

/// The messages of `kith`, which a thread of its own reads; SDL's events say that there are some.
final class Inbox: Sendable {
    /// A message, and the descriptor that came with it.
    struct Arrival {
        var command: WindowCommand
        var descriptor: Int32?
    }

    /// The number of the event that says that something has come.
    let event: UInt32
    private let arrivals = Mutex<[Arrival]>([])
    private let ended = Mutex(false)
    /// At most so many wait.
    private let room = DispatchSemaphore(value: 64)

    /// Begins to read; SDL is ready for events.
    init() {
        event = SDL_RegisterEvents(1)
        let thread = Thread { [self] in
            read()
            ended.withLock { $0 = true }
            wake()
        }
        thread.name = "kith-viewer inbox"
        thread.start()
    }

    /// True when no more comes: `kith` has left.
    var isEnded: Bool { ended.withLock { $0 } && arrivals.withLock { $0.isEmpty } }

    /// The next message; `nil` when none waits.
    func next() -> Arrival? {
        let arrival = arrivals.withLock { $0.isEmpty ? nil : $0.removeFirst() }
        if arrival != nil { room.signal() }
        return arrival
    }

    private func read() {
        // What makes no sense ends it, as the end of kith does.
        while let (command, descriptor) = try? WindowSocket.receive(WindowCommand.self, from: 0) {
            room.wait()
            arrivals.withLock { $0.append(Arrival(command: command, descriptor: descriptor)) }
            wake()
        }
    }

    private func wake() {
        var message = unsafe SDL_Event()
        unsafe message.type = event
        _ = unsafe SDL_PushEvent(&message)
    }
}
#endif
