// What KithIndex uses of FSEvents and of Core Foundation, declared as Apple declares it and doing nothing: on Linux the
// adapter is type-checked against this (scripts/apple-typecheck).

public final class CFAllocator {}
public final class CFArray {}
public final class CFString {}
@unsafe public struct CFArrayCallBacks {}

public typealias CFIndex = Int
public typealias CFTimeInterval = Double
public typealias CFAllocatorRetainCallBack = @convention(c) (UnsafeRawPointer?) -> UnsafeRawPointer?
public typealias CFAllocatorReleaseCallBack = @convention(c) (UnsafeRawPointer?) -> Void
public typealias CFAllocatorCopyDescriptionCallBack = @convention(c) (UnsafeRawPointer?) -> UnsafeRawPointer?

public var kCFTypeArrayCallBacks: CFArrayCallBacks { .init() }

public func CFStringCreateWithFileSystemRepresentation(
    _ allocator: CFAllocator!, _ buffer: UnsafePointer<CChar>!
) -> CFString! { nil }
public func CFArrayCreate(
    _ allocator: CFAllocator!, _ values: UnsafeMutablePointer<UnsafeRawPointer?>!, _ count: CFIndex,
    _ callBacks: UnsafePointer<CFArrayCallBacks>!
) -> CFArray! { nil }

public typealias FSEventStreamRef = OpaquePointer
public typealias ConstFSEventStreamRef = OpaquePointer
public typealias FSEventStreamCreateFlags = UInt32
public typealias FSEventStreamEventFlags = UInt32
public typealias FSEventStreamEventId = UInt64
public typealias FSEventStreamCallback =
    @convention(c) (
        ConstFSEventStreamRef, UnsafeMutableRawPointer?, Int, UnsafeMutableRawPointer,
        UnsafePointer<FSEventStreamEventFlags>, UnsafePointer<FSEventStreamEventId>
    ) -> Void

public struct FSEventStreamContext {
    public init(
        version: CFIndex, info: UnsafeMutableRawPointer?, retain: CFAllocatorRetainCallBack?,
        release: CFAllocatorReleaseCallBack?, copyDescription: CFAllocatorCopyDescriptionCallBack?
    ) {}
}

public var kFSEventStreamCreateFlagNoDefer: Int { 2 }
public var kFSEventStreamCreateFlagWatchRoot: Int { 4 }
public var kFSEventStreamEventIdSinceNow: UInt { .max }

public func FSEventStreamCreate(
    _ allocator: CFAllocator?, _ callback: FSEventStreamCallback,
    _ context: UnsafeMutablePointer<FSEventStreamContext>?,
    _ pathsToWatch: CFArray, _ sinceWhen: FSEventStreamEventId, _ latency: CFTimeInterval,
    _ flags: FSEventStreamCreateFlags
) -> FSEventStreamRef? { nil }
public func FSEventStreamSetDispatchQueue(_ stream: FSEventStreamRef, _ queue: AnyObject?) {}
public func FSEventStreamStart(_ stream: FSEventStreamRef) -> Bool { false }
public func FSEventStreamStop(_ stream: FSEventStreamRef) {}
public func FSEventStreamInvalidate(_ stream: FSEventStreamRef) {}
public func FSEventStreamRelease(_ stream: FSEventStreamRef) {}
