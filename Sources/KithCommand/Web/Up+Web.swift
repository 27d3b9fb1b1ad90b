import ArgumentParser
import Foundation
import Kith
import KithWire

#if Web
import KithWeb
#endif

extension UpCommand {
    /// Whether the page is served from the start, and at which port.
    enum WebPage: Hashable, CustomStringConvertible {
        case off
        case on(port: UInt16?)

        var description: String {
            switch self {
            case .off: "no"
            case .on(nil): "yes"
            case .on(let port?): String(port)
            }
        }
    }

    /// Reads whether and where the page is served.
    static func webPage(_ argument: String) throws -> WebPage {
        switch argument {
        case "no": return .off
        case "yes": return .on(port: nil)
        default:
            guard let port = UInt16(argument), port != 0 else {
                throw ValidationError("--web takes a port, such as 8080; yes, for the one kept; or no.")
            }
            return .on(port: port)
        }
    }

    /// Has the device serve its page in the browser: from the start, or as soon as somebody asks for it.
    ///
    /// - Returns: the page's address, where it is served from the start.
    func serveWebPage(of device: Device) async throws -> String? {
        #if Web
        var page = WebService.Options()
        if case .on(let port) = web { (page.opensAtStart, page.port) = (true, port) }
        page.environment = ProcessInfo.processInfo.environment
        let service = WebService(for: device, options: page, logger: globals.logger)
        try device.add(service)
        do {
            try await service.openIfWanted()
        } catch let error as KithError where error.code == .conflict {
            // The device is wanted without its page, too.
            note(error.message)
        }
        return service.page
        #else
        if web != .off { throw WebCommand.missing }
        return nil
        #endif
    }
}
