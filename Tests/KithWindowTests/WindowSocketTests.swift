#if os(Linux)
import CKithSystem
import Foundation
import KithAPI
import KithPixels
import KithTesting
import KithWire
import Testing

@testable import KithWindow

@Suite struct WindowSocketTests {
    /// Both ends of a socket.
    private final class Ends {
        let (near, far): (Int32, Int32)

        init() throws {
            var ends: [Int32] = [0, 0]
            try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
            (near, far) = (ends[0], ends[1])
        }

        func closeNear() { close(near) }
        deinit { close(far) }
    }

    @Test func `messages arrive as they were sent, in order, whatever their length`() async throws {
        let ends = try Ends()
        let display = Screen.Display(
            number: 1, name: "HDMI-1", bounds: .init(width: 1_920, height: 1_080), isPrimary: true)
        let commands: [WindowCommand] = [
            .open(WindowOptions(device: "laptop", scale: .factor(1.5), isFullScreen: true)),
            .changed([.init(PixelRectangle(x: 1, y: 2, width: 3, height: 4))]), .pointer(nil), .phase(.reconnecting),
            .permissions(.init(control: true)), .control(isInControl: false, by: "phone"),
            .displays([display], shown: 1), .clipboard(String(repeating: "é", count: 5_000_000)), .notice("…"),
            .copying("1 %"), .copying(nil), .statistics(WindowStatistics(pictures: 1, bytes: 2)),
        ]
        let far = ends.far
        let received = onceRead(far, commands.count)
        let near = ends.near
        try await onThread { for command in commands { try WindowSocket.send(command, to: near) } }
        #expect(try await received.value == commands)
        let events: [WindowEvent] = [
            .opened, .shown, .responded, .input(.move(x: -1, y: 2)), .input(.text("日本")), .display(2),
            .dropped(["/a b", Files.Path(bytes: [47, 0xFF])]), .closed, .failed("no"),
        ]
        for event in events { try WindowSocket.send(event, to: ends.far) }
        for event in events { #expect(try WindowSocket.receive(WindowEvent.self, from: near)?.message == event) }
        ends.closeNear()
        #expect(try WindowSocket.receive(WindowCommand.self, from: far) == nil)
    }

    private func onceRead(_ far: Int32, _ count: Int) -> Task<[WindowCommand], any Error> {
        Task {
            try await onThread {
                try (0..<count).map { _ in try #require(try WindowSocket.receive(WindowCommand.self, from: far)).message
                }
            }
        }
    }

    @Test func `a length that is too large, and bytes that make no sense, are errors and no memory`() throws {
        for bytes in [[0xFF, 0xFF, 0xFF, 0xFF], [0, 0xC0, 0, 1], [0, 0, 0, 2, 0xA0, 0xA0], [0, 0, 0, 1, 0xFF]]
            as [[UInt8]]
        {
            let ends = try Ends()
            #expect(write(ends.near, bytes, bytes.count) == bytes.count)
            ends.closeNear()
            #expect(throws: (any Error).self) { try WindowSocket.receive(WindowEvent.self, from: ends.far) }
        }
        // One that is cut off is an end.
        let ends = try Ends()
        #expect(write(ends.near, [0, 0, 0, 9, 1] as [UInt8], 5) == 5)
        ends.closeNear()
        #expect(try WindowSocket.receive(WindowEvent.self, from: ends.far) == nil)
        #expect(throws: KithError.self) {
            try WindowSocket.send(WindowCommand.notice(String(repeating: "a", count: 13 << 20)), to: ends.far)
        }
    }

    @Test func `a picture is seen by the other end, which can neither write it nor be made to fall over it`() throws {
        let size = PixelSize(width: 37, height: 21)
        let shared = try SharedPicture(size: size)
        let ends = try Ends()
        try WindowSocket.send(
            WindowCommand.picture(width: size.width, height: size.height), to: ends.near, passing: shared.descriptor)
        let (message, passed) = try #require(try WindowSocket.receive(WindowCommand.self, from: ends.far))
        #expect(message == .picture(width: 37, height: 21))
        let descriptor = try #require(passed)
        // Sealed: it keeps its size, and is written by nobody else.
        #expect(ftruncate(descriptor, 1) == -1 && errno == EPERM)
        #expect(mmap(nil, 4, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0) == MAP_FAILED)
        #expect(throws: KithError.self) {
            _ = try SharedPictureReader(descriptor: dup(descriptor), size: PixelSize(width: 2_000, height: 2_000))
        }
        let reader = try SharedPictureReader(descriptor: descriptor, size: size)
        var buffer = PixelBuffer(size: size)
        for y in 0..<21 { for x in 0..<37 { buffer[x: x, y: y] = UInt32(y << 8 | x) } }
        shared.update(PixelRegion(PixelRectangle(x: 3, y: 4, width: 500, height: 5)), from: buffer.view)
        for y in 0..<21 {
            let row = reader.withBytes(of: PixelRectangle(x: 0, y: y, width: 37, height: 1)) { bytes, _ in
                (0..<37).map { bytes.load(fromByteOffset: $0 * 4, as: UInt32.self) }
            }
            for x in 0..<37 {
                let isIn = x >= 3 && (4..<9).contains(y)
                #expect(row[x] == (isIn ? 0xFF00_0000 | UInt32(y << 8 | x) : 0), "\(x), \(y)")
            }
        }
        ends.closeNear()
    }

    @Test func `memory that could be taken away is refused`() throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("kith-picture-\(UUID().uuidString)")
        try Data(count: 4_096).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let descriptor = open(file.path, O_RDWR)
        #expect(throws: KithError.self) {
            _ = try SharedPictureReader(descriptor: descriptor, size: PixelSize(width: 8, height: 8))
        }
        #expect(throws: KithError.self) { _ = try SharedPicture(size: PixelSize(width: 10_000, height: 10_000)) }
    }

    @Test func `what does not fit a picture is no part of it`() {
        let size = PixelSize(width: 100, height: 50)
        func area(_ x: Int, _ y: Int, _ width: Int, _ height: Int) -> PixelRectangle {
            var area = WindowCommand.Area(.empty)
            (area.x, area.y, area.width, area.height) = (x, y, width, height)
            return area.rectangle(in: size)
        }
        #expect(area(10, 10, 1_000, 5) == PixelRectangle(x: 10, y: 10, width: 90, height: 5))
        #expect(area(-1, 0, 5, 5).isEmpty && area(.max, 0, .max, 1).isEmpty && area(0, 0, .min, 1).isEmpty)
        #expect(area(100, 50, 1, 1).isEmpty)
    }
}
#endif
