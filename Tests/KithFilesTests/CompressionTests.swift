import Foundation
import KithAPI
import KithWire
import Synchronization
import KithTesting
import Testing

@testable import KithFiles

/// Bytes like those of a log: they shrink to a fifth or so.
func text(_ count: Int, seed: UInt64) -> Data {
    var random = SeededRandom(seed: seed)
    let words = ["connection", "from", "laptop", "closed", "after", "seconds", "error", "opened", "stream", "bytes"]
    var data = Data(capacity: count + 32)
    while data.count < count {
        data.append(contentsOf: "\(words[Int.random(in: 0..<words.count, using: &random)]) ".utf8)
        if Int.random(in: 0..<7, using: &random) == 0 {
            data.append(contentsOf: "\(UInt16.random(in: 0 ... .max, using: &random))\n".utf8)
        }
    }
    return data.prefix(count)
}

@Suite struct CompressionPolicyTests {
    /// Runs a policy over blocks of 256 KiB on a link and a compressor that are as fast as is said, in bytes a second.
    ///
    /// The stream swallows what it can hold. Returns the rate of contents, and how many of the last blocks shrank.
    private func run(
        link: Double, disk: Double = 2e9, shrinksTo ratio: @escaping (Int) -> Double, blocks: Int,
        speed: @escaping (Int32) -> Double = { $0 == 1 ? 400e6 : $0 == 3 ? 200e6 : 30e6 }
    ) -> (rate: Double, compressed: Int, worked: Int, levels: Set<Int32>) {
        var policy = CompressionPolicy()
        let begin = ContinuousClock.now
        var now = 0.0
        var queued = 0.0
        var (compressed, worked) = (0, 0)
        var levels: Set<Int32> = []
        let size = 256 << 10
        func at(_ seconds: Double) -> ContinuousClock.Instant { begin + .seconds(seconds) }
        func pass(_ seconds: Double) {
            now += seconds
            queued = max(0, queued - seconds * link)
        }
        for block in 0..<blocks {
            pass(Double(size) / disk)
            var wire = size
            var decision = policy.next()
            if case .sample(let level) = decision {
                let shrinks = ratio(block) <= CompressionPolicy.worth
                pass(Double(CompressionPolicy.sample) / speed(1))
                policy.sampled(shrinks)
                decision = shrinks ? .compress(level: level) : .plain
            }
            if case .compress(let level) = decision {
                let time = Double(size) / speed(level)
                pass(time)
                worked += 1
                let shrinks = ratio(block) <= CompressionPolicy.worth
                policy.compressed(size, shrank: shrinks, in: .seconds(time))
                if shrinks { wire = Int(Double(size) * ratio(block)) }
                if block > blocks / 2 {
                    compressed += 1
                    levels.insert(level)
                }
            }
            // It goes in when there is room for it.
            let start = now
            queued += Double(wire)
            let over = queued - 1_800_000
            if over > 0 { pass(over / link) }
            policy.wrote(size, as: wire, waiting: .seconds(now - start), at: at(now))
        }
        return (Double(blocks * size) / now, compressed, worked, levels)
    }

    @Test(arguments: [1e6, 12e6, 100e6])
    func `on a slow link all that shrinks is compressed, the harder the slower it is`(link: Double) {
        let result = run(link: link, shrinksTo: { _ in 0.25 }, blocks: 1_000)
        #expect(result.compressed == 499, "\(result)")
        #expect(result.rate > link * 2.5, "\(result)")
        #expect(result.levels == [link < 3e6 ? 9 : link < 25e6 ? 3 : 1], "\(result)")
    }

    @Test func `on a link faster than the compressor nothing is compressed for long`() {
        let result = run(link: 600e6, shrinksTo: { _ in 0.3 }, blocks: 8_000)
        let plain = 256.0 * 1_024 / (256.0 * 1_024 / 2e9 + 256.0 * 1_024 / 600e6)
        #expect(result.rate > plain, "\(result)")
        #expect(result.worked < 8_000 / 10, "\(result)")
    }

    @Test func `a disk that is slower than all else leaves the link alone`() {
        let result = run(link: 100e6, disk: 50e6, shrinksTo: { _ in 0.3 }, blocks: 400)
        #expect(result.rate > 35e6, "\(result)")
    }

    @Test func `what does not shrink is hardly looked at, and what follows it is found`() {
        let noise = run(link: 10e6, shrinksTo: { _ in 1 }, blocks: 4_000)
        #expect(noise.worked < 20, "\(noise)")
        let mixed = run(link: 10e6, shrinksTo: { $0 < 1_000 ? 1 : 0.2 }, blocks: 2_000)
        #expect(mixed.compressed > 900, "\(mixed)")
    }

    @Test func `a slow processor is not asked to compress for a fast link`() {
        let result = run(link: 100e6, shrinksTo: { _ in 0.3 }, blocks: 2_000, speed: { $0 == 1 ? 90e6 : 40e6 })
        #expect(result.compressed < 100, "\(result)")
        #expect(result.rate > 70e6, "\(result)")
    }

    @Test func `on request all is compressed`() {
        var policy = CompressionPolicy(isForced: true)
        let now = ContinuousClock.now
        for step in 0..<1_000 {
            guard case .compress = policy.next() else {
                Issue.record("not in step \(step)")
                return
            }
            policy.compressed(256 << 10, shrank: false, in: .seconds(1))
            policy.wrote(256 << 10, as: 256 << 10, waiting: .zero, at: now + .milliseconds(step * 10))
        }
    }
}

@Suite(.enabled(if: BlockCompression.isAvailable, "built without zstd"))
struct CompressedBlockTests {
    private func block(_ frames: [TransferFrame]) throws -> [UInt8] {
        var bytes: [UInt8] = []
        for frame in frames { try frame.append(to: &bytes) }
        return bytes
    }

    private func message(_ block: [UInt8], level: Int32 = 3) throws -> [UInt8] {
        let compressor = try #require(BlockCompressor())
        return try #require(compressor.message(block[...], level: level, limit: block.count + 1_000))
    }

    /// A message of type 19 with any body.
    private func forged(_ body: [UInt8]) -> [UInt8] { TransferFrame.prefix(type: 19, count: body.count) + body }

    private func frames(_ bytes: [UInt8], by step: Int = .max, takes: Bool = true) throws -> [TransferFrame] {
        var parser = TransferParser(takesCompressed: takes)
        var frames: [TransferFrame] = []
        for start in stride(from: 0, to: bytes.count, by: min(step, bytes.count)) {
            parser.feed(Array(bytes[start..<min(start + min(step, bytes.count), bytes.count)]))
            while let frame = try parser.next() { frames.append(frame) }
        }
        #expect(parser.isBetweenFrames)
        return frames
    }

    @Test func `messages come out of a block as they went in, however the bytes come`() throws {
        let inner: [TransferFrame] = [
            .small(root: [UInt8](repeating: 1, count: 32), [UInt8](text(5_000, seed: 1))[...]), .send(files: 1),
            .data([UInt8](text(70_000, seed: 2))[...]), .fileEnd(root: [UInt8](repeating: 2, count: 32)),
        ]
        for level in [1, 3, 9] as [Int32] {
            let packed = try message(try block(inner), level: level)
            #expect(packed.count < 40_000)
            let bytes = try block([.same]) + packed + packed + (try block([.fileAbandoned]))
            for step in [1_000, 7_919, .max] {
                #expect(try frames(bytes, by: step) == [.same] + inner + inner + [.fileAbandoned])
            }
        }
    }

    @Test func `a block is refused where none may be, and inside of another`() throws {
        let packed = try message(try block([.same, .data([UInt8](repeating: 0, count: 9_000)[...])]))
        #expect(throws: KithError(.invalid, "")) { try frames(packed, takes: false) }
        #expect(throws: KithError(.invalid, "")) { try frames(try message(packed + packed)) }
    }

    @Test func `a block that ends inside of a message is refused`() throws {
        let whole = try block([.data([UInt8](repeating: 7, count: 5_000)[...]), .send(files: 3)])
        for count in [1, 2, 4, 4_000, whole.count - 1] {
            #expect(throws: KithError(.invalid, "")) { try frames(try message(Array(whole.prefix(count)))) }
        }
    }

    @Test func `what a block says of its size is what it has, and never more than a block may have`() throws {
        let plain = try block([.data([UInt8](repeating: 0, count: 100_000)[...])])
        let good = try message(plain)
        #expect(good.count < 200)
        let frame = good.dropFirst(TransferFrame.dataPrefix + 4)
        func head(_ size: Int) -> [UInt8] { [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: size >> $0) } }
        #expect(try frames(forged(head(plain.count) + frame)).count == 1)
        for size in [0, 1, plain.count - 1, plain.count + 1, BlockCompression.maximumBlock + 1, 0xFFFF_FFFF] {
            #expect(throws: KithError(.invalid, "")) { try frames(forged(head(size) + frame)) }
        }
        #expect(throws: KithError(.invalid, "")) { try frames(forged(head(2 * plain.count) + frame + frame)) }
        #expect(throws: KithError(.invalid, "")) { try frames(forged(head(plain.count) + frame + [0])) }
        #expect(throws: KithError(.invalid, "")) { try frames(forged(head(plain.count) + frame.dropLast())) }
        #expect(throws: KithError(.invalid, "")) { try frames(forged([])) }
        #expect(throws: KithError(.invalid, "")) { try frames(forged(head(plain.count))) }
        // The largest block there may be, and one of a byte more, which nobody makes.
        let most = [UInt8](repeating: 0, count: BlockCompression.maximumBlock + 1)
        let compressor = try #require(BlockCompressor())
        #expect(compressor.message(most[...], level: 1, limit: 100_000) == nil)
        #expect(compressor.message(most.dropLast(), level: 1, limit: 100_000) != nil)
        let long = TransferFrame.prefix(type: 19, count: BlockCompression.maximumBlock + 5)
        #expect(throws: KithError(.invalid, "")) { try frames(long) }
    }

    @Test func `a frame that wants a window, a dictionary or no size is refused`() throws {
        // RFC 8878 §3.1.1: magic, descriptor, window, size, then a last block of one byte repeated.
        let magic: [UInt8] = [0x28, 0xB5, 0x2F, 0xFD]
        let size = 100_000
        let content: [UInt8] = [0xA0, 0x86, 0x01, 0x00]
        let header = size << 3 | 3
        let repeated: [UInt8] = [0, 8, 16].map { UInt8(truncatingIfNeeded: header >> $0) } + [0]
        let head: [UInt8] = [0x00, 0x01, 0x86, 0xA0]
        // One segment with four bytes of size is taken: its contents, all zeros, are no messages, and that is said.
        let taken = BlockCompression.decompress((magic + [0xA0] + content + repeated)[...], size: size)
        #expect(taken == [UInt8](repeating: 0, count: size))
        for frame in [
            magic + [0x80, 21 << 3] + content + repeated,  // a window of 2 GiB
            magic + [0xA1, 1] + content + repeated,  // a dictionary
            magic + [0x00, 0x58] + repeated,  // a size nobody knows
            [0x50, 0x2A, 0x4D, 0x18, 4, 0, 0, 0, 1, 2, 3, 4], [UInt8](repeating: 0, count: 40),
        ] {
            #expect(throws: KithError(.invalid, "")) { try frames(forged(head + frame)) }
        }
    }

    @Test func `damaged blocks are refused, or are other messages, and take no more room than they say`() throws {
        let good = try message(try block([.data([UInt8](text(50_000, seed: 3))[...]), .same]))
        var random = SeededRandom(seed: 4)
        for _ in 0..<2_000 {
            var bad = good
            for _ in 0...Int.random(in: 0...3, using: &random) {
                // The head of the message itself stays: what is tested is what is in it.
                let place = Int.random(in: TransferFrame.dataPrefix..<bad.count, using: &random)
                bad[place] = UInt8.random(in: 0 ... .max, using: &random)
            }
            var parser = TransferParser(takesCompressed: true)
            parser.feed(bad)
            var total = 0
            do {
                while let frame = try parser.next() { if case .data(let data) = frame { total += data.count } }
            } catch let error as KithError {
                #expect(error.code == .invalid || error.code == .unsupported)
            } catch {
                // Damaged contents may be a message that is malformed in its own way.
            }
            #expect(total <= BlockCompression.maximumBlock)
        }
    }

    @Test func `many empty messages in a row cost no depth`() throws {
        let empty = [UInt8](repeating: 0, count: 400_000).enumerated().map {
            $0.offset.isMultiple(of: 2) ? UInt8(4) : 0
        }
        #expect(try frames(empty).isEmpty)
        #expect(try frames(try message(empty)).isEmpty)
    }
}

@Suite(.enabled(if: BlockCompression.isAvailable, "built without zstd"))
struct CompressedCopyTests {
    @Test(arguments: ["push", "pull", "relay"], [Files.Compression.auto, .always, .never])
    func `a tree arrives as it is, and says how much of it was on the wire`(
        way: String, compress: Files.Compression
    ) async throws {
        let folders = try Folders()
        let source = way == "push" ? "local" : "srv"
        for index in 0..<200 { try folders.write("\(source)/tree/small/\(index)", text(3_000, seed: UInt64(index))) }
        try folders.write("\(source)/tree/log", text(3_000_000, seed: 300))
        try folders.write("\(source)/tree/noise", bytes(900_000, seed: 301))
        let from = Files.Location(
            device: way == "push" ? nil : "laptop", path: Files.Path("\(folders.top)/\(source)/tree"))
        let to = Files.Location(
            device: way == "pull" ? nil : way == "relay" ? "desktop" : "laptop",
            path: Files.Path("\(folders.top)/" + (way == "pull" ? "local/copy" : "srv/copy")))
        var last = Files.Progress()
        let (summary, _) = try await folders.client().follow(
            Files.Copy.Input(sources: [from], destination: to, recursive: true, compress: compress)
        ) { last = $0 }
        let target = way == "pull" ? "local/copy" : "srv/copy"
        #expect(try Snapshot(folders.top + "/\(source)/tree") == Snapshot(folders.top + "/" + target))
        #expect(summary.sent == 4_500_000)
        let wire = try #require(summary.wire)
        #expect(last.wire == wire)
        switch compress {
        case .never: #expect(wire > 4_500_000 && wire < 4_560_000, "\(wire)")
        case .always: #expect(wire > 900_000 && wire < 2_700_000, "\(wire)")
        // How fast the link of a test is nobody knows; the beginning is always compressed.
        case .auto: #expect(wire > 900_000 && wire < 4_560_000, "\(wire)")
        }
    }

    @Test func `a receiver that takes none gets none, and one that takes them gets what it asks for`() async throws {
        let folders = try Folders()
        try folders.write("srv/log", text(2_000_000, seed: 310))
        for features: TransferFrame.Features in [[], .compression, [.compression, .compressionAlways]] {
            let stream = try await folders.client().open(
                Files.Pull.self, .init(path: Files.Path(folders.srv + "/log"), recursive: false), on: "laptop"
            ).stream.bytes
            var bytes: [UInt8] = []
            for frame in [TransferFrame.hello(version: TransferFrame.version, features: features), .send(files: 1)] {
                try frame.append(to: &bytes)
            }
            try await stream.write(bytes)
            var parser = TransferParser(takesCompressed: features.contains(.compression))
            var (data, wire) = ([UInt8](), 0)
            reading: while let bytes = try await stream.read(upTo: 100_000) {
                parser.feed(bytes)
                wire += bytes.count
                while let frame = try parser.next() {
                    if case .data(let part) = frame { data += part }
                    if case .fileEnd = frame { break reading }
                }
            }
            #expect(Data(data) == text(2_000_000, seed: 310))
            #expect(features.contains(.compressionAlways) ? wire < 1_000_000 : true, "\(wire)")
            #expect(features.isEmpty ? wire > 2_000_000 : true, "\(wire)")
            stream.abort(.cancelled)
        }
    }

    @Test func `compressed data that is damaged puts nothing in place`() async throws {
        let folders = try Folders()
        try folders.write("local/log", text(2_000_000, seed: 320))
        let count = Mutex(0)
        let client = folders.client(tamper: { bytes in
            let isThis = count.withLock { count in
                count += bytes.count
                return count > 100_000
            }
            guard isThis, bytes.count > 100 else { return bytes }
            var bytes = bytes
            bytes[bytes.count / 2] ^= 0x10
            return bytes
        })
        await #expect(throws: KithError.self) {
            _ = try await client.follow(
                Files.Copy.Input(
                    sources: [here(folders.local + "/log")], destination: there(folders.srv), retrySeconds: 0,
                    compress: .always)
            ) { _ in }
        }
        #expect(!folders.exists("srv/log"))
    }
}
