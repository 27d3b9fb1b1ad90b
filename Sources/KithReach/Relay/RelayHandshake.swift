package import KithIdentity

/// The proof of a client's key to a relay.
///
///     client                            relay
///            ◀──────── challenge ──────
///            ─────────── proof ───────▶
///            ◀──── confirmed, denied ──
package enum RelayHandshake {
    /// The purpose of the derived key, in the words of the protocol.
    static let context = "iroh-relay handshake v1 challenge signature"

    /// The bytes that a client signs for a challenge.
    package static func signedBytes(for challenge: [UInt8]) -> [UInt8] {
        BLAKE3.derivedKey(context: context, material: challenge)
    }

    /// The reason a handshake failed.
    package enum Failure: Error, Hashable, Sendable {
        /// A frame that does not belong there.
        case unexpected
        /// The signature is not the key's.
        case signature
        /// The device's own key could not sign.
        case key
    }

    /// The relay's end.
    package struct Server: Hashable, Sendable {
        private let challenge: [UInt8]

        /// Starts with a challenge of its own.
        package init(using random: inout some RandomNumberGenerator) {
            challenge = (0..<RelayFrame.challengeLength).map { _ in UInt8.random(in: 0...255, using: &random) }
        }

        /// The first frame.
        package var opening: RelayFrame { .challenge(challenge) }

        /// Takes the client's answer; returns the key that it has proven.
        package func received(_ frame: RelayFrame) throws(Failure) -> DeviceID {
            guard case .proof(let key, let signature) = frame else { throw .unexpected }
            guard key.isValid(signature: signature, for: RelayHandshake.signedBytes(for: challenge)) else {
                throw .signature
            }
            return key
        }
    }

    /// The client's end.
    package struct Client: Sendable {
        private enum State {
            case waiting
            case proven
            case ended
        }

        /// The next step of a client.
        package enum Action: Hashable, Sendable {
            /// Send it.
            case send(RelayFrame)
            /// The relay lets this device in.
            case begin
            /// The relay refuses this device.
            case refused(String)
        }

        private let key: DeviceKey
        private var state = State.waiting

        /// Starts a handshake that proves `key`.
        package init(key: DeviceKey) { self.key = key }

        /// Takes a frame of the relay.
        package mutating func received(_ frame: RelayFrame) throws(Failure) -> Action {
            switch (frame, state) {
            case (.challenge(let challenge), .waiting):
                guard let signature = try? key.signature(for: RelayHandshake.signedBytes(for: challenge)) else {
                    throw .key
                }
                state = .proven
                return .send(.proof(key.id, signature: signature))
            case (.confirmed, .proven):
                state = .ended
                return .begin
            case (.denied(let reason), .waiting), (.denied(let reason), .proven):
                state = .ended
                return .refused(reason)
            default: throw .unexpected
            }
        }
    }
}
