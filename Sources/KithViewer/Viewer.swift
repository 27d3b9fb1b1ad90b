import KithWindow
import KithWire

/// The program `kith-viewer`: the window with another device's screen.
///
/// It is started by `kith screen`, and by nobody else.
/// Descriptor 0 is the socket on which ``WindowCommand``s come and ``WindowEvent``s go. It has no key and no network.
@main
struct Viewer {
    static func main() {
        do {
            // Nothing else can come first.
            guard case .open(let options) = try WindowSocket.receive(WindowCommand.self, from: 0)?.message else {
                return
            }
            try show(options)
        } catch {
            // kith says it to the person; when it is gone, nobody listens.
            try? WindowSocket.send(WindowEvent.failed((error as? KithError)?.message ?? "\(error)"), to: 0)
        }
    }

    private static func show(_ options: WindowOptions) throws {
        #if Viewer && os(Linux) && canImport(CSDL2)
        let window = try SDLWindow(options)
        try window.run()
        #else
        throw KithError(.unsupported, "This kith-viewer was built without SDL, so it has no window.")
        #endif
    }
}
