import KithIO
import KithQUIC
public import KithWire
import NIOCore
import Synchronization

// QUIC DATAGRAM frames (RFC 9221): each arrives whole or not at all, in any order.
extension Connection {
    /// Sends a datagram, which may be lost; it waits for the congestion window, and for nothing else.
    ///
    /// Beyond 256 that wait, further ones are dropped.
    ///
    /// - Throws: `KithError` `.unsupported` when the other end takes none, `.invalid` for one larger than
    ///   ``maxDatagramSize``, `.closed` when the connection is over.
    public func sendDatagram(_ bytes: [UInt8]) throws(KithError) {
        guard isOpen else { throw KithError(.closed, "The connection is over: no datagram can be sent.") }
        try driver.sendDatagram(bytes)
    }

    /// The datagrams from the other end, as they come.
    ///
    /// One consumer. The newest 256 wait for it, older ones are dropped. Ends with the connection.
    public var datagrams: AsyncStream<[UInt8]> { incomingDatagrams.stream }

    /// The most bytes of one datagram now; nil when the other end takes none.
    ///
    /// It grows as more of the path is known, and shrinks when the connection moves to another one.
    public var maxDatagramSize: Int? {
        get async {
            let answer = Promise<Int?>()
            let driver = self.driver
            driver.loop.execute { answer.fulfil(driver.updateDatagramLimit()) }
            return await answer.value()
        }
    }
}

/// The datagrams on their way from any thread to the engine.
struct OutgoingDatagrams {
    /// The most that may wait.
    static let limit = 256

    var waiting: [[UInt8]] = []
    /// Indicates whether the loop has been told.
    var isScheduled = false
    /// The largest that can be sent, when last looked; nil when the peer takes none.
    var maxSize: Int?
}

extension ConnectionDriver {
    /// Queues a datagram; callable from any thread.
    func sendDatagram(_ bytes: [UInt8]) throws(KithError) {
        let (maxSize, isFirst) = outgoingDatagrams.withLock { outgoing in
            guard let maxSize = outgoing.maxSize, bytes.count <= maxSize else { return (outgoing.maxSize, false) }
            if outgoing.waiting.count < OutgoingDatagrams.limit { outgoing.waiting.append(bytes) }
            defer { outgoing.isScheduled = true }
            return (maxSize, !outgoing.isScheduled)
        }
        guard let maxSize else { throw KithError(.unsupported, "The other device takes no datagrams.") }
        guard bytes.count <= maxSize else {
            throw KithError(
                .invalid, "A datagram of \(bytes.count) bytes is too large: the path takes \(maxSize) now.")
        }
        guard isFirst else { return }
        let isDone = loop.tryLock {
            sendDatagrams()
            return true
        }
        if !isDone { loop.execute { self.sendDatagrams() } }
    }

    private func sendDatagrams() {
        var waiting: [[UInt8]] = []
        outgoingDatagrams.withLock { outgoing in
            outgoing.isScheduled = false
            swap(&waiting, &outgoing.waiting)
        }
        guard !isClosed else { return }
        wasUsed()
        // One the engine does not take is lost, as on any network.
        for datagram in waiting { _ = engine.sendDatagram(datagram) }
        updateDatagramLimit()
        service()
    }

    /// Looks how large a datagram may be now.
    @discardableResult
    func updateDatagramLimit() -> Int? {
        let maxSize = isClosed ? nil : engine.maxDatagramSize
        outgoingDatagrams.withLock { $0.maxSize = maxSize }
        return maxSize
    }
}
