#if os(macOS) && canImport(CoreServices)
import CoreServices
import Foundation
import Synchronization

/// The streams of macOS's FSEvents: one for each tree, which tells the folders in which something has changed.
final class FolderEventStreams: FolderEvents {
    /// What a stream tells, until it is read.
    private final class Box: Sendable {
        let top: ToldChanges
        let changes = Mutex(FolderWatcher.Changes())
        let tick: AsyncStream<Void>.Continuation

        init(_ path: [UInt8], _ tick: AsyncStream<Void>.Continuation) {
            (top, self.tick) = (ToldChanges(top: path), tick)
        }
    }

    /// A stream that runs; its number is its address.
    private struct Stream {
        let number: Int
        let box: Box
    }

    private struct State {
        var streams: [[UInt8]: Stream] = [:]
        var isFull = false
    }

    private let state = Mutex(State())
    private let queue = DispatchQueue(label: "kith.watch")
    private let ticks: AsyncStream<Void>
    private let tick: AsyncStream<Void>.Continuation

    init() { (ticks, tick) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1)) }

    deinit { for stream in state.withLock({ $0.streams }).values { Self.end(stream) } }

    var count: Int { state.withLock { $0.streams.count } }

    var isFull: Bool { state.withLock { $0.isFull } }

    func watch(_ folder: OpenFolder, at path: [UInt8]) {
        state.withLock { state in
            guard !state.streams.keys.contains(where: { path.isWithin($0) }) else { return }
            guard let stream = begin(path) else {
                state.isFull = true
                return
            }
            state.streams[path] = stream
        }
    }

    func forget(_ path: [UInt8]) {
        let ended = state.withLock { state in
            let ended = state.streams.filter { $0.key.isWithin(path) }
            for path in ended.keys { state.streams[path] = nil }
            return ended
        }
        for stream in ended.values { Self.end(stream) }
    }

    func wait() async {
        var iterator = ticks.makeAsyncIterator()
        _ = await iterator.next()
    }

    func read(into changes: inout FolderWatcher.Changes) -> Bool {
        var hadSome = false
        for box in state.withLock({ $0.streams.values.map(\.box) }) {
            let new = box.changes.withLock { told in
                defer { told = FolderWatcher.Changes() }
                return told
            }
            if new.isEmpty { continue }
            hadSome = true
            changes.formUnion(new)
        }
        return hadSome
    }

    // MARK: - Streams

    private func begin(_ path: [UInt8]) -> Stream? {
        let box = Box(path, tick)
        // The stream lets go of the box at its end.
        var context = unsafe FSEventStreamContext(
            version: 0, info: Unmanaged.passRetained(box).toOpaque(), retain: nil,
            release: { info in if let info = unsafe info { unsafe Unmanaged<Box>.fromOpaque(info).release() } },
            copyDescription: nil)
        let flags = kFSEventStreamCreateFlagNoDefer | kFSEventStreamCreateFlagWatchRoot
        let paths = unsafe (path + [0]).withUnsafeBufferPointer { bytes in
            unsafe bytes.withMemoryRebound(to: CChar.self) { text -> CFArray? in
                guard let text = text.baseAddress,
                    var name = unsafe CFStringCreateWithFileSystemRepresentation(nil, text)
                else { return nil }
                var callbacks = unsafe kCFTypeArrayCallBacks
                return unsafe withUnsafeMutablePointer(to: &name) { name in
                    unsafe UnsafeMutableRawPointer(name).withMemoryRebound(to: UnsafeRawPointer?.self, capacity: 1) {
                        unsafe CFArrayCreate(nil, $0, 1, &callbacks)
                    }
                }
            }
        }
        let stream = unsafe paths.flatMap { paths in
            unsafe FSEventStreamCreate(
                nil,
                { _, info, count, paths, flags, _ in
                    guard let info = unsafe info else { return }
                    let box = unsafe Unmanaged<Box>.fromOpaque(info).takeUnretainedValue()
                    let names = unsafe paths.assumingMemoryBound(to: UnsafePointer<CChar>.self)
                    box.changes.withLock { changes in
                        for number in 0..<count {
                            let name = unsafe UnsafeRawBufferPointer(
                                start: names[number], count: strlen(names[number]))
                            unsafe box.top.add(name, .init(rawValue: flags[number]), to: &changes)
                        }
                    }
                    box.tick.yield()
                },
                &context, paths, FSEventStreamEventId(kFSEventStreamEventIdSinceNow), 0.1,
                FSEventStreamCreateFlags(flags))
        }
        guard let stream = unsafe stream else {
            unsafe Unmanaged.passUnretained(box).release()
            return nil
        }
        unsafe FSEventStreamSetDispatchQueue(stream, queue)
        let started = Stream(number: Int(bitPattern: stream), box: box)
        guard unsafe FSEventStreamStart(stream) else {
            unsafe FSEventStreamInvalidate(stream)
            unsafe FSEventStreamRelease(stream)
            return nil
        }
        return started
    }

    private static func end(_ stream: Stream) {
        guard let stream = unsafe OpaquePointer(bitPattern: stream.number) else { return }
        unsafe FSEventStreamStop(stream)
        unsafe FSEventStreamInvalidate(stream)
        unsafe FSEventStreamRelease(stream)
    }
}
#endif
