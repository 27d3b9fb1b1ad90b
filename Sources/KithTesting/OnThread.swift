import Foundation
import KithIO

/// Runs work that blocks on a thread of its own, so that the tasks keep theirs, and waits for what it returns.
///
/// It is not cancelled: what is begun is waited for.
public func onThread<Value: Sendable, Failure: Error>(
    _ body: @escaping @Sendable () throws(Failure) -> Value
) async throws(Failure) -> Value {
    let promise = Promise<Result<Value, Failure>>()
    Thread.detachNewThread {
        do throws(Failure) {
            promise.fulfil(.success(try body()))
        } catch {
            promise.fulfil(.failure(error))
        }
    }
    return try await promise.value().get()
}
