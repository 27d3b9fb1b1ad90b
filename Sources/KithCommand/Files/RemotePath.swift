import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// A path on a device, as typed: `laptop:/srv/photos`.
///
/// A slash before the first colon, or no colon at all, makes it a path on this device: `./a:b` is a file.
struct RemotePath: Hashable {
    /// The device; `nil`: this one.
    var device: String?
    /// The path.
    var path: String
    /// The exact bytes of a path that was not typed but found.
    private var exact: Files.Path?

    init(_ text: String) {
        let location = Files.Location(typed: text)
        (device, path) = (location.device, location.path.description)
    }

    /// A path that was found on a device.
    init(device: String, exact: Files.Path) {
        self.device = device
        self.exact = exact
        path = exact.description
    }

    /// The path on its device.
    var remotePath: Files.Path { exact ?? Files.Path(path) }

    /// The same for a method.
    ///
    /// - Throws: `.notFound` when the folder of a local path is not there.
    func location() throws -> Files.Location {
        Files.Location(device: device, path: Files.Path(device == nil ? try Self.absolute(path) : path))
    }

    /// The folder that this command was started in.
    ///
    /// - Throws: `.notFound` when it was removed: what is named from there would be sought at the top of the file system.
    static func currentFolder() throws -> String {
        let folder = FileManager.default.currentDirectoryPath
        guard !folder.isEmpty else {
            throw KithError(.notFound, "The folder that you are in is gone. Change to another one: cd")
        }
        return folder
    }

    /// A local path from the top: the device's process works in another folder.
    static func absolute(_ path: String) throws -> String {
        guard !path.isEmpty else { throw KithError(.invalid, "A path cannot be empty.") }
        let full = path.hasPrefix("/") ? path : try currentFolder() + "/" + path
        var names = full.split(separator: "/").map(String.init)
        guard names.contains("..") || names.contains(".") else { return full }
        // Only the system knows what `..` is behind a link.
        let last = names.last == ".." || names.last == "." ? nil : names.popLast()
        let folder = "/" + names.joined(separator: "/")
        guard let resolved = unsafe realpath(folder, nil) else {
            throw KithError(.notFound, "Cannot find the folder \(folder): no such folder.")
        }
        defer { unsafe free(resolved) }
        let base = unsafe String(cString: resolved)
        let isFolder = last == nil || full.hasSuffix("/")
        return (base == "/" ? "" : base) + (last.map { "/" + $0 } ?? "") + (isFolder ? "/" : "")
    }

    /// The one thing on a device that a command is about.
    ///
    /// `here` does the same to files of this device, to be named where that is meant.
    func remote(here: String? = nil) throws -> (device: String, path: Files.Path) {
        guard let device else {
            let instead = here.map { " Here, \($0) does it." } ?? ""
            throw KithError(
                .invalid,
                "\(path) is on this device; name another one: DEVICE:\(path)\(instead.isEmpty ? "" : ".")\(instead)",
                cause: LocalPaths(paths: [path]))
        }
        return (device, remotePath)
    }
}

extension RemotePath: ExpressibleByArgument {
    init?(argument: String) { self.init(argument) }

    static var defaultCompletionKind: CompletionKind { .shellCommand(CommandDescription.Argument.remotePaths) }
}

extension RemotePath: CustomStringConvertible {
    /// The path as it is typed.
    var description: String { (device.map { $0 + ":" } ?? "") + path }
}
