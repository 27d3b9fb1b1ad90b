#if Viewer && os(Linux) && canImport(CSDL2)
import CSDL2

/// The settings that a desktop leaves with an X server, its resolution among them: SDL 2 does not read them.
enum X11Resources {
    private typealias Open = @convention(c) (UnsafePointer<CChar>?) -> OpaquePointer?
    private typealias Read = @convention(c) (OpaquePointer) -> UnsafePointer<CChar>?
    private typealias Close = @convention(c) (OpaquePointer) -> Int32

    /// What they say; `nil` on other systems, and where there are none.
    static var text: String? {
        // The library that SDL itself has loaded.
        guard let driver = unsafe SDL_GetCurrentVideoDriver(), unsafe String(cString: driver) == "x11",
            let library = unsafe SDL_LoadObject("libX11.so.6")
        else { return nil }
        defer { unsafe SDL_UnloadObject(library) }
        guard let open = unsafe SDL_LoadFunction(library, "XOpenDisplay"),
            let read = unsafe SDL_LoadFunction(library, "XResourceManagerString"),
            let close = unsafe SDL_LoadFunction(library, "XCloseDisplay"),
            let display = unsafe unsafeBitCast(open, to: Open.self)(nil)
        else { return nil }
        defer { _ = unsafe unsafeBitCast(close, to: Close.self)(display) }
        return unsafe unsafeBitCast(read, to: Read.self)(display).map { unsafe String(cString: $0) }
    }
}
#endif
