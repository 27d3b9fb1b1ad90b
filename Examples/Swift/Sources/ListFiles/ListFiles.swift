import Kith

/// Lists a folder of another device: `ListFiles DATA DEVICE PATH`, where DATA is the data directory of a device that is
/// paired with DEVICE.
@main struct ListFiles {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 4 else { return print("usage: ListFiles DATA DEVICE PATH") }
        let device = try await Device.open(directory: arguments[1])
        try await device.whileRunning {
            let page = try await device.client.call(Files.List.self, .init(path: .init(arguments[3])), on: arguments[2])
            for entry in page.entries { print(entry.name) }
        }
    }
}
