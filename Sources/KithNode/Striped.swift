#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif
import Synchronization

/// A value in several copies, each under a lock of its own, so that threads seldom wait for each other.
///
/// What the copies mean together is up to their owner: parts of a sum, or the same for all.
final class Striped<Value: Sendable>: Sendable {
    private final class Stripe: Sendable {
        let content: Mutex<Value>
        // Keeps the locks of two stripes on cache lines of their own.
        private let distance: (UInt64, UInt64, UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0, 0, 0)

        init(_ value: Value) { content = Mutex(value) }
    }

    private let stripes: [Stripe]

    /// Begins with copies of `value`.
    init(_ value: Value) { stripes = (0..<8).map { _ in Stripe(value) } }

    /// Uses the copy of the calling thread; it may be another's as well.
    func withNearest<Result: Sendable, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        #if canImport(Darwin)
        let thread = UInt(bitPattern: unsafe pthread_self())
        #else
        let thread = UInt(pthread_self())
        #endif
        return try stripe(thread).content.withLock { value throws(Failure) in try body(&value) }
    }

    /// Uses the copy of an object, which is always the same one.
    func with<Result: Sendable, Failure: Error>(
        copyOf object: AnyObject, _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try stripe(UInt(bitPattern: ObjectIdentifier(object))).content.withLock { value throws(Failure) in
            try body(&value)
        }
    }

    /// Uses each copy in turn.
    func withEach(_ body: (inout Value) -> Void) {
        for stripe in stripes { stripe.content.withLock { body(&$0) } }
    }

    private func stripe(_ address: UInt) -> Stripe {
        // Addresses differ in their middle bits: multiplying brings all of them to the top.
        stripes[Int((UInt64(address) &* 0x9E37_79B9_7F4A_7C15) >> 61)]
    }
}

/// A value that many threads read and few change.
final class ReadMostly<Value: Sendable>: Sendable {
    private let own: Mutex<Value>
    private let copies: Striped<Value>

    /// Begins with `value`.
    init(_ value: Value) {
        own = Mutex(value)
        copies = Striped(value)
    }

    /// Reads it.
    func read<Result>(_ body: (Value) -> Result) -> Result where Result: Sendable {
        copies.withNearest { body($0) }
    }

    /// Changes it; whoever reads afterwards reads the change.
    func update<Result: Sendable, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try own.withLock { value throws(Failure) in
            defer {
                let value = value
                copies.withEach { $0 = value }
            }
            return try body(&value)
        }
    }
}
