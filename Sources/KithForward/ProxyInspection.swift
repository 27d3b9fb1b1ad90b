import KithAPI
import KithWire

/// Reads what programs send to a local proxy, without a connection: for fuzzers.
package enum ProxyInspection {
    /// Reads bytes as each message of SOCKS.
    package static func socks(_ bytes: [UInt8]) {
        // A refusal is an answer.
        if let greeting = try? SOCKS.greeting(bytes) {
            precondition(greeting.count <= bytes.count, "A greeting ends within its bytes")
        }
        if let password = try? SOCKS.password(bytes) {
            precondition(password.count <= bytes.count, "A password ends within its bytes")
        }
        if let request = try? SOCKS.request(bytes) {
            precondition(request.count <= bytes.count, "A request ends within its bytes")
        }
        if let datagram = SOCKS.datagram(bytes) {
            precondition(datagram.payload.count < bytes.count, "A datagram has a head")
        }
    }

    /// Reads bytes as a request to a proxy of HTTP and as what follows it, in pieces of `size` bytes.
    package static func http(_ bytes: [UInt8], inPiecesOf size: Int) {
        guard let end = HTTPProxyRequest.endOfHead(bytes) else { return }
        precondition(end <= bytes.count, "A head ends within its bytes")
        guard let request = try? HTTPProxyRequest(parsing: Array(bytes[..<end])) else { return }  // a refusal
        var meter = HTTPBodyMeter(request.body)
        for start in stride(from: end, to: bytes.count, by: size) {
            let piece = Array(bytes[start..<min(start + size, bytes.count)])
            guard let taken = try? meter.take(piece) else { return }  // a refusal
            precondition(taken == piece.count || meter.hasEnded, "What is not taken is behind the end")
            if meter.hasEnded { return }
        }
    }
}
