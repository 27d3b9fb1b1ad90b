import ArgumentParser
import Foundation

/// The library that a command is about.
struct LibraryOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The library, by its name or its id (kith library list). Default: $KITH_LIBRARY, else the default one.",
            valueName: "name"))
    var library: String?

    func validate() throws {
        guard library != "" else { throw ValidationError("--library takes the name of a library; it is empty.") }
    }

    /// The library to ask for.
    var name: String? { name(on: nil) }

    /// The library to ask another device for: what the environment says is about those of this one.
    func name(on device: String?) -> String? {
        if let library { return library }
        guard device == nil, let name = ProcessInfo.processInfo.environment["KITH_LIBRARY"], !name.isEmpty else {
            return nil
        }
        return name
    }
}

/// The whole path of a file that a person names.
func absolutePath(_ argument: String) -> String {
    URL(fileURLWithPath: (argument as NSString).expandingTildeInPath).standardizedFileURL.path
}
