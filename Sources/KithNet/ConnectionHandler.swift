import KithQUIC
import KithWire
import NIOCore

/// Takes what comes on a connection where it is read, with no task and no queue in between.
///
/// For a connection of one purpose, which carries many datagrams, and small messages on one bidirectional stream that
/// the dialing end opens. The end of that stream, or another one, ends the connection.
///
/// All of it is called on the thread of the endpoint, must not wait, and may call what ``Connection`` offers it there:
/// ``Connection/sendOnStream(_:)`` and ``Connection/datagramsWait()``. Nothing else opens streams on the connection, or
/// sends datagrams.
package protocol ConnectionHandler: AnyObject, Sendable {
    /// Everything of a connection comes here from now on; a dialing end may send on the stream.
    func began(on connection: Connection)
    /// Takes a datagram of the other end.
    func received(_ datagram: consuming [UInt8])
    /// Takes the next bytes of the stream.
    func receivedOnStream(_ bytes: [UInt8])
    /// All datagrams that came together have been taken.
    func receivedAll()
    /// Returns the next datagram to send, of at most `limit` bytes; nil when none waits.
    func nextDatagram(limit: Int) -> [UInt8]?
    /// Both ends have proven themselves anew: what came before may have been a repetition by somebody who listened.
    func handshakeCompleted()
    /// Nothing has come from the other end for a probe time-out, or another one.
    func fellSilent()
    /// The connection is over; nothing is called any more.
    func closed(_ reason: CloseReason)
}

/// The state of a connection with a ``ConnectionHandler``.
struct Handling {
    /// The most bytes that wait to be sent on the stream.
    static let maxUnsent = 32 << 10
    /// The most bytes of the stream that are read at once.
    static let pieceLength = 4 << 10
    /// The bounds of the datagrams that the engine holds, out of the reach of whoever would drop them for their age.
    static let batch: ClosedRange<Int64> = 4...64

    let handler: any ConnectionHandler
    /// The stream; nil until it is open.
    var stream: StreamID?
    var unsent: [UInt8] = []
    /// Indicates whether datagrams came since ``ConnectionHandler/receivedAll()``.
    var hasReceived = false
    /// Indicates whether the connection is served soon.
    var isScheduled = false
}

extension Connection {
    /// Has `handler` take all that comes from now on; a dialing end opens the stream at once.
    ///
    /// From any thread; at once on the endpoint's, where a connection that is over is told so at once, too.
    package func handle(by handler: any ConnectionHandler) {
        let driver = self.driver
        if driver.loop.eventLoop.inEventLoop {
            driver.loop.withLock { driver.handle(by: handler) }
        } else {
            driver.loop.execute { driver.handle(by: handler) }
        }
    }

    /// Sends bytes on the stream; false when so much waits already that nothing is sent.
    ///
    /// On the endpoint's thread.
    package func sendOnStream(_ bytes: [UInt8]) -> Bool {
        var isTaken = false
        driver.loop.withLock { isTaken = driver.sendHandled(bytes) }
        return isTaken
    }

    /// Has the handler asked for datagrams once what is being done now is done; on the endpoint's thread.
    package func datagramsWait() { driver.loop.withLock { driver.serveSoon() } }

    /// As ``datagramsWait()``, from any thread.
    package func wake() {
        let driver = self.driver
        driver.loop.execute { driver.serveSoon() }
    }
}

extension Endpoint {
    /// Looks at the local network, and lets every connection look for its way: the network has changed, or the machine
    /// slept.
    package func networkChanged() {
        let driver = self.driver
        driver.loop.execute { driver.examineNetwork(isNews: true) }
    }
}

// With the lock, on the thread.
extension ConnectionDriver {
    func handle(by handler: any ConnectionHandler) {
        guard let connection, !isClosed else {
            return handler.closed(CloseReason(origin: .local, code: .closed, message: "The connection is over."))
        }
        handling = Handling(handler: handler)
        handler.began(on: connection)
        if connection.isHandshakeComplete { handler.handshakeCompleted() }
        openHandled()
        serveSoon()
    }

    /// Serves the connection once what is being done now is done.
    func serveSoon() {
        if endpoint.isServing { return endpoint.touch(self) }
        guard handling?.isScheduled == false else { return }
        handling?.isScheduled = true
        loop.execute {
            self.handling?.isScheduled = false
            self.service()
        }
    }

    /// Gives the engine what the network takes in ten milliseconds: all else waits where it can be dropped for its age.
    func fillDatagrams() {
        guard let handler = handling?.handler, engine.isConnected, let limit = engine.maxDatagramSize else { return }
        let most = engine.pacingRate / 100 / Int64(max(limit, 1))
        let bound = Int(min(max(most, Handling.batch.lowerBound), Handling.batch.upperBound))
        while engine.queuedDatagrams < bound, let datagram = handler.nextDatagram(limit: limit) {
            // One the engine does not take is lost, as on any network.
            _ = engine.sendDatagram(datagram)
        }
    }

    func handle(_ datagram: consuming [UInt8]) {
        guard let handler = handling?.handler else { return }
        handling?.hasReceived = true
        handler.received(datagram)
    }

    func receivedAll() {
        guard handling?.hasReceived == true else { return }
        handling?.hasReceived = false
        handling?.handler.receivedAll()
    }

    // MARK: - The stream

    /// Opens the stream, when the other end lets this one.
    func openHandled() {
        guard isDialed, handling != nil, handling?.stream == nil, let stream = engine.openStream(.bidirectional) else {
            return
        }
        handling?.stream = stream
        flushHandled()
    }

    /// The other end has opened a stream.
    func openedHandled(_ id: StreamID) {
        guard !isDialed, handling?.stream == nil, id.direction == .bidirectional else {
            return close(code: .invalid, reason: "one stream is all that is wanted here")
        }
        handling?.stream = id
        flushHandled()
        readHandled(id)
    }

    func readHandled(_ id: StreamID) {
        guard let handler = handling?.handler, handling?.stream == id else {
            pathFinder?.readable(id)
            return
        }
        let scratch = unsafe UnsafeMutableRawBufferPointer(rebasing: endpoint.readBuffer[..<Handling.pieceLength])
        // What it does with a piece may end the connection.
        while handling != nil, let result = unsafe try? engine.read(id, into: scratch) {
            if result.count > 0 {
                handler.receivedOnStream(unsafe [UInt8](UnsafeRawBufferPointer(rebasing: scratch[..<result.count])))
            }
            if result.isFinished { handledStreamEnded(id) }
            if result.isFinished || result.count == 0 { return }
        }
    }

    func writeHandled(_ id: StreamID) {
        if handling?.stream == id { flushHandled() } else { pathFinder?.writable(id) }
    }

    func sendHandled(_ bytes: [UInt8]) -> Bool {
        guard let handling, !isClosed, handling.unsent.count + bytes.count <= Handling.maxUnsent else { return false }
        self.handling?.unsent += bytes
        flushHandled()
        serveSoon()
        return true
    }

    private func flushHandled() {
        guard let stream = handling?.stream, let unsent = handling?.unsent, !unsent.isEmpty else { return }
        do throws(StreamError) {
            let taken = try write(unsent, from: 0, to: stream)
            handling?.unsent.removeFirst(taken)
        } catch {
            handledStreamEnded(stream)
        }
    }

    /// The stream is over in one direction, which nothing here expects.
    func handledStreamEnded(_ id: StreamID) {
        guard handling?.stream == id else { return }
        close(code: .closed, reason: "its stream has ended")
    }
}
