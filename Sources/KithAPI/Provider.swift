/// The devices that may answer a request.
///
/// At the JSON doors it is the member `on`: absent for this device, a device's name or DeviceID, or `*` for any.
@frozen
public enum Provider: Hashable, Sendable {
    /// This device if it serves the path, else a device that has announced it.
    case any
    /// This device.
    case thisDevice
    /// A paired device: a name, a DeviceID or the beginning of one.
    case device(String)

    /// The value of the member `on` that means any.
    package static let anyText = "*"

    /// The member `on`.
    package var on: String? {
        switch self {
        case .any: Self.anyText
        case .thisDevice: nil
        case .device(let device): device
        }
    }

    /// Reads the member `on`.
    package init(on: String?) {
        self =
            switch on {
            case nil: .thisDevice
            case Self.anyText?: .any
            case let device?: .device(device)
            }
    }
}
