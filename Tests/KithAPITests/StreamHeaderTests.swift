import KithAPI
import KithWire
import Testing

private let trace = TraceContext(
    traceID: Array(1...16), spanID: Array(1...8), flags: 1)

@Suite struct `Stream headers` {
    @Test(arguments: [
        StreamHeader(method: "files.stat", input: [0xA0]),
        StreamHeader(method: "a", millisecondsLeft: 1, input: []),
        StreamHeader(
            method: String(repeating: "m", count: 128), millisecondsLeft: 1 << 40, trace: trace, input: [1, 2]),
        StreamHeader(method: "ü", input: [UInt8](repeating: 7, count: 1 << 20)),
    ])
    func `what is written reads the same`(header: StreamHeader) throws {
        let bytes = try header.encoded()
        let parsed = try #require(try StreamHeader.parse(bytes + [9, 9]))
        #expect(parsed.header == header)
        #expect(parsed.count == bytes.count)
        #expect(bytes.count <= StreamHeader.frameLimit + StreamHeader.inputLimit)
    }

    @Test func `a header that is not complete yet is waited for`() throws {
        let bytes = try StreamHeader(method: "files.stat", millisecondsLeft: 9, trace: trace, input: [1, 2, 3])
            .encoded()
        for count in 0..<bytes.count {
            #expect(try StreamHeader.parse(Array(bytes[..<count])) == nil)
        }
    }

    @Test func `the bytes are those of the table`() throws {
        let bytes = try StreamHeader(method: "ab", millisecondsLeft: 100, input: [0xA0]).encoded()
        #expect(bytes == [1, 2, 0x61, 0x62, 0x40, 100, 0, 1, 0xA0])
    }

    @Test func `what no continuation could complete is refused`() {
        #expect(throws: KithError(.unsupported, "")) { try StreamHeader.parse([2]) }
        #expect(throws: WireError.self) { try StreamHeader.parse([1, 0]) }  // no name
        #expect(throws: WireError.self) { try StreamHeader.parse([1, 0x40, 129]) }  // a name of 129
        #expect(throws: WireError.self) { try StreamHeader.parse([1, 1, 0xFF, 0, 0, 0]) }  // not UTF-8
        #expect(throws: WireError.self) { try StreamHeader.parse([1, 1, 0x61, 0, 2, 0]) }  // an unknown flag
        #expect(throws: WireError.self) {
            try StreamHeader.parse([1, 1, 0x61, 0, 0, 0x80, 0x10, 0x00, 0x01])  // 1 MiB + 1
        }
    }

    @Test func `what is too long is not sent`() {
        #expect(throws: KithError(.invalid, "")) {
            try StreamHeader(method: String(repeating: "m", count: 129), input: []).encoded()
        }
        #expect(throws: KithError(.invalid, "")) { try StreamHeader(method: "", input: []).encoded() }
        #expect(throws: KithError(.invalid, "")) {
            try StreamHeader(method: "m", input: [UInt8](repeating: 0, count: (1 << 20) + 1)).encoded()
        }
    }

    @Test func `random bytes never trap`() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("seed \(seed)")
        var random = SplitMix(state: seed)
        let good = try StreamHeader(method: "files.stat", millisecondsLeft: 9, trace: trace, input: [1, 2]).encoded()
        for _ in 0..<50_000 {
            var bytes = good
            for _ in 0..<Int.random(in: 1..<4, using: &random) {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] = random.next(upperBound: 255)
            }
            if let parsed = try? StreamHeader.parse(bytes) { #expect(parsed.count <= bytes.count) }
            _ = try? ResponseHead.parse(bytes)  // mostly refused
            _ = try? ResponseHead.parse([UInt8(random.next(upperBound: 3 as UInt64))] + bytes.dropFirst())
        }
    }
}

@Suite struct `Response heads` {
    @Test(arguments: [
        ResponseHead.success([]), .success([1, 2, 3]), .failure(code: .denied, message: "No grant."),
        .failure(code: .internal, message: ""),
    ])
    func `what is written reads the same`(head: ResponseHead) throws {
        let bytes = try head.encoded()
        let parsed = try #require(try ResponseHead.parse(bytes + [1]))
        #expect(parsed.head == head)
        #expect(parsed.count == bytes.count)
        for count in 0..<bytes.count { #expect(try ResponseHead.parse(Array(bytes[..<count])) == nil) }
    }

    @Test func `a long message is cut, whole characters`() throws {
        let bytes = try ResponseHead.failure(code: .invalid, message: String(repeating: "ü", count: 5000)).encoded()
        guard case .failure(.invalid, let message, _)? = try ResponseHead.parse(bytes)?.head else {
            Issue.record("not read")
            return
        }
        #expect(message.utf8.count <= 4096 && message.allSatisfy { $0 == "ü" })
    }

    @Test func `an application's own code and data arrive`() throws {
        let detail = try KithError.Detail("lamp.tooHot", data: ["degrees": 91])
        for message in ["It is too hot.", String(repeating: "é", count: 9_000)] {
            let bytes = try ResponseHead(KithError(.conflict, message, detail: detail)).encoded()
            // A device of an earlier version takes no more than this, and overlooks the detail.
            #expect(bytes.count <= 1 + 2 + ResponseHead.messageLimit + 128)
            guard case .failure(.conflict, let text, let read)? = try ResponseHead.parse(bytes)?.head else {
                Issue.record("no failure")
                return
            }
            #expect(message.hasPrefix(text) && !text.isEmpty)
            #expect(read == detail)
            #expect(try read?.value(as: [String: Int].self) == ["degrees": 91])
        }
        let full = try KithError.Detail(String(repeating: "c", count: 200), data: String(repeating: "d", count: 2_000))
        let bytes = try ResponseHead(KithError(.conflict, String(repeating: "m", count: 9_000), detail: full)).encoded()
        guard case .failure(_, _, full)? = try ResponseHead.parse(bytes)?.head else {
            Issue.record("the detail is not the same")
            return
        }
        #expect(throws: KithError(.exhausted, "")) {
            try KithError.Detail("lamp.tooHot", data: String(repeating: "d", count: 3_000))
        }
    }

    @Test func `what lies beneath an error stays here`() {
        struct Secret: Error {}
        #expect(ResponseHead(Secret()) == .failure(code: .internal, message: "The service failed."))
        #expect(ResponseHead(CancellationError()) == .failure(code: .cancelled, message: "The call was cancelled."))
    }

    @Test func `another status is refused`() {
        #expect(throws: WireError.self) { try ResponseHead.parse([2, 0]) }
        #expect(throws: WireError.self) { try ResponseHead.parse([0, 0x80, 0x40, 0x00, 0x01]) }  // 4 MiB + 1
        #expect(throws: WireError.self) { try ResponseHead.parse([1, 1, 0xFF]) }  // no CBOR
    }
}

@Suite struct `Trace contexts` {
    /// The example of W3C Trace Context §3.2.3.
    @Test func `the example of the recommendation`() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        let trace = TraceContext(traceparent: text)
        #expect(trace?.traceparent == text)
        #expect(trace?.flags == 1)
    }

    @Test(arguments: [
        "", "00", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
    ])
    func `what is none is refused`(text: String) {
        #expect(TraceContext(traceparent: text) == nil)
    }

    @Test func `a later version is read by its first fields`() {
        #expect(TraceContext(traceparent: "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more") != nil)
    }
}

/// SplitMix64, so that a failure can be repeated from its printed seed.
struct SplitMix: RandomNumberGenerator {
    var state: UInt64
    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
