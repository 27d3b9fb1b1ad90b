/// Runs `body` with the bytes and a NUL behind them.
package func withCString<Result>(_ bytes: [UInt8], _ body: (UnsafePointer<CChar>) -> Result) -> Result {
    var terminated = bytes
    terminated.append(0)
    return unsafe terminated.withUnsafeBufferPointer { buffer in
        unsafe buffer.withMemoryRebound(to: CChar.self) { buffer in
            guard let base = buffer.baseAddress else { preconditionFailure("an array with a NUL is not empty") }
            return unsafe body(base)
        }
    }
}
