import KithRPC
import KithWire

/// The state of a service of a node.
///
///     created ──▶ starting ──▶ running ◀──▶ paused
///                    │  ▲         │            │
///                    ▼  │         ▼            ▼
///                  failed       stopping ──▶ stopped ──▶ starting
///
/// As text, which is how it travels: the name, and of a failure the reason behind a colon.
@nonexhaustive
public enum ServiceState: Hashable, Sendable {
    /// It was added, and nothing was done yet.
    case created
    /// Its `start` runs; calls wait for it.
    case starting
    /// It answers.
    case running
    /// It answers nothing until it is resumed.
    case paused
    /// Its calls end, then it is stopped.
    case stopping
    /// It answers nothing any more.
    case stopped
    /// Its `start` threw: the reason, for a person.
    case failed(String)
}

extension ServiceState: LosslessStringConvertible {
    /// The text form.
    public var description: String {
        switch self {
        case .created: "created"
        case .starting: "starting"
        case .running: "running"
        case .paused: "paused"
        case .stopping: "stopping"
        case .stopped: "stopped"
        case .failed(let reason): "failed: \(reason)"
        }
    }

    /// Reads the text form; `nil` when it is not one.
    public init?(_ description: String) {
        let plain: [ServiceState] = [.created, .starting, .running, .paused, .stopping, .stopped]
        if let state = plain.first(where: { $0.description == description }) {
            self = state
        } else if description.hasPrefix("failed: ") {
            self = .failed(String(description.dropFirst("failed: ".count)))
        } else {
            return nil
        }
    }
}

extension ServiceState: Codable {
    /// Reads the text form.
    public init(from decoder: any Decoder) throws {
        let text = try decoder.singleValueContainer().decode(String.self)
        guard let state = ServiceState(text) else {
            throw KithError(.invalid, "“\(text.prefix(bytes: 64))” is not a state of a service.")
        }
        self = state
    }

    /// Writes the text form.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}

extension ServiceState: SchemaDescribing {
    /// The text form.
    public static var schema: JSONSchema {
        [
            "type": "string",
            "description": "created, starting, running, paused, stopping, stopped, or “failed: ” and the reason.",
            "examples": ["running", "failed: The lamp is not plugged in."],
        ]
    }
}
