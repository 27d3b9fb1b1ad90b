package import KithWire

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// The place a device's screen comes from, as it is typed: `auto`, `none`, `x11::0`.
package enum ScreenOrigin: Hashable, Sendable {
    /// The X server that `DISPLAY` names, or the only one of this machine.
    case automatic
    /// None: the device has no screen.
    case none
    /// An X server, by its display.
    case x11(String)

    /// Reads the text form.
    ///
    /// - Throws: `.invalid` for anything else.
    package init(parsing text: String) throws(KithError) {
        switch text {
        case "auto": self = .automatic
        case "none": self = .none
        default:
            guard text.hasPrefix("x11:"), text.utf8.count > 4, text.utf8.count <= 128 else {
                throw KithError(
                    .invalid, "“\(text.prefix(64))” is not a screen: auto, none, or x11:DISPLAY as in x11::0.")
            }
            self = .x11(String(text.dropFirst(4)))
        }
    }

    /// Opens the screen.
    ///
    /// - Throws: `.notFound` when there is none, saying what to do about it.
    package func open() async throws -> any ScreenSource {
        switch self {
        case .none: throw KithError(.notFound, "That device shows no screen: it was started with --screen-source none.")
        case .automatic:
            guard let display = Self.display else {
                throw KithError(
                    .notFound,
                    "That device has no screen: it was started without $DISPLAY. There: kith up --screen-source x11::0."
                )
            }
            return try await Self.x11(display)
        case .x11(let display): return try await Self.x11(display)
        }
    }

    private static func x11(_ display: String) async throws -> any ScreenSource {
        #if Screen && os(Linux) && canImport(CXCB)
        return try await X11Source.open(display: display)
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
