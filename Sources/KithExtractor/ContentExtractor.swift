import CKithSystem
package import KithContent
import KithIO
import KithWire
import Synchronization

/// Reads what is in files, in processes that are confined for it (`kith-extract`): at most so many at once, each for many
/// files, replaced after any fault.
///
/// A file that ends its process, or keeps it busy beyond the time limit, is tried once more in a new one; ``Fault/deadly``
/// says that it did so twice.
package final class ContentExtractor: Sendable {
    /// The reason a file was not read.
    package enum Fault: Error, Hashable {
        /// It ended two processes: it should not be tried again as it is.
        case deadly
        /// No process could be started, or none can be confined here.
        case unavailable(String)
        /// The task was cancelled.
        case cancelled
    }

    /// What was read of a file.
    package struct Result: Hashable, Sendable {
        package var content: ReadContent
        package var thumbnail: ContentExchange.Thumbnail?
        /// Why there is no thumbnail, as the end of a sentence.
        package var failure: String?
    }

    /// The limits.
    package struct Limits: Hashable, Sendable {
        /// The most processes at once.
        package var processes = 2
        /// The most files for one.
        package var files = 200
        /// The most milliseconds for a file.
        package var milliseconds = 20_000

        package init() {}
    }

    private let path: String
    private let limits: Limits
    private let slots: AsyncSemaphore
    private let disk = DiskExecutor()
    private let idle = Mutex<[Helper]>([])
    private let isClosed = Mutex(false)

    /// Makes one that starts the program at `path`.
    package init(path: String, limits: Limits = Limits()) {
        self.path = path
        self.limits = limits
        slots = AsyncSemaphore(limits.processes, limit: limits.processes)
    }

    /// Lets files be read again, after ``close()``.
    package func open() { isClosed.withLock { $0 = false } }

    /// Ends the processes that wait for files; those at work end with their file.
    package func close() {
        isClosed.withLock { $0 = true }
        let idle = idle.withLock { idle in
            defer { idle = [] }
            return idle
        }
        for helper in idle { helper.end() }
    }

    /// Reads an open file, from its beginning wherever its descriptor stands.
    ///
    /// - Parameters:
    ///   - descriptor: A descriptor to read from; it stays the caller's.
    ///   - wanted: What of it.
    ///   - side: The most pixels of a thumbnail's longer side, 16…1,024.
    /// - Returns: what was read.
    /// - Throws: ``Fault``.
    package func read(_ descriptor: Int32, _ wanted: WantedContent, side: Int = 256) async throws(Fault) -> Result {
        do { _ = try await slots.take() } catch { throw .cancelled }
        defer { slots.add(1) }
        let request = ContentExchange.Request(wanted: wanted, side: min(max(side, 16), 1_024))
        for _ in 0..<2 {
            let helper = try await helper()
            let answer = await ask(helper, request, descriptor)
            if let answer {
                if helper.files >= limits.files || isClosed.withLock(\.self) {
                    helper.end()
                } else {
                    idle.withLock { $0.append(helper) }
                }
                return answer
            }
            helper.end()
            if Task.isCancelled { throw .cancelled }
        }
        throw .deadly
    }

    /// A process that waits, or a new one.
    private func helper() async throws(Fault) -> Helper {
        if let helper = idle.withLock({ $0.popLast() }) { return helper }
        guard !isClosed.withLock(\.self) else { throw .cancelled }
        do { return try await disk.run { [path] in try Helper(path) } } catch let fault as Fault { throw fault } catch {
            throw .cancelled
        }
    }

    /// The answer of a process; `nil` when it gave none.
    private func ask(_ helper: Helper, _ request: ContentExchange.Request, _ descriptor: Int32) async -> Result? {
        let limit = limits.milliseconds
        return await withTaskCancellationHandler {
            // It throws only what the work does.
            try? await disk.run { helper.ask(request, descriptor, milliseconds: limit) }
        } onCancel: {
            helper.kill()
        }
    }
}

/// One process, and the socket to it.
private final class Helper: Sendable {
    private struct State {
        var files = 0
        var isEnded = false
    }

    private let socket: Int32
    private let process: Int32
    private let state = Mutex(State())

    /// Starts it and waits until it is confined.
    init(_ path: String) throws(ContentExtractor.Fault) {
        var (socket, process): (Int32, Int32) = (-1, -1)
        let status = unsafe kith_helper_start(path, &socket, &process)
        guard status == 0 else {
            throw .unavailable("\(path) cannot be started: \(SystemError(-status))")
        }
        (self.socket, self.process) = (socket, process)
        // Loading its libraries takes a moment, on a busy machine several.
        let ready = receive(5, milliseconds: 30_000)
        guard let ready, ready[0] == 0 else {
            let number = ready.map { head in (1...4).reduce(Int32(0)) { $0 | Int32(head[$1]) << (8 * Int32($1 - 1)) } }
            end()
            throw .unavailable(
                number.map { "files cannot be read safely on this system: \(SystemError($0))" }
                    ?? "\(path) ended at once")
        }
    }

    deinit { end() }

    var files: Int { state.withLock(\.files) }

    /// Ends it and waits for that; the second time nothing.
    func end() {
        let isFirst = state.withLock { state in
            defer { state.isEnded = true }
            return !state.isEnded
        }
        guard isFirst else { return }
        kith_socket_close(socket)
        _ = kith_helper_end(process)
    }

    /// Makes whoever waits for its answer get none.
    func kill() {
        state.withLock { state in
            if !state.isEnded { kith_helper_kill(process) }
        }
    }

    /// Hands it a file and waits for the answer, which blocks.
    func ask(_ request: ContentExchange.Request, _ descriptor: Int32, milliseconds: Int) -> ContentExtractor.Result? {
        state.withLock { $0.files += 1 }
        let deadline = ContinuousClock.now + .milliseconds(milliseconds)
        let bytes = request.bytes
        let status = unsafe bytes.withUnsafeBytes {
            unsafe kith_helper_send(socket, $0.baseAddress, $0.count, descriptor, Int32(clamping: milliseconds))
        }
        guard status == 0 else { return nil }
        var answer = ContentExchange.Answer()
        while true {
            let left = ContinuousClock.now.duration(to: deadline)
            let wait = left.components.seconds * 1_000 + left.components.attoseconds / 1_000_000_000_000_000
            guard wait > 0, let head = receive(ContentExchange.Frame.headSize, milliseconds: Int(wait)) else {
                return nil
            }
            do throws(ContentExchange.Answer.Fault) {
                let (frame, count) = try answer.next(head)
                guard let content = receive(count, milliseconds: Int(wait)) else { return nil }
                if try answer.received(frame, content) {
                    return ContentExtractor.Result(
                        content: answer.content, thumbnail: answer.thumbnail, failure: answer.failure)
                }
            } catch {
                // No answer at all: a process that sends such things is not asked again.
                return nil
            }
        }
    }

    private func receive(_ count: Int, milliseconds: Int) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        let status = unsafe bytes.withUnsafeMutableBytes {
            unsafe kith_helper_receive(socket, $0.baseAddress, $0.count, nil, Int32(clamping: milliseconds))
        }
        return status == 0 ? bytes : nil
    }
}
