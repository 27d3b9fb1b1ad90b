#if os(Linux)
import Foundation

/// Tells systemd how this process does, where it was started as a service of the type notify (sd_notify(3)).
enum ServiceNotice {
    /// It answers.
    static func ready() { send("READY=1\nMAINPID=\(getpid())") }

    /// It is about to end.
    static func stopping() { send("STOPPING=1") }

    /// The socket, which is asked for once: shells that this process opens must not speak for it.
    private static let path: String? = {
        defer { unsafe unsetenv("NOTIFY_SOCKET") }
        return unsafe getenv("NOTIFY_SOCKET").map { unsafe String(cString: $0) }
    }()

    /// Sends a state; nobody is told when nobody asked, or does not listen any more.
    private static func send(_ state: String) {
        guard let path, path.hasPrefix("/") || path.hasPrefix("@") else { return }
        // An abstract socket's name begins with a NUL in place of the sign.
        var name = Array(path.utf8)
        if name[0] == UInt8(ascii: "@") { name[0] = 0 }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        guard name.count < MemoryLayout.size(ofValue: address.sun_path) else { return }
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: name) }
        let isAbstract = name[0] == 0
        let length =
            MemoryLayout<sockaddr_un>.size - MemoryLayout.size(ofValue: address.sun_path) + name.count
            + (isAbstract ? 0 : 1)
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        let bytes = Array(state.utf8)
        unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                _ = unsafe sendto(
                    descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT), $0, socklen_t(length))
            }
        }
    }
}
#else
/// launchd asks for no notice.
enum ServiceNotice {
    /// It answers.
    static func ready() {}

    /// It is about to end.
    static func stopping() {}
}
#endif
