package import KithWire

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// The place a device's screen comes from, as it is typed: `auto`, `none`, `x11::0`, `vnc://localhost:5901`.
package enum ScreenOrigin: Hashable, Sendable {
    /// The X server that `DISPLAY` names, or the only one of this machine.
    case automatic
    /// None: the device has no screen.
    case none
    /// An X server, by its display.
    case x11(String)
    /// A server of the remote framebuffer protocol.
    case vnc(RFBAddress)

    /// Reads the text form; `passwordFile` is the file with the password of a VNC server.
    ///
    /// - Throws: `.invalid` for anything else.
    package init(parsing text: String, passwordFile: String? = nil) throws(KithError) {
        if text.hasPrefix("vnc:") {
            self = .vnc(try RFBAddress(parsing: text, passwordFile: passwordFile))
            return
        }
        guard passwordFile == nil else {
            throw KithError(.invalid, "Only a VNC server has a password: give a screen such as vnc://localhost:5901.")
        }
        switch text {
        case "auto": self = .automatic
        case "none": self = .none
        default:
            guard text.hasPrefix("x11:"), text.utf8.count > 4, text.utf8.count <= 128 else {
                throw KithError(
                    .invalid,
                    "“\(text.prefix(64))” is not a screen: auto, none, x11:DISPLAY as in x11::0, or vnc://HOST:PORT.")
            }
            self = .x11(String(text.dropFirst(4)))
        }
    }

    /// Opens the screen; `darkness` is the path of `kith-dark`, without which an X server's cannot be kept dark.
    ///
    /// - Throws: `.notFound` when there is none, saying what to do about it.
    package func open(darkness: String? = nil) async throws -> any ScreenSource {
        switch self {
        case .none: throw KithError(.notFound, "That device shows no screen: it was started with --screen-source none.")
        case .automatic:
            guard let display = Self.display else {
                throw KithError(
                    .notFound,
                    "That device has no screen: it was started without $DISPLAY. There: kith up --screen-source x11::0."
                )
            }
            return try await Self.x11(display, darkness)
        case .x11(let display): return try await Self.x11(display, darkness)
        case .vnc(let address): return try await RFBSource.open(address)
        }
    }

    /// What a person should know before they use it, in one sentence.
    package var warning: String? {
        guard case .vnc(let address) = self, !address.isLoopback else { return nil }
        return
            "The screen \(address) is on another machine: what it shows and all that is typed there crosses the network "
            + "unencrypted. A kith device on that machine, or an SSH tunnel, keeps it private."
    }

    private static func x11(_ display: String, _ darkness: String?) async throws -> any ScreenSource {
        #if Screen && os(Linux) && canImport(CXCB)
        return try await X11Source.open(display: display, darkness: darkness)
        #else
        throw KithError(.unsupported, "That device was built without screens of X servers (the trait Screen).")
        #endif
    }

    /// The display of `DISPLAY`, or of the only X server that has a socket here.
    private static var display: String? {
        #if os(Linux)
        if let named = unsafe getenv("DISPLAY").map({ unsafe String(cString: $0) }), !named.isEmpty { return named }
        guard let folder = unsafe opendir("/tmp/.X11-unix") else { return nil }
        defer { unsafe closedir(folder) }
        var names: [String] = []
        while let entry = unsafe readdir(folder) {
            let name = unsafe withUnsafeBytes(of: entry.pointee.d_name) { bytes in
                unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name.hasPrefix("X"), let number = Int(name.dropFirst()) { names.append(":\(number)") }
        }
        return names.count == 1 ? names[0] : nil
        #else
        return nil
        #endif
    }
}
