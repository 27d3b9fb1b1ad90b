#if Screen && os(Linux) && canImport(CXCB)
import CXCB
import Glibc
import KithAPI
import KithWire

/// Takes pictures of a screen: through memory shared with the server, or else over the connection in bands of rows.
@safe final class X11Capture {  // the memory is mapped for as long as the object lives
    /// The bytes of one band.
    private static let bandLimit = 1 << 20

    private let connection: X11Connection
    private var size: (width: UInt32, height: UInt32) = (0, 0)
    private var shared: (segment: UInt32, memory: UnsafeMutableRawPointer, count: Int)?
    /// Whether the server has refused to share memory: one at another machine.
    private(set) var isRemote: Bool

    /// Takes none yet.
    init(_ connection: X11Connection, isShared: Bool = true) {
        self.connection = connection
        isRemote = !isShared || !connection.extensions.hasSharedMemory
    }

    deinit { unshare() }

    /// Makes ready for a screen of another size.
    func resize(width: UInt32, height: UInt32) {
        guard (width, height) != size else { return }
        size = (width, height)
        unshare()
        guard !isRemote else { return }
        let rowBytes = connection.format.rowBytes(Int(width))
        let count = min(rowBytes * Int(height), max(Self.bandLimit, rowBytes))
        if let shared = unsafe share(count) { unsafe self.shared = shared } else { isRemote = true }
    }

    /// Copies what is seen of `area` to its place in `target`, whose rows are `stride` bytes apart.
    ///
    /// - Throws: `KithError` `.unreachable` when the screen is gone, `.conflict` when it has another size by now.
    func copy(_ area: Screen.Rectangle, into target: UnsafeMutableRawBufferPointer, stride: Int) throws(KithError) {
        let whole = Screen.Rectangle(width: size.width, height: size.height)
        guard let seen = area.intersection(whole), let start = target.baseAddress else { return }
        let (width, height) = (Int(area.width), Int(area.height))
        let (needed, overflow) = (height - 1).multipliedReportingOverflow(by: stride)
        precondition(
            stride >= width * 4 && !overflow && needed <= target.count - width * 4,
            "a picture has less room than it takes")
        let offset = Int(seen.y - area.y) * stride + Int(seen.x - area.x) * 4
        let rowBytes = connection.format.rowBytes(Int(seen.width))
        do {
            let rows = max(Self.bandLimit / rowBytes, 1)
            for first in Swift.stride(from: 0, to: Int(seen.height), by: rows) {
                let count = min(rows, Int(seen.height) - first)
                let band = Screen.Rectangle(
                    x: seen.x, y: seen.y + Int32(first), width: seen.width, height: UInt32(count))
                let place = unsafe start + offset + first * stride
                if let shared = unsafe shared {
                    try unsafe image(band, in: shared.segment)
                    unsafe convert(shared.memory, rowBytes, band, to: place, stride)
                } else {
                    try unsafe image(band, rowBytes, to: place, stride)
                }
            }
        } catch {
            // The screen shrank, and the news of it is on its way.
            guard error.x11Refusal == UInt8(XCB_MATCH) else { throw error }
            throw KithError(.conflict, "The screen has another size now.", cause: error.cause)
        }
    }

    private func image(_ area: Screen.Rectangle, in segment: UInt32) throws(KithError) {
        let cookie = unsafe xcb_shm_get_image(
            connection.raw, connection.root, Int16(area.x), Int16(area.y), UInt16(area.width), UInt16(area.height),
            UInt32.max, UInt8(XCB_IMAGE_FORMAT_Z_PIXMAP.rawValue), segment, 0)
        try unsafe connection.reply(to: cookie, xcb_shm_get_image_reply) { _ in }
    }

    private func image(
        _ area: Screen.Rectangle, _ rowBytes: Int, to target: UnsafeMutableRawPointer, _ stride: Int
    ) throws(KithError) {
        let cookie = unsafe xcb_get_image(
            connection.raw, UInt8(XCB_IMAGE_FORMAT_Z_PIXMAP.rawValue), connection.root, Int16(area.x), Int16(area.y),
            UInt16(area.width), UInt16(area.height), UInt32.max)
        try unsafe connection.reply(to: cookie, xcb_get_image_reply) { reply in
            guard unsafe Int(xcb_get_image_data_length(reply)) >= rowBytes * Int(area.height),
                let data = unsafe xcb_get_image_data(reply)
            else { return }
            unsafe convert(UnsafeRawPointer(data), rowBytes, area, to: target, stride)
        }
    }

    private func convert(
        _ source: UnsafeRawPointer, _ rowBytes: Int, _ area: Screen.Rectangle, to target: UnsafeMutableRawPointer,
        _ stride: Int
    ) {
        for row in 0..<Int(area.height) {
            unsafe connection.format.convert(
                source + row * rowBytes, to: target + row * stride, width: Int(area.width))
        }
    }

    // MARK: - Shared memory

    /// Has the server make memory that both can use; `nil` when it cannot, or is another machine's.
    private func share(_ count: Int) -> (segment: UInt32, memory: UnsafeMutableRawPointer, count: Int)? {
        guard count > 0, let size = UInt32(exactly: count) else { return nil }
        let segment = connection.makeID()
        let raw = unsafe connection.raw
        guard let reply = unsafe xcb_shm_create_segment_reply(raw, xcb_shm_create_segment(raw, segment, size, 0), nil)
        else { return nil }
        defer { unsafe free(reply) }
        guard unsafe reply.pointee.nfd == 1, let descriptors = unsafe xcb_shm_create_segment_reply_fds(raw, reply)
        else {
            return nil
        }
        let descriptor = unsafe descriptors[0]
        defer { close(descriptor) }
        let memory = unsafe mmap(nil, count, PROT_READ, MAP_SHARED, descriptor, 0)
        guard unsafe memory != MAP_FAILED, let memory = unsafe memory else {
            unsafe xcb_shm_detach(raw, segment)
            return nil
        }
        return unsafe (segment, memory, count)
    }

    private func unshare() {
        guard let shared = unsafe shared else { return }
        unsafe xcb_shm_detach(connection.raw, shared.segment)
        unsafe munmap(shared.memory, shared.count)
        unsafe self.shared = nil
    }
}
#endif
