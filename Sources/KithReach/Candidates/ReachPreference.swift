/// The ways by which a device may be reached, chosen per device and per call.
@frozen
public enum ReachPreference: String, Hashable, Sendable, Codable, CaseIterable {
    /// Relay first, direct as soon as that works.
    case auto
    /// A relay only to meet: user data waits for a direct path.
    case direct
    /// Through a relay alone: no address of this device leaves it.
    case relay
    /// The local network and known addresses alone: nothing is sent outside.
    case local
}
