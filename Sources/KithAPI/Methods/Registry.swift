public import KithIdentity
public import KithWire

/// The services of a node, as its service `$registry` describes them, and their health.
///
/// | path | answer |
/// | --- | --- |
/// | `$registry/services/list` | ``Services``: those of this device, and those that paired devices have announced |
/// | `$registry/services/{path}` | ``Service`` |
/// | `$registry/services/{path}/state` | ``State`` |
/// | `$registry/services/{path}/pause` | ``State``: the service answers nothing until it is resumed |
/// | `$registry/services/{path}/resume` | ``State`` |
/// | `$registry/services/{path}/stats` | ``Statistics`` |
/// | `$registry/stats` | ``AllStatistics`` |
/// | `$registry/providers` | ``ProviderStates`` |
/// | `$health/status` | ``Health`` |
///
/// Only this device's own person may ask; another device needs a grant that begins with the same word, as
/// `node:$registry/services/*/state`.
public enum Registry {
    /// The input of what is about one service, which its path names.
    public struct Query: Codable, Hashable, Sendable {
        /// The network the service belongs to; `nil` for the default one.
        public var network: String?

        /// Makes a query.
        public init(network: String? = nil) { self.network = network }
    }

    /// The services a device knows.
    public struct Services: Codable, Hashable, Sendable {
        /// Those of this device in the order in which they were added, then those of others.
        public var services: [Service]

        /// Makes the list.
        public init(services: [Service]) { self.services = services }
    }

    /// A service.
    public struct Service: Codable, Hashable, Sendable {
        /// The first segment of the paths of its actions.
        public var path: String
        /// The network its paths belong to.
        public var network: String
        /// Its name for a person.
        public var name: String
        /// Its version; may be empty.
        public var version: String
        /// One line for a person; may be empty.
        public var description: String
        /// Its state; of another device's service, as that device said last.
        public var state: ServiceState
        /// What it answers.
        public var actions: [Action]
        /// The time at which it was added, in milliseconds since 1970; `nil` of another device's.
        public var addedAt: Int64?
        /// The time at which it started last; `nil` when it has not.
        public var startedAt: Int64?
        /// The device that has it; `nil` for this one.
        public var device: DeviceID?
        /// The types that the schemas of its actions refer to.
        public var schemas: [String: JSONSchema]?

        /// Makes a description.
        public init(
            path: String, network: String, name: String, version: String, description: String, state: ServiceState,
            actions: [Action], addedAt: Int64? = nil, startedAt: Int64? = nil, device: DeviceID? = nil,
            schemas: [String: JSONSchema]? = nil
        ) {
            self.path = path
            self.network = network
            self.name = name
            self.version = version
            self.description = description
            self.state = state
            self.actions = actions
            self.addedAt = addedAt
            self.startedAt = startedAt
            self.device = device
            self.schemas = schemas
        }
    }

    /// One method of a service.
    public struct Action: Codable, Hashable, Sendable {
        /// The name of the method.
        public var name: String
        /// The kind of call it takes.
        public var kind: MethodKind
        /// One line for a person; may be empty.
        public var summary: String
        /// True when calling it twice has the same effect as once.
        public var isIdempotent: Bool
        /// The callers allowed besides this device's own person: `owner` for none, `paired`, or `grant` and the grant.
        public var access: String?
        /// The schema of its input.
        public var input: JSONSchema?
        /// The schema of its answer.
        public var output: JSONSchema?

        /// Makes a description.
        public init(
            name: String, kind: MethodKind, summary: String, isIdempotent: Bool, access: String? = nil,
            input: JSONSchema? = nil, output: JSONSchema? = nil
        ) {
            self.name = name
            self.kind = kind
            self.summary = summary
            self.isIdempotent = isIdempotent
            self.access = access
            self.input = input
            self.output = output
        }
    }

    /// The state of a service.
    public struct State: Codable, Hashable, Sendable {
        /// The state; `nil` when there is no such service.
        public var state: ServiceState?

        /// Wraps a state.
        public init(state: ServiceState?) { self.state = state }
    }

    /// An error that a call ended with.
    public struct Failure: Codable, Hashable, Sendable {
        /// The kind of failure.
        public var code: KithError.Code
        /// The sentence for a person, cut to 256 bytes.
        public var message: String
        /// The time, in milliseconds since 1970.
        public var time: Int64

        /// Makes a failure.
        public init(code: KithError.Code, message: String, time: Int64) {
            self.code = code
            self.message = message
            self.time = time
        }
    }

    /// The counts of one action's calls since its service was added.
    public struct ActionStatistics: Codable, Hashable, Sendable {
        /// The calls that are over.
        public var calls: UInt64
        /// Those of them that failed.
        public var errors: UInt64
        /// The calls that run now.
        public var running: Int64
        /// The time they took.
        public var latency: LatencyHistogram
        /// The error of the last one that failed; `nil` when none did.
        public var lastError: Failure?

        /// Counts nothing yet.
        public init() { (calls, errors, running, latency, lastError) = (0, 0, 0, LatencyHistogram(), nil) }
    }

    /// The counts of one service's calls, by the names of its actions.
    public struct Statistics: Codable, Hashable, Sendable {
        /// By the name of the method.
        public var actions: [String: ActionStatistics]

        /// Makes statistics.
        public init(actions: [String: ActionStatistics]) { self.actions = actions }
    }

    /// The counts of all services' calls.
    public struct AllStatistics: Codable, Hashable, Sendable {
        /// By the path of the service.
        public var services: [String: Statistics]

        /// Makes statistics.
        public init(services: [String: Statistics]) { self.services = services }
    }

    /// What a device knows of one provider of one path.
    public struct ProviderState: Codable, Hashable, Sendable {
        /// The name of the method.
        public var path: String
        /// The device that provides it; `nil` for this one.
        public var device: DeviceID?
        /// The requests that are over.
        public var calls: UInt64
        /// Those of them in which the provider failed.
        public var errors: UInt64
        /// The requests that run now.
        public var running: UInt64
        /// The moving average of the latency, in microseconds; `nil` before the first answer.
        public var latency: Double?
        /// Whether it gets requests: `closed` for yes, `open` for no, after failures, `half-open` for one that tries.
        public var breaker: String

        /// Makes a state.
        public init(
            path: String, device: DeviceID?, calls: UInt64, errors: UInt64, running: UInt64, latency: Double?,
            breaker: String
        ) {
            self.path = path
            self.device = device
            self.calls = calls
            self.errors = errors
            self.running = running
            self.latency = latency
            self.breaker = breaker
        }
    }

    /// The providers that requests have gone to.
    public struct ProviderStates: Codable, Hashable, Sendable {
        /// In the order of paths.
        public var providers: [ProviderState]

        /// Makes the list.
        public init(providers: [ProviderState]) { self.providers = providers }
    }

    /// The state of a paired device, as this one sees it.
    public struct Peer: Codable, Hashable, Sendable {
        /// The device.
        public var device: DeviceID
        /// True while a connection stands.
        public var isConnected: Bool

        /// Makes a state.
        public init(device: DeviceID, isConnected: Bool) {
            self.device = device
            self.isConnected = isConnected
        }
    }

    /// The health of a node.
    public struct Health: Codable, Hashable, Sendable {
        /// True when every service runs.
        public var isHealthy: Bool
        /// The states of all services, by their paths.
        public var services: [String: ServiceState]
        /// The paired devices that are connected.
        public var peers: UInt64

        /// Makes a report.
        public init(isHealthy: Bool, services: [String: ServiceState], peers: UInt64) {
            self.isHealthy = isHealthy
            self.services = services
            self.peers = peers
        }
    }
}

/// The number of calls by the time they took, in buckets that double: below 1 µs, 2 µs, 4 µs and so on.
public struct LatencyHistogram: Codable, Hashable, Sendable {
    /// The number of buckets; the last one holds what took longer as well.
    public static let size = 28

    /// `buckets[n]` counts what took less than 2ⁿ µs and is not in the buckets before; those at the end that are empty
    /// are left out.
    public private(set) var buckets: [UInt64] = []
    /// The sum of all, in microseconds.
    public private(set) var sum: UInt64 = 0

    /// Makes an empty one.
    public init() {}

    /// Counts one.
    package mutating func add(_ microseconds: UInt64) {
        let index = min(Self.size - 1, UInt64.bitWidth - microseconds.leadingZeroBitCount)
        while buckets.count <= index { buckets.append(0) }
        buckets[index] &+= 1
        sum = sum.addingReportingOverflow(microseconds).overflow ? .max : sum + microseconds
    }

    /// Counts what another one has counted.
    package mutating func add(_ other: LatencyHistogram) {
        while buckets.count < other.buckets.count { buckets.append(0) }
        for (index, count) in other.buckets.enumerated() { buckets[index] &+= count }
        let (total, overflow) = sum.addingReportingOverflow(other.sum)
        sum = overflow ? .max : total
    }

    /// The time below which a share of them lies, 0…1: the upper end of a bucket in microseconds; `nil` for none.
    public func microseconds(at share: Double) -> UInt64? {
        let total = buckets.reduce(0, &+)
        guard total > 0 else { return nil }
        var seen: UInt64 = 0
        for (index, count) in buckets.enumerated() {
            seen &+= count
            if Double(seen) >= share * Double(total) { return 1 << UInt64(index) }
        }
        return 1 << UInt64(Self.size - 1)
    }
}
