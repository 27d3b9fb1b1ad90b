import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithScreen
import KithWire

/// The options of a screen that VNC viewers show.
struct ScreenVNCOptions: ParsableArguments {
    @Option(
        name: .customLong("vnc"),
        help: ArgumentHelp(
            "Let VNC viewers show it: the port they connect to on this machine, 0 for a free one, or the path of a Unix socket.",
            valueName: "port|path"))
    var port: String?
    @Option(
        name: .customLong("vnc-password-file"),
        help: ArgumentHelp(
            "The file whose first line is their password; without one it is made up.", valueName: "file"),
        completion: .file())
    var passwordFile: String?

    func validate() throws {
        guard let port else {
            guard passwordFile == nil else { throw ValidationError("--vnc-password-file goes with --vnc.") }
            return
        }
        if port.allSatisfy(\.isNumber) {
            guard UInt16(port) != nil else { throw ValidationError("A port is 0 to 65535.") }
        } else if !port.contains("/") {
            throw ValidationError("--vnc takes a port, or the path of a socket, such as ./laptop.sock.")
        } else if passwordFile != nil {
            throw ValidationError("Viewers at a Unix socket need no password: only this user's can connect.")
        }
    }

    /// Listens, and says where once there is a picture.
    func display(of device: String, _ globals: GlobalOptions) throws -> RFBDisplay {
        let port = port ?? "0"
        guard let number = UInt16(port) else {
            let address = ScreenVNCReport.Address(vnc: [port], password: nil)
            let report = ScreenVNCReport(address, isJSON: globals.json)
            return try RFBDisplay(at: .socket(path: port), name: "\(device) (kith)") { report.received($0) }
        }
        let password: [UInt8]
        if let passwordFile {
            password = try RFBAddress.password(inFile: passwordFile)
            if password.count > 8 { note("VNC uses the first eight characters of the password.") }
        } else {
            password = Self.freshPassword()
        }
        let report = ScreenVNCReport(.init(vnc: [], password: nil), isJSON: globals.json)
        let display = try RFBDisplay(
            at: .loopback(port: number, password: password), name: "\(device) (kith)"
        ) { report.received($0) }
        report.set(
            .init(
                vnc: display.endpoints.map { "\($0)" },
                password: passwordFile == nil ? String(decoding: password, as: UTF8.self) : nil))
        return display
    }

    /// Eight letters and digits that nobody takes for another: 39 bits.
    private static func freshPassword() -> [UInt8] {
        let letters = Array("abcdefghjkmnpqrstuvwxyz23456789".utf8)
        var random = SystemRandomNumberGenerator()
        return (0..<8).map { _ in letters[Int.random(in: 0..<letters.count, using: &random)] }
    }
}

/// Tells the person what happens at the port for VNC viewers.
final class ScreenVNCReport: Sendable {
    /// Where viewers connect.
    struct Address: Encodable, Sendable {
        var vnc: [String]
        var password: String?
    }

    private let address: Locked<Address>
    private let isJSON: Bool
    private let isFirst = Once()

    init(_ address: Address, isJSON: Bool) {
        self.address = Locked(address)
        self.isJSON = isJSON
    }

    func set(_ address: Address) { self.address.set(address) }

    func received(_ notice: RFBDisplay.Notice) {
        switch notice {
        case .active:
            guard isFirst.take() else { return note("The session is back.") }
            announce()
        case .reconnecting: note("The session was lost; it is sought again.")
        case .connected(let place): note("A viewer connected from \(place).")
        case .left(let place, let reason):
            note("The viewer from \(place) left" + (reason.map { ": \(printable($0))" } ?? "."))
        case .refused(let place, let reason): note("A viewer from \(place) was not let in: \(printable(reason))")
        case .controlled(let controller?): note("\(printable(controller)) controls the screen now.")
        case .controlled(nil): note("You control the screen again.")
        case .lit: note("The screen there is lit again.")
        }
    }

    private func announce() {
        let address = address.value
        // What cannot be encoded would be a mistake of ours: two strings can.
        if isJSON { return printLine((try? jsonText(address)) ?? "{}") }
        let place = address.vnc.first ?? ""
        printLine(
            "Connect a VNC viewer to \(printable(place))"
                + (address.password.map { ", password \($0)" } ?? "") + "; Ctrl-C ends the session.")
    }
}
