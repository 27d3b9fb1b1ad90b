/// Opens a device in this process: `Kith.open(dataDirectory:)`, as ``Device/open(directory:options:)``.
///
/// ```swift
/// let device = try await Kith.open(dataDirectory: "/var/lib/ana")
/// try await device.whileRunning {
///     for entry in try await device.client.search.find("report") { print(entry.path) }
/// }
/// ```
public func open(dataDirectory: String, options: Device.Options = Device.Options()) async throws -> Device {
    try await Device.open(directory: dataDirectory, options: options)
}
