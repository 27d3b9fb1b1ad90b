public import KithWire

// The same calls on arrays, for programs to which one more copy does not matter.
extension QUICConnection {
    /// Takes everything that is to be sent now: datagrams, each with where it goes.
    ///
    /// Pacing and the congestion window bound it; ask again after ``nextDeadline`` and after every other call.
    public mutating func datagrams(at now: Timestamp) -> [(bytes: [UInt8], remote: NetworkAddress)] {
        var datagrams: [(bytes: [UInt8], remote: NetworkAddress)] = []
        unsafe withUnsafeTemporaryAllocation(byteCount: 65_536, alignment: 16) { buffer in
            while let transmit = unsafe nextTransmit(into: buffer, at: now) {
                var start = 0
                while start < transmit.length {
                    let end = min(start + transmit.segmentSize, transmit.length)
                    unsafe datagrams.append((Array(buffer[start..<end]), transmit.remote))
                    start = end
                }
            }
        }
        return datagrams
    }

    /// Takes a datagram in that came from `remote`.
    public mutating func receive(_ datagram: [UInt8], from remote: NetworkAddress, at now: Timestamp) {
        // Packets are decrypted in place.
        var datagram = datagram
        unsafe datagram.withUnsafeMutableBytes { unsafe receive($0, from: remote, ecn: 0, at: now) }
    }

    /// Writes to a stream; answers how many of the bytes were taken, from the first on.
    ///
    /// Fewer than all: ``Event/writable(_:)`` says when to go on.
    public mutating func write(_ bytes: [UInt8], to stream: StreamID) throws(StreamError) -> Int {
        try write(bytes[...], to: stream)
    }

    /// Writes to a stream; answers how many of the bytes were taken, from the first on.
    public mutating func write(_ bytes: ArraySlice<UInt8>, to stream: StreamID) throws(StreamError) -> Int {
        let result = unsafe bytes.withUnsafeBytes { bytes -> Result<Int, StreamError> in
            do throws(StreamError) {
                return .success(unsafe try write(bytes, to: stream))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    /// Reads what has arrived on a stream, at most `limit` bytes, and whether that was the last of it.
    public mutating func read(
        _ stream: StreamID, upTo limit: Int = 65_536
    ) throws(StreamError) -> (bytes: [UInt8], isFinished: Bool) {
        var bytes = [UInt8](repeating: 0, count: max(0, limit))
        let result = unsafe bytes.withUnsafeMutableBytes { room -> Result<ReadResult, StreamError> in
            do throws(StreamError) {
                return .success(unsafe try read(stream, into: room))
            } catch {
                return .failure(error)
            }
        }
        let taken = try result.get()
        bytes.removeLast(bytes.count - taken.count)
        return (bytes, taken.isFinished)
    }
}

extension DatagramHeader {
    /// Reads the part of a datagram that is not protected; nil when it is no QUIC.
    public init?(_ datagram: [UInt8]) {
        guard let header = unsafe datagram.withUnsafeBytes({ unsafe DatagramHeader($0) }) else { return nil }
        self = header
    }
}
