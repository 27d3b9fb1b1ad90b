import Foundation
import KithAPI
import KithWire

/// The refusal of paths on this device, where one of another device was wanted.
struct LocalPaths: Error {
    /// The paths as typed.
    var paths: [String]
}

/// The same error, with what was meant where a path is the name of a paired device without its colon.
func suggestingColon(_ error: KithError, _ globals: GlobalOptions) async -> KithError {
    guard let local = error.cause as? LocalPaths else { return error }
    let names = local.paths.filter { !$0.contains("/") }
    guard !names.isEmpty, let device = await firstDevice(of: names, globals) else { return error }
    let end = error.message.hasSuffix(".") ? "" : "."
    return KithError(error.code, "\(error.message)\(end) Did you mean \(device):?", cause: error.cause)
}

/// The same for a command line that has come to nothing.
func suggestingColon(_ error: KithError, in words: [String]) async -> KithError {
    // What has been read once reads again.
    guard error.cause is LocalPaths, let globals = try? GlobalOptions.dataOption(of: words) else { return error }
    return await suggestingColon(error, globals)
}

/// The first word that is the name of a paired device.
///
/// Without a device here there is none, and nothing to suggest.
private func firstDevice(of names: [String], _ globals: GlobalOptions) async -> String? {
    let devices = try? await withClient(globals) {
        try await $0.call(Devices.List.self, Devices.List.Input(probe: false))
    }
    let known = Set(devices?.map(\.name) ?? [])
    return names.first { known.contains($0) }
}
