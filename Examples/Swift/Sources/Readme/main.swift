import Kith

let device = try await Device.open(directory: "/var/lib/ana")
try await device.whileRunning {
    let page = try await device.client.call(Files.List.self, .init(path: "/srv"), on: "laptop")
    for entry in page.entries { print(entry.name) }
}

enum Add: Method {
    typealias Input = [Int]
    typealias Output = Int
    static let name = "math.add"
    static let kind = MethodKind.query
    static let summary = "Adds numbers."
    static func access(for input: Input) -> Access { .granted(.node(pattern: "math.add")) }
}

struct MathService: Service {
    var handlers: [Handler] { [.call(Add.self) { input, _ in input.reduce(0, &+) }] }
}

let math = try device.add(MathService())
await device.remove(math)
