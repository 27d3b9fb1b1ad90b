import KithIdentity
import KithNet
import KithStore
import KithWire
import Logging

/// Keeps what an endpoint remembers of its peers while no process runs: in the store, sealed with the device's key.
///
/// With it a device that was restarted asks its peers in the first flight again. Worth a round trip, so what goes wrong
/// with it is no failure.
struct SealedSessionCache {
    private static let name = "peer memory"
    private static let label = "kith peer memory 1"

    let key: DeviceKey
    let store: Store
    let logger: Logger

    /// Takes what the process before kept out of the store; empty when there is none.
    func take() -> [UInt8] {
        do {
            guard let text = try store.takeSetting(Self.name), let sealed = Base64.decode(text) else { return [] }
            return key.unseal(sealed, Self.label) ?? []
        } catch {
            logger.warning("the session cache cannot be read, and begins empty: \(error)")
            return []
        }
    }

    /// Keeps it for the next process.
    func keep(_ cache: [UInt8]) {
        guard !cache.isEmpty else { return }
        do {
            try store.setSetting(Self.name, Base64.encode(key.seal(cache, Self.label)))
        } catch {
            logger.warning("the session cache cannot be stored: \(error)")
        }
    }
}
