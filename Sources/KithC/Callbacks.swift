import CKith
import Dispatch
import KithIO
import KithRPC
import KithWire

/// A C function and the context it wants.
///
/// `@unchecked`: the header says that it is called from a thread of ours, one at a time.
@safe struct Callback<Function>: @unchecked Sendable {
    let function: Function
    let context: UnsafeMutableRawPointer?

    init(_ function: Function, _ context: UnsafeMutableRawPointer?) {
        self.function = function
        unsafe self.context = context
    }
}

/// The one thread on which callbacks come, in the order in which they were asked for.
enum Callbacks {
    private static let queue = DispatchQueue(label: "kith callbacks")

    /// Has `body` run there.
    static func post(_ body: @escaping @Sendable () -> Void) { queue.async(execute: body) }

    /// Has `body` run there, and waits until it has.
    static func run(_ body: @escaping @Sendable () -> Void) async {
        let done = Promise<Void>()
        queue.async {
            body()
            done.fulfil(())
        }
        await done.value()
    }
}

// MARK: - Errors

/// The error that C is told.
func told(_ error: any Error) -> KithError {
    switch error {
    case let error as KithError: error
    case is CancellationError: KithError(.cancelled, "The call was cancelled.")
    default: KithError(.internal, "It failed for a reason that has no words.", cause: error)
    }
}

extension kith_error {
    init(_ error: KithError) {
        self.init()
        code = Int32(truncatingIfNeeded: error.code.rpcCode)
        unsafe withUnsafeMutableBytes(of: &message) { buffer in
            // What is left is zero.
            unsafe buffer.copyBytes(from: error.message.prefix(bytes: buffer.count - 1).utf8)
        }
    }
}

/// Does `body`, and tells its error as the header says.
func attempt(_ error: UnsafeMutablePointer<kith_error>?, _ body: () throws -> Void) -> Int32 {
    do {
        try body()
        return KITH_OK
    } catch let thrown {
        let filled = kith_error(told(thrown))
        unsafe error?.pointee = filled
        return filled.code
    }
}

/// Calls with a pointer to an error, or with NULL.
func withError(_ error: KithError?, _ body: (UnsafePointer<kith_error>?) -> Void) {
    guard let error else { return body(nil) }
    unsafe withUnsafePointer(to: kith_error(error)) { unsafe body($0) }
}

/// Calls with a pointer to bytes that end in NUL, and their number.
func withText(_ bytes: [UInt8], _ body: (UnsafePointer<CChar>?, Int) -> Void) {
    unsafe (bytes + [0]).withUnsafeBytes {
        unsafe body($0.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count)
    }
}

// MARK: - Inputs

/// Copies what C passes as pointer and length.
func copied(_ start: UnsafePointer<CChar>?, _ count: Int, limit: Int, _ what: String) throws -> [UInt8] {
    guard count >= 0, count <= limit else {
        throw KithError(.exhausted, "\(what) has at most \(limit >> 10) KiB.")
    }
    guard let start = unsafe start else {
        guard count == 0 else { throw KithError(.invalid, "\(what) is NULL, but its length is not 0.") }
        return []
    }
    return unsafe [UInt8](UnsafeRawBufferPointer(start: start, count: count))
}

/// Copies a JSON value; without one, an empty object.
func value(_ start: UnsafePointer<CChar>?, _ count: Int, limit: Int = 4 << 20, _ what: String) throws -> JSONText {
    let bytes = try unsafe copied(start, count, limit: limit, what)
    return try JSONText(bytes.isEmpty ? Array("{}".utf8) : bytes)
}

/// Copies text that ends in NUL; `nil` for NULL.
func text(_ start: UnsafePointer<CChar>?, _ what: String) throws -> String? {
    guard let start = unsafe start else { return nil }
    guard let text = unsafe String(validatingCString: start) else { throw KithError(.invalid, "\(what) is not UTF-8.") }
    return text
}

/// Copies text that ends in NUL and has to be there.
func needed(_ start: UnsafePointer<CChar>?, _ what: String) throws -> String {
    guard let text = try unsafe text(start, what) else { throw KithError(.invalid, "\(what) is NULL.") }
    return text
}

/// The function that has to be there.
func given<Function>(_ function: Function?, _ what: String) throws -> Function {
    guard let function else { throw KithError(.invalid, "The callback \(what) is NULL.") }
    return function
}
