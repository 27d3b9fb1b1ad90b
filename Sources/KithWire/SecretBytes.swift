import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Secret bytes: overwritten with zeros when the last reference goes.
///
/// ``lasting(count:_:)`` makes those that live as long as the process: in pages of their own, which are kept from the
/// swap, from core dumps and from children that the process forks, as far as the system lets it.
///
/// No description shows a byte.
@safe public final class SecretBytes: Sendable {
    // Sendable by hand: written in `init`, only read after, zeroed by the last owner.
    private nonisolated(unsafe) let storage: UnsafeMutableRawBufferPointer
    private let hasOwnPages: Bool

    /// The number of bytes.
    public let count: Int

    /// Copies `bytes`; clearing its own copy is up to the caller.
    public convenience init(_ bytes: [UInt8]) {
        unsafe self.init(count: bytes.count) { unsafe $0.copyBytes(from: bytes) }
    }

    /// Allocates `count` zeroed bytes and lets `fill` write them.
    public convenience init(count: Int, _ fill: (UnsafeMutableRawBufferPointer) -> Void) {
        let storage = UnsafeMutableRawBufferPointer.allocate(byteCount: max(count, 1), alignment: 16)
        unsafe storage.initializeMemory(as: UInt8.self, repeating: 0)
        unsafe self.init(storage, count: count, hasOwnPages: false)
        unsafe fill(UnsafeMutableRawBufferPointer(rebasing: storage.prefix(count)))
    }

    /// Takes `count` zeroed bytes of pages of their own, and lets `fill` write them.
    public static func lasting(count: Int, _ fill: (UnsafeMutableRawBufferPointer) -> Void) -> SecretBytes {
        guard let pages = unsafe Pages.take(count) else { return unsafe SecretBytes(count: count, fill) }
        unsafe fill(UnsafeMutableRawBufferPointer(rebasing: pages.prefix(count)))
        return unsafe SecretBytes(pages, count: count, hasOwnPages: true)
    }

    /// Moves `bytes` to pages of their own: the array is left with zeros, unless it is shared.
    public static func lasting(moving bytes: inout [UInt8]) -> SecretBytes {
        defer { bytes.clear() }
        return unsafe lasting(count: bytes.count) { unsafe $0.copyBytes(from: bytes) }
    }

    private init(_ storage: UnsafeMutableRawBufferPointer, count: Int, hasOwnPages: Bool) {
        unsafe self.storage = storage
        self.count = count
        self.hasOwnPages = hasOwnPages
    }

    deinit {
        unsafe clearMemory(storage)
        if hasOwnPages { unsafe Pages.giveBack(storage) } else { unsafe storage.deallocate() }
    }

    /// Lends the bytes for the length of a call.
    public func withUnsafeBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        unsafe try body(UnsafeRawBufferPointer(rebasing: storage.prefix(count)))
    }

    /// The first `count` bytes, in pages of their own.
    public func prefix(_ count: Int) -> SecretBytes {
        unsafe withUnsafeBytes { bytes in
            let part = unsafe UnsafeRawBufferPointer(rebasing: bytes.prefix(count))
            return unsafe SecretBytes.lasting(count: part.count) { unsafe $0.copyMemory(from: part) }
        }
    }

    /// The number of lasting secrets of this process that could not be kept from swap (`RLIMIT_MEMLOCK`).
    public static var unlockedCount: Int { Pages.unlocked.load(ordering: .relaxed) }
}

extension SecretBytes: CustomStringConvertible, CustomReflectable {
    /// Says how many bytes there are.
    public var description: String { "\(count) secret bytes" }

    /// Shows no children, so that `dump` cannot print a byte.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension [UInt8] {
    /// Overwrites all elements with zeros that no optimiser removes; a copy that another array shares stays as it is.
    public mutating func clear() { unsafe withUnsafeMutableBytes { unsafe clearMemory($0) } }
}

/// Writes zeros that no optimiser removes.
private func clearMemory(_ memory: UnsafeMutableRawBufferPointer) {
    guard let base = memory.baseAddress else { return }
    #if canImport(Darwin)
    unsafe memset_s(base, memory.count, 0, memory.count)
    #else
    unsafe explicit_bzero(base, memory.count)
    #endif
}

/// Memory by the page.
private enum Pages {
    static let unlocked = Atomic(0)

    /// Maps zeroed pages for `count` bytes; `nil` when the system has none.
    static func take(_ count: Int) -> UnsafeMutableRawBufferPointer? {
        let page = Int(sysconf(Int32(_SC_PAGESIZE)))
        guard page > 0, count >= 0, count <= 1 << 20 else { return nil }
        let size = max(1, (count + page - 1) / page) * page
        let base = unsafe mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | anonymous, -1, 0)
        guard let base = unsafe base, unsafe base != MAP_FAILED else { return nil }
        if unsafe mlock(base, size) != 0 { unlocked.add(1, ordering: .relaxed) }
        // An older kernel knows less advice, which is not a reason to do without the secret.
        for advice in advice { _ = unsafe madvise(base, size, advice) }
        return unsafe UnsafeMutableRawBufferPointer(start: base, count: size)
    }

    static func giveBack(_ pages: UnsafeMutableRawBufferPointer) { unsafe munmap(pages.baseAddress, pages.count) }

    #if canImport(Darwin)
    private static let anonymous = MAP_ANON
    private static let advice: [Int32] = []
    #else
    private static let anonymous = MAP_ANONYMOUS
    /// The advice for its pages: left out of core dumps (`MADV_DONTDUMP`), zeros in a child (`MADV_WIPEONFORK`).
    private static let advice: [Int32] = [16, 18]
    #endif
}
