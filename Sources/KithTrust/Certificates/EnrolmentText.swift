public import KithIdentity

/// A device that waits to be enrolled, and its code, as one text: for a QR code.
///
/// `kith-enrol1-` and the letters of the DeviceID, a hyphen, and the code.
public struct EnrolmentText: Hashable, Sendable {
    private static let mark = "kith-enrol1-"

    /// The device.
    public let device: DeviceID
    /// The code that it shows.
    public let code: EnrolmentCode

    /// Puts them together.
    public init(_ device: DeviceID, _ code: EnrolmentCode) {
        self.device = device
        self.code = code
    }

    /// Reads the text; `nil` when it is not one.
    public init?(_ text: String) {
        guard text.utf8.count <= 256 else { return nil }
        let text = text.lowercased()
        guard text.hasPrefix(Self.mark) else { return nil }
        let letters = text.dropFirst(Self.mark.count).filter { $0 != "-" && $0 != " " }
        guard letters.utf8.count == 63, let device = DeviceID(String(letters.prefix(55))),
            let code = EnrolmentCode(String(letters.suffix(8)))
        else { return nil }
        self.init(device, code)
    }

    /// Tells whether a text is meant for one.
    public static func isMeant(_ text: String) -> Bool { text.lowercased().hasPrefix(mark) }

    /// The text form: a secret until it is used.
    public var text: String {
        Self.mark + DeviceCertificate.letters(device) + "-" + code.description.filter { $0 != "-" }
    }
}
