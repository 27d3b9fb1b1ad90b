// The Swift in the package's own documentation comments, word for word, each where it compiles; `scripts/examples` compares
// the two. Only built.

import Kith
import KithClient
import KithGroups
import KithMLS
import KithNode
import KithStore
import KithTelemetry
import KithTrust

// MARK: - Devices and nodes

func openDevice() async throws {
    let device = try await Device.open(directory: "/var/lib/ana")
    try await device.whileRunning {
        let entries = try await device.client.call(Files.List.self, .init(path: "/srv"), on: "laptop")
        print(entries)
    }
}

func openByFolder() async throws {
    let device = try await Kith.open(dataDirectory: "/var/lib/ana")
    try await device.whileRunning {
        for entry in try await device.client.search.find("report") { print(entry.path) }
    }
}

func followLibrary(_ client: Client, _ reload: () -> Void) async throws {
    for try await delivery in client.events(.init(types: [.fileAdded], path: "/srv/photos")) {
        switch delivery {
        case .event(let event): print(event.sequence, event.event)
        case .gap: reload()
        default: break
        }
    }
}

func makeNode(key: DeviceKey, store: Store, endpoint: Endpoint, logger: Logger) async throws {
    let node = Node(id: key.id, store: store, logger: logger)
    try node.add(MathService())
    async let serving: Void = node.serve(endpoint)
    let sum = try await node.client.call(Math.Add.self, .init(a: 2, b: 3), on: "laptop")
    print(sum)
    await serving
}

func comeAndGo(_ device: Device) async {
    let (events, platform) = AsyncStream.makeStream(of: LifecycleEvent.self)
    let runner = LifecycleRunner(device)
    async let ended: Void = runner.run(events)
    platform.yield(.background)
    await ended
}

// MARK: - Events

func listen(by node: Node) async throws {
    for try await event in try node.subscribe("sensors/*/temperature", as: Double.self) {
        print(event.topic, event.message)
    }
}

func ask(by node: Node) async throws {
    let answer = try node.once("chat/answer", as: String.self)
    try node.publish("Are you there?", to: "chat/question")
    print(try await answer.value().message)
}

struct FireAlarm: Service {
    var handlers: [Handler] {
        [
            .on("sensors/*/temperature") { (celsius: Double, event) in
                if celsius > 90 { try event.publish("Fire!", to: "alarm/fire") }
            }
        ]
    }
}

// MARK: - Methods

enum Math {
    enum Add: Method {
        struct Input: Codable, Sendable {
            var a: Int
            var b: Int
        }
        typealias Output = Int
        static let header = MethodHeader.query("math.add", by: .grant(.node), "Adds two numbers.")
    }
}

struct MathService: Service {
    var handlers: [Handler] {
        [.call(Math.Add.self) { input, _ in input.a + input.b }]
    }
}

func addService(to device: Device) throws {
    struct MathService: Service {
        var handlers: [Handler] {
            [.call(Math.Add.self) { input, _ in input.a + input.b }]
        }
    }
    let math = try device.add(MathService())
    print(math)
}

struct Sum: Codable, Sendable {
    var a: Double
    var b: Double
}

func serveAtPath(on device: Device) async throws {
    struct MathService: Service {
        let info = ServiceInfo("math", version: "1.0.0", "Adds numbers.")
        var handlers: [Handler] {
            [.action("add") { (input: Sum, _) in input.a + input.b }]
        }
    }
    let math = try device.add(MathService())
    let eight: Double = try await device.request("math/add", Sum(a: 5, b: 3))
    print(math, eight)
}

func request(by client: Client) async throws {
    let eight: Double = try await client.request("math/add", Sum(a: 5, b: 3))
    let there: Double = try await client.request("math/add", Sum(a: 5, b: 3), from: .device("laptop"))
    print(eight, there)
}

func follow(_ device: Device) async throws {
    let ticks: ValueStream<Int, Nothing> = try await device.open("clock/ticks", ["every": 1])
    for try await tick in ticks.messages { print(tick) }
}

actor Lamp {
    nonisolated let changes = AsyncStream.makeStream(of: Brightness.self)

    func set(_ brightness: Int) { changes.continuation.yield(Brightness(value: brightness)) }
}

struct Brightness: StreamMessage {
    var value: Int
}

extension Lamp {
    enum Change: Method {
        typealias Input = Brightness
        typealias Output = Nothing
        static let header = MethodHeader.action("lamp.set", by: .grant(.node), isIdempotent: true, "Dims the lamp.")
    }
}

extension Lamp {
    enum Watch: StreamMethod {
        typealias Input = Nothing
        typealias Output = Nothing
        typealias Upstream = Nothing
        typealias Downstream = Brightness
        static let header = MethodHeader.stream("lamp.watch", by: .grant(.node), "Tells of each change.")
    }
}

struct LampService: Service {
    let lamp: Lamp

    var handlers: [Handler] {
        [
            .call(Lamp.Change.self) { input, _ in
                await lamp.set(input.value)
                return Nothing()
            },
            .stream(Lamp.Watch.self) { _, _, pending in
                let stream = try await pending.accept()
                for await change in lamp.changes.stream { try await stream.send(change) }
                try await stream.finish()
            },
        ]
    }
}

func declareAtRunTime() -> Handler {
    let now = DynamicMethod(
        .query("weather.now", by: .grant(.node), "Tells the weather."),
        input: ["type": "object", "properties": ["place": ["type": "string"]]])
    let handler = Handler.call(now) { input, _ in ["degrees": 21] }
    return handler
}

// MARK: - Calls

func find(path: Files.Path, by client: Client) async throws {
    let found = try await client.open(Files.Find.self, .init(path: path), on: "laptop").stream
    for try await entry in found.messages { print(entry) }
}

func pipe() async throws {
    let pipe = Pipe()
    try await pipe.left.write([1, 2, 3])
    try await pipe.left.finish()
    while let bytes = try await pipe.right.read(upTo: 4096) { print(bytes) }
}

func reconnect() -> Client {
    let client = Client(ReconnectingCarrier(directory: "/home/ana/.local/share/kith"))
    return client
}

func intercept(_ device: Device) -> Client {
    struct Patience: ClientInterceptor {
        func intercept(_ call: OutgoingCall, next: NextCall<OutgoingCall>) async throws {
            var call = call
            call.options.timeout = call.options.timeout ?? .seconds(10)
            try await next(call)
        }
    }
    let client = device.client.intercepted(by: [Patience()])
    return client
}

func intercept(_ options: inout Device.Options, while isOpen: @escaping @Sendable () -> Bool) {
    struct OfficeHours: CallInterceptor {
        let isOpen: @Sendable () -> Bool

        func serve(_ call: ServedCall, next: NextCall<ServedCall>) async throws {
            guard call.context.caller == .owner || isOpen() else { throw KithError(.denied, "Closed for today.") }
            try await next(call)
        }
    }
    options.interceptors = [OfficeHours(isOpen: isOpen)]
}

func trace(_ options: inout Device.Options) {
    options.interceptors = [CallTracing()]
}

// MARK: - Groups

func sign(
    by chip: any GroupSigner, storage: any GroupStorage, delivery: any GroupDelivery, options: GroupClient.Options
) throws -> GroupClient {
    let client = try GroupClient(
        name: "anna", signer: chip, storage: storage, delivery: delivery, options: options)
    return client
}

func open(_ place: String) throws -> any GroupStorage {
    let storage = try GroupDatabase.open(directory: place)
    return storage
}

func listen(to client: GroupClient) async throws {
    for try await happened in client.events {
        guard case .message(let message) = happened.event else { continue }
        print(message.senderName ?? "member \(message.sender)", message.data.count, "bytes")
    }
}

func configure(keeping storage: any GroupStorage) -> GroupConfiguration {
    let pins = PinningAuthenticationService(storage: storage)
    let configuration = GroupConfiguration(authentication: pins)
    return configuration
}

// MARK: - Keys

enum MedicalLabel: FieldLabel { static let label = "medical" }
typealias Medical<Value: Codable & Sendable> = Labelled<MedicalLabel, Value>

struct Reading: Codable, Sendable {
    var room: String
    @Medical var pulse: Int?
}

func publish(_ reading: Reading, for doctors: AgreementKey, by mine: AgreementKey, on device: Device) throws {
    let keys = FieldKeys(context: "clinic", sealing: ["medical": [doctors.publicKey]], opening: [mine])
    try keys.use { try device.publish(reading, to: "ward/3") }
}
