/// The streams with something to send, by priority, in turn within one priority.
///
/// Queues are linked through ``Stream/nextScheduled``, so that a stream's turn costs no memory; there is one for each
/// priority of a stream that waits, which are few, so that a connection at rest keeps next to nothing.
struct StreamScheduler: Sendable {
    private struct Queue {
        let priority: UInt8
        var head: Int32
        var tail: Int32
    }

    /// None is empty; the most urgent, whose number is the lowest, is the last.
    private var queues: [Queue] = []

    /// Indicates whether no stream waits.
    var isEmpty: Bool { queues.isEmpty }

    /// Puts a stream at the end of its priority's queue, unless it waits already.
    mutating func append(_ slot: Int, in streams: inout ContiguousArray<Stream>) {
        guard !streams[slot].isScheduled else { return }
        let priority = streams[slot].priority
        streams[slot].isScheduled = true
        streams[slot].nextScheduled = -1
        var index = queues.count
        while index > 0, queues[index - 1].priority < priority { index -= 1 }
        if index > 0, queues[index - 1].priority == priority {
            streams[Int(queues[index - 1].tail)].nextScheduled = Int32(slot)
            queues[index - 1].tail = Int32(slot)
        } else {
            queues.insert(Queue(priority: priority, head: Int32(slot), tail: Int32(slot)), at: index)
        }
    }

    /// The stream whose turn it is.
    var next: Int? { queues.last.map { Int($0.head) } }

    /// Takes the stream whose turn it is out.
    mutating func removeNext(in streams: inout ContiguousArray<Stream>) {
        guard let slot = next else { return }
        let after = streams[slot].nextScheduled
        if after < 0 { queues.removeLast() } else { queues[queues.count - 1].head = after }
        streams[slot].isScheduled = false
        streams[slot].nextScheduled = -1
    }

    /// Takes a stream out wherever it stands; O(streams of its priority), for streams that end or change priority.
    mutating func remove(_ slot: Int, in streams: inout ContiguousArray<Stream>) {
        guard streams[slot].isScheduled else { return }
        let priority = streams[slot].priority
        guard let index = queues.firstIndex(where: { $0.priority == priority }) else {
            preconditionFailure("a scheduled stream's priority has a queue")
        }
        var previous: Int32 = -1
        var current = queues[index].head
        while current >= 0, current != Int32(slot) {
            previous = current
            current = streams[Int(current)].nextScheduled
        }
        guard current >= 0 else { preconditionFailure("a scheduled stream is in its queue") }
        let after = streams[slot].nextScheduled
        if previous < 0 { queues[index].head = after } else { streams[Int(previous)].nextScheduled = after }
        if queues[index].tail == Int32(slot) { queues[index].tail = previous }
        if queues[index].head < 0 { queues.remove(at: index) }
        streams[slot].isScheduled = false
        streams[slot].nextScheduled = -1
    }
}
