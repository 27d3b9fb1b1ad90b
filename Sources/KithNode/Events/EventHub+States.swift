import KithAPI
import KithWire

extension EventHub {
    /// Publishes the state of a part of the device itself, on this device, and retains it.
    func note(
        _ state: some Encodable & Sendable, of topic: String, in network: String = TopicPath.defaultNetwork
    ) {
        guard let topic = try? TopicPath(topic, network: network), let message = try? Events.Message(state) else {
            return
        }
        // Nobody can do anything about an event of our own that cannot be published.
        _ = try? publish(
            message, value: state, to: topic, options: PublishOptions(retain: .seconds(86_400), isLocal: true),
            isOwn: true)
    }
}
