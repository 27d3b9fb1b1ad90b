package import KithWire

/// A stream that can be told that it carries one question and one answer, so that no packet is spent on its ends.
///
/// Whoever asks keeps its own direction open until the answer is there: breaking it off calls the work off.
package protocol CallStream: ByteStream {
    /// Has our direction end once the other one has, together with whatever is sent next, or soon.
    func finishWithInput()

    /// Says that the other end finishes its direction by itself once it has ours: when the stream is let go before, it is
    /// not told to stop, unless more bytes come.
    func expectInputEnd()

    /// Has `body` called, once, when the other end breaks its direction off, or the connection ends; `nil` takes it back.
    ///
    /// It is called on the thread that reads the network: it must not block.
    func whenInputFails(_ body: (@Sendable (KithError) -> Void)?)
}

/// A stream that shares a connection with others.
package protocol PrioritizedStream: ByteStream {
    /// Sets the priority of what is sent when the connection cannot carry everything at once: larger before smaller.
    func setPriority(_ priority: Int32)
}

extension ByteStream {
    /// The stream itself or the one beneath it that has a priority; `nil` when none has.
    package var prioritized: (any PrioritizedStream)? {
        (self as? any PrioritizedStream) ?? (self as? any StreamWrapper)?.base.prioritized
    }
}
