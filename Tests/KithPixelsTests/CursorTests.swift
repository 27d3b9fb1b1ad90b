import KithPixels
import KithTesting
import Testing

@Suite struct CursorTests {
    private static func shape(_ random: inout SeededRandom) -> CursorShape? {
        let size = PixelSize(
            width: Int.random(in: 1...48, using: &random), height: Int.random(in: 1...48, using: &random))
        let colours = (0..<3).map { _ in UInt32(truncatingIfNeeded: random.next()) }
        let isNoise = random.chance(0.3)
        return CursorShape(
            size: size,
            hotspot: (Int.random(in: 0..<size.width, using: &random), Int.random(in: 0..<size.height, using: &random)),
            pixels: (0..<size.area).map { _ in
                isNoise ? UInt32(truncatingIfNeeded: random.next()) : colours.randomElement(using: &random) ?? 0
            })
    }

    @Test(arguments: [true, false])
    func `the viewer draws the shape that the host shows, and each shape is sent once while it is known`(
        compresses: Bool
    ) throws {
        var random = SeededRandom.fromEnvironment()
        let shapes = (0..<24).compactMap { _ in Self.shape(&random) }
        var sender = CursorSender(compresses: compresses)
        var receiver = CursorReceiver()
        var pictures = 0
        for step in 0..<400 {
            let few = step < 200 ? 10 : shapes.count
            let shape = shapes[Int.random(in: 0..<few, using: &random)]
            if random.chance(0.1), let message = sender.hide() {
                _ = try receiver.received(message)
                #expect(receiver.shape == nil)
            }
            for message in sender.show(shape) {
                if message[0] == 1 { pictures += 1 }
                _ = try receiver.received(message)
            }
            #expect(receiver.shape == shape, "\(random)")
            #expect(sender.show(shape).isEmpty)
            if step == 199 { #expect(pictures <= 10, "\(random)") }
        }
    }

    @Test func `the newest position counts, in whatever order they come`() throws {
        var random = SeededRandom.fromEnvironment()
        var sender = CursorSender()
        var receiver = CursorReceiver()
        var messages: [[UInt8]] = []
        for _ in 0..<100 {
            let (x, y) = (Int.random(in: -5...70_000, using: &random), Int.random(in: -5...2000, using: &random))
            if let message = sender.moved(x: x, y: y) { messages.append(message) }
        }
        let repeated = sender.moved(x: 7, y: 8)
        #expect(sender.moved(x: 7, y: 8) == nil)
        for message in (messages + [try #require(repeated)]).shuffled(using: &random) {
            _ = try receiver.received(message)
        }
        let position = try #require(receiver.position)
        #expect(position == (7, 8), "\(random)")
        #expect(messages.allSatisfy { $0.count == 9 })
    }

    @Test func `damaged messages are refused or make a shape within the limit`() throws {
        var random = SeededRandom.fromEnvironment()
        var sender = CursorSender()
        var receiver = CursorReceiver()
        for _ in 0..<300 {
            let shape = try #require(Self.shape(&random))
            for var message in sender.show(shape) {
                for _ in 0..<Int.random(in: 0...3, using: &random) where !message.isEmpty {
                    let at = Int.random(in: 0..<min(message.count, 12), using: &random)
                    if random.chance(0.2) {
                        message.remove(at: at)
                    } else {
                        message[at] = UInt8(truncatingIfNeeded: random.next())
                    }
                }
                // A refusal is an answer.
                _ = try? receiver.received(message)
                #expect((receiver.shape?.size.area ?? 0) <= 65_536)
            }
            _ = try? receiver.received(random.bytes(Int.random(in: 0...40, using: &random)))
        }
        do throws(TileError) {
            _ = try receiver.received([2, 200])
            Issue.record("a slot that is not there is refused")
        } catch {
            #expect(error == .outside)
        }
    }
}
