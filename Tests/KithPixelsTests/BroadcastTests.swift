@testable import KithPixels
import KithTesting
import Testing

@Suite struct BroadcastTests {
    private let start = ContinuousClock.now
    private let phone = PixelSize(width: 1290, height: 2796)

    /// A capture with strides of its own, whose samples are told apart.
    private struct Capture {
        let size: PixelSize
        let lumaStride: Int
        let chromaStride: Int
        var luma: [UInt8]
        var chroma: [UInt8]

        init(size: PixelSize, random: inout SeededRandom) {
            self.size = size
            lumaStride = size.width + Int.random(in: 0...17, using: &random)
            chromaStride = (size.width + 1) / 2 * 2 + Int.random(in: 0...17, using: &random)
            luma = random.bytes(lumaStride * size.height)
            chroma = random.bytes(chromaStride * ((size.height + 1) / 2))
        }

        /// The place in the capture of a place in the upright picture, by turning it as a person would.
        func origin(_ x: Int, _ y: Int, _ orientation: PictureOrientation, _ size: PixelSize) -> (Int, Int) {
            switch orientation {
            case .up: (x, y)
            case .down: (size.width - 1 - x, size.height - 1 - y)
            case .right: (y, size.height - 1 - x)
            case .left: (size.width - 1 - y, x)
            }
        }
    }

    @available(macOS 26, iOS 26, *)
    @Test func `a capture with strides becomes upright planes, whole or halved, in each orientation`() throws {
        var random = SeededRandom.fromEnvironment()
        for _ in 0..<40 {
            let size = PixelSize(
                width: Int.random(in: 2...41, using: &random), height: Int.random(in: 2...41, using: &random))
            let capture = Capture(size: size, random: &random)
            for orientation in PictureOrientation.allCases {
                for factor in [1, 2] {
                    let upright = orientation.upright(size)
                    var planes = PlanarBuffer(
                        size: PixelSize(width: upright.width / factor, height: upright.height / factor))
                    let view = BiplanarView(
                        size: size, luma: capture.luma.span.bytes, lumaStride: capture.lumaStride,
                        chroma: capture.chroma.span.bytes, chromaStride: capture.chromaStride)
                    guard let view else {
                        Issue.record("the capture is whole: \(random)")
                        return
                    }
                    planes.update(from: view, orientation: orientation, halved: factor == 2)
                    for y in 0..<planes.size.height {
                        for x in 0..<planes.size.width {
                            let from = capture.origin(x * factor, y * factor, orientation, size)
                            let sample = capture.luma[from.1 * capture.lumaStride + from.0]
                            #expect(planes.luma[y * planes.size.width + x] == sample, "\(random)")
                        }
                    }
                    let half = PixelSize(width: (size.width + 1) / 2, height: (size.height + 1) / 2)
                    let chroma = planes.chromaSize
                    for y in 0..<chroma.height {
                        for x in 0..<chroma.width {
                            let from = capture.origin(x * factor, y * factor, orientation, half)
                            let position = from.1 * capture.chromaStride + 2 * from.0
                            #expect(planes.blue[y * chroma.width + x] == capture.chroma[position], "\(random)")
                            #expect(planes.red[y * chroma.width + x] == capture.chroma[position + 1], "\(random)")
                        }
                    }
                }
            }
        }
    }

    @available(macOS 26, iOS 26, *)
    @Test func `planes shorter than the picture are refused`() {
        let bytes = [UInt8](repeating: 0, count: 100)
        func isTaken(_ luma: Int, _ lumaStride: Int, _ chroma: Int, _ chromaStride: Int) -> Bool {
            let span = bytes.span.bytes
            return BiplanarView(
                size: PixelSize(width: 7, height: 5), luma: span.extracting(first: luma), lumaStride: lumaStride,
                chroma: span.extracting(first: chroma), chromaStride: chromaStride) != nil
        }
        #expect(isTaken(47, 10, 28, 10))
        #expect(!isTaken(46, 10, 28, 10))
        #expect(!isTaken(47, 10, 27, 10))
        #expect(!isTaken(47, 6, 28, 10))
        #expect(!isTaken(47, 10, 28, 7))
        #expect(!isTaken(47, Int.max, 28, 10))
    }

    @Test func `one picture is in flight, and what comes meanwhile is let go`() {
        var pipeline = BroadcastPipeline()
        #expect(
            pipeline.captured(size: phone, orientation: .up, at: start)
                == .encode(size: phone, halved: false, isKey: true))
        #expect(pipeline.captured(size: phone, orientation: .up, at: start) == .drop(.busy))
        #expect(pipeline.encoded(bytes: 90_000) == true)
        #expect(pipeline.captured(size: phone, orientation: .up, at: start) == .drop(.busy))
        pipeline.sent()
        #expect(
            pipeline.captured(size: phone, orientation: .up, at: start)
                == .encode(size: phone, halved: false, isKey: false))
        pipeline.failed()
        let turned = PixelSize(width: phone.height, height: phone.width)
        #expect(
            pipeline.captured(size: phone, orientation: .right, at: start)
                == .encode(size: turned, halved: false, isKey: true))
        #expect(pipeline.encoded(bytes: BroadcastPipeline.encodedLimit + 1) == false)
        #expect(pipeline.dropped == 4)
    }

    @Test func `under pressure pictures are halved, then let go, and whole again ten seconds later`() {
        var pipeline = BroadcastPipeline()
        #expect(pipeline.pressure(.warning, at: start) == false)
        let half = PixelSize(width: 645, height: 1398)
        #expect(
            pipeline.captured(size: phone, orientation: .up, at: start)
                == .encode(size: half, halved: true, isKey: true))
        _ = pipeline.encoded(bytes: 10)
        pipeline.sent()
        #expect(pipeline.pressure(.critical, at: start) == true)
        #expect(pipeline.memory == 0)
        #expect(pipeline.captured(size: phone, orientation: .up, at: start) == .drop(.pressure))
        #expect(pipeline.pressure(.normal, at: start + .seconds(1)) == false)
        #expect(
            pipeline.captured(size: phone, orientation: .up, at: start + .seconds(9))
                == .encode(size: half, halved: true, isKey: true))
        pipeline.failed()
        #expect(
            pipeline.captured(size: phone, orientation: .up, at: start + .seconds(11))
                == .encode(size: phone, halved: false, isKey: true))
    }

    /// Correctness property 4: the memory is counted from the buffers there are, over any run of events.
    @Test func `what is held never exceeds thirty megabytes, whatever is captured`() {
        var random = SeededRandom.fromEnvironment()
        for _ in 0..<60 {
            var pipeline = BroadcastPipeline()
            var (encoded, now) = (0, start)
            for _ in 0..<60 {
                now += .milliseconds(Int.random(in: 0...2000, using: &random))
                let size = PixelSize(
                    width: Int.random(in: 1...9000, using: &random), height: Int.random(in: 1...9000, using: &random))
                let orientation = PictureOrientation.allCases.randomElement(using: &random) ?? .up
                switch Int.random(in: 0..<6, using: &random) {
                case 0:
                    _ = pipeline.pressure(
                        [.normal, .warning, .critical].randomElement(using: &random) ?? .normal, at: now)
                case 1: pipeline.failed()
                case 2:
                    encoded = Int.random(in: 0...6 << 20, using: &random)
                    if pipeline.encoded(bytes: encoded) { pipeline.sent() }
                default:
                    let answer = pipeline.captured(
                        size: random.chance(0.5) ? phone : size, orientation: orientation, at: now)
                    if case .encode(let target, _, _) = answer {
                        let held = PlanarBuffer.byteCount(of: target) + BroadcastPipeline.encodedLimit
                        #expect(held <= BroadcastPipeline.memoryLimit && pipeline.memory == held, "\(random)")
                    }
                }
                #expect(pipeline.peak <= 30 << 20, "\(random)")
            }
        }
    }

    #if os(Linux)
    @available(macOS 26, iOS 26, *)
    @Test func `a phone's screen is turned upright, whole and halved, within thirty megabytes of real memory`() async {
        await #expect(processExitsWith: .success) {
            // The capture is the system's memory, not ours: it is there before the limit is.
            let (width, height) = (1290, 2796)
            let luma = [UInt8](repeating: 90, count: 1344 * height)
            let chroma = [UInt8](repeating: 128, count: 1344 * height / 2)
            limitMemory(more: 30 << 20)
            var pipeline = BroadcastPipeline()
            var planes = PlanarBuffer(size: PixelSize(width: 0, height: 0))
            for (step, orientation) in [PictureOrientation.up, .right].enumerated() {
                let now = ContinuousClock.now
                _ = pipeline.pressure(step == 1 ? .warning : .normal, at: now)
                let size = PixelSize(width: width, height: height)
                guard
                    case .encode(let target, let halved, _) = pipeline.captured(
                        size: size, orientation: orientation, at: now),
                    let view = BiplanarView(
                        size: size, luma: luma.span.bytes, lumaStride: 1344, chroma: chroma.span.bytes,
                        chromaStride: 1344)
                else { fatalError("it is encoded") }
                if planes.size != target {
                    planes = PlanarBuffer(size: PixelSize(width: 0, height: 0))
                    planes = PlanarBuffer(size: target)
                }
                planes.update(from: view, orientation: orientation, halved: halved)
                // An encoder's answer of the largest size.
                let encoded = [UInt8](repeating: 1, count: BroadcastPipeline.encodedLimit)
                precondition(pipeline.encoded(bytes: encoded.count), "it is in flight")
                pipeline.sent()
            }
        }
    }
    #endif
}
