import Kith

let device = try await Device.open(directory: "/var/lib/ana")
try await device.whileRunning {
    let page = try await device.client.call(Files.List.self, .init(path: "/srv"), on: "laptop")
    for entry in page.entries { print(entry.name) }
}

enum Add: Method {
    typealias Input = [Int]
    typealias Output = Int
    static let header = MethodHeader.query("math.add", by: .grant(.node), "Adds numbers.")
}

struct MathService: Service {
    let info = ServiceInfo("math", "Adds numbers.")
    var handlers: [Handler] { [.call(Add.self) { input, _ in input.reduce(0, &+) }] }
}

let math = try device.add(MathService())
await device.remove(math)
