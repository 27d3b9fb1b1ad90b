import KithTesting
import Testing

@testable import KithQUIC

/// Two stream tables whose frames travel as packets that may be lost, late, doubled; no packet protection, no recovery.
struct StreamPair {
    struct Packet {
        var bytes: [UInt8]
        var content: SentContent
        var toServer: Bool
    }

    var client: StreamTable
    var server: StreamTable
    var flight: [Packet] = []

    init(client: StreamConfiguration = StreamConfiguration(), server: StreamConfiguration = StreamConfiguration()) {
        self.client = StreamTable(client, isClient: true)
        self.server = StreamTable(server, isClient: false)
        self.client.receivedPeerLimits(PeerStreamLimits(server))
        self.server.receivedPeerLimits(PeerStreamLimits(client))
    }

    /// Opens a stream at the client that the limits allow.
    mutating func open(_ direction: StreamDirection) throws -> StreamID {
        let id = client.open(direction)
        return try #require(id)
    }

    /// Lets one end fill a packet; false when it had nothing to say.
    mutating func fill(toServer: Bool, size: Int = 1200) -> Bool {
        var bytes = [UInt8](repeating: 0, count: size)
        var content = SentContent()
        let count = bytes.withUnsafeMutableBytes {
            toServer ? client.writeFrames(into: $0, content: &content) : server.writeFrames(into: $0, content: &content)
        }
        guard count > 0 else { return false }
        flight.append(Packet(bytes: Array(bytes[..<count]), content: content, toServer: toServer))
        return true
    }

    /// Delivers a packet and acknowledges it.
    mutating func deliver(_ index: Int) throws {
        let packet = flight.remove(at: index)
        if packet.toServer { try server.receive(packet.bytes) } else { try client.receive(packet.bytes) }
        if packet.toServer { client.acknowledged(packet.content) } else { server.acknowledged(packet.content) }
    }

    mutating func lose(_ index: Int) {
        let packet = flight.remove(at: index)
        if packet.toServer { client.lost(packet.content) } else { server.lost(packet.content) }
    }

    /// Exchanges packets until neither end has anything to say.
    mutating func settle() throws {
        var hasMore = true
        while hasMore {
            let first = fill(toServer: true)
            let second = fill(toServer: false)
            hasMore = first || second
            while !flight.isEmpty { try deliver(0) }
        }
    }
}

extension PeerStreamLimits {
    init(_ configuration: StreamConfiguration) {
        self.init()
        maxData = configuration.connectionWindow
        maxStreamDataBidiLocal = configuration.streamWindow
        maxStreamDataBidiRemote = configuration.streamWindow
        maxStreamDataUni = configuration.streamWindow
        maxStreamsBidi = configuration.maxStreamsBidirectional
        maxStreamsUni = configuration.maxStreamsUnidirectional
    }
}

extension StreamTable {
    mutating func events() -> [StreamEvent] {
        var result: [StreamEvent] = []
        while let event = nextEvent() { result.append(event) }
        return result
    }

    mutating func write(_ bytes: [UInt8], to id: StreamID) throws(StreamError) -> Int {
        var result: Result<Int, StreamError> = .success(0)
        bytes.withUnsafeBytes { raw in
            do throws(StreamError) { result = .success(try write(raw, to: id)) } catch { result = .failure(error) }
        }
        return try result.get()
    }

    mutating func read(_ id: StreamID, upTo limit: Int = 1 << 20) throws(StreamError) -> (
        bytes: [UInt8], isFinished: Bool
    ) {
        var buffer = [UInt8](repeating: 0, count: limit)
        var result: Result<ReadResult, StreamError> = .success(ReadResult(count: 0, isFinished: false))
        buffer.withUnsafeMutableBytes { raw in
            do throws(StreamError) { result = .success(try read(id, into: raw)) } catch { result = .failure(error) }
        }
        let outcome = try result.get()
        return (Array(buffer[..<outcome.count]), outcome.isFinished)
    }

    /// Takes a packet of stream frames in, read by the letter of RFC 9000 §19.
    mutating func receive(_ bytes: [UInt8]) throws {
        var position = 0
        func varint() -> UInt64 {
            let length = 1 << Int(bytes[position] >> 6)
            var value = UInt64(bytes[position] & 0x3F)
            for index in stride(from: 1, to: length, by: 1) { value = value << 8 | UInt64(bytes[position + index]) }
            position += length
            return value
        }
        while position < bytes.count {
            let type = varint()
            switch type {
            case 0x04:
                try receivedReset(StreamID(rawValue: varint()), code: varint(), finalSize: varint())
            case 0x05:
                try receivedStopSending(StreamID(rawValue: varint()), code: varint())
            case 0x08...0x0F:
                let id = StreamID(rawValue: varint())
                let offset = type & 4 != 0 ? varint() : 0
                let length = Int(varint())
                _ = try bytes.withUnsafeBytes {
                    try receivedStream(
                        id, offset: offset,
                        bytes: UnsafeRawBufferPointer(rebasing: $0[position..<position + length]),
                        isFinished: type & 1 != 0)
                }
                position += length
            case 0x10: receivedMaxData(varint())
            case 0x11: try receivedMaxStreamData(StreamID(rawValue: varint()), varint())
            case 0x12: receivedMaxStreams(.bidirectional, varint())
            case 0x13: receivedMaxStreams(.unidirectional, varint())
            case 0x14: receivedDataBlocked(varint())
            case 0x15: try receivedStreamDataBlocked(StreamID(rawValue: varint()), varint())
            case 0x16: receivedStreamsBlocked(.bidirectional, varint())
            case 0x17: receivedStreamsBlocked(.unidirectional, varint())
            default: preconditionFailure("an unknown frame \(type)")
            }
        }
    }
}
