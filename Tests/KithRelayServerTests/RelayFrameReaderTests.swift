import NIOCore
import NIOEmbedded
import NIOWebSocket
import Testing

@testable import KithRelayServer

@Suite("A relay's turns") struct RelayFrameReaderTests {
    /// Counts what comes out.
    private final class Counter: ChannelInboundHandler {
        typealias InboundIn = WebSocketFrame

        var lengths: [Int] = []
        var completions = 0

        func channelRead(context: ChannelHandlerContext, data: NIOAny) { lengths.append(unwrapInboundIn(data).length) }

        func channelReadComplete(context: ChannelHandlerContext) { completions += 1 }
    }

    private func frames(_ lengths: [Int]) -> ByteBuffer {
        var bytes = ByteBuffer()
        for length in lengths {
            bytes.writeBytes([0x82, 0xFE])
            bytes.writeInteger(UInt16(length))
            bytes.writeBytes([UInt8](repeating: 0, count: 4 + length))
        }
        return bytes
    }

    @Test func `a client's small frames are read few at a time, in their order`() throws {
        let (channel, counter) = (EmbeddedChannel(), Counter())
        let reader = RelayFrameReader(maxFrameSize: 65_537)
        try channel.pipeline.syncOperations.addHandlers([reader, counter])
        let lengths = (0..<150).map { $0 % 100 + 130 }
        try channel.writeInbound(frames(lengths))
        #expect(counter.lengths == Array(lengths.prefix(64)))
        // What comes meanwhile does not get ahead.
        try channel.writeInbound(frames([999]))
        #expect(counter.lengths.count == 64 && reader.held > 0)
        let before = counter.completions
        channel.embeddedEventLoop.advanceTime(by: RelayFrameReader.pause)
        #expect(counter.lengths.count == 128 && counter.completions == before + 1)
        channel.embeddedEventLoop.advanceTime(by: RelayFrameReader.pause)
        #expect(counter.lengths == lengths + [999])
        #expect(reader.held == 0)
        _ = try channel.finish()
    }

    @Test func `large frames have no turns, and a part of one is held`() throws {
        let (channel, counter) = (EmbeddedChannel(), Counter())
        let reader = RelayFrameReader(maxFrameSize: 65_537)
        try channel.pipeline.syncOperations.addHandlers([reader, counter])
        try channel.writeInbound(frames([Int](repeating: 1_200, count: 100)))
        #expect(counter.lengths.count == 100 && reader.held == 0)
        var whole = frames([2_000])
        try channel.writeInbound(whole.readSlice(length: 1_500))
        #expect(counter.lengths.count == 100 && reader.held >= 1_500 - 8)
        try channel.writeInbound(whole)
        #expect(counter.lengths.count == 101 && reader.held == 0)
        _ = try channel.finish()
    }

    @Test func `nothing more is read while frames wait for their turn, nor of a client that is closed`() throws {
        /// Counts what is asked of the socket.
        final class Socket: ChannelOutboundHandler {
            typealias OutboundIn = ByteBuffer

            var reads = 0

            func read(context: ChannelHandlerContext) { reads += 1 }
        }
        let (channel, counter, socket) = (EmbeddedChannel(), Counter(), Socket())
        let reader = RelayFrameReader(maxFrameSize: 65_537)
        try channel.pipeline.syncOperations.addHandlers([socket, reader, counter])
        channel.pipeline.read()
        #expect(socket.reads == 1)
        try channel.writeInbound(frames([Int](repeating: 200, count: 65)))
        let before = socket.reads
        channel.pipeline.read()
        #expect(socket.reads == before)
        channel.embeddedEventLoop.advanceTime(by: RelayFrameReader.pause)
        #expect(socket.reads == before + 1 && counter.lengths.count == 65)
        try channel.writeInbound(frames([Int](repeating: 200, count: 65)))
        reader.end()
        channel.embeddedEventLoop.advanceTime(by: RelayFrameReader.pause)
        #expect(counter.lengths.count == 65 + 64)
        _ = try channel.finish()
    }
}
