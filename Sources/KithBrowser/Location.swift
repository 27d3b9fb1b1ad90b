package import KithAPI
import KithCommandLine

/// A folder on this device or on another.
package struct Folder: Hashable, Sendable {
    /// The device; `nil`: this one.
    package var device: String?
    /// Absolute; until it has been listed for the first time also `~`, `~/…` or `.` (the only folder granted).
    package var path: Files.Path

    package init(device: String?, path: Files.Path) {
        self.device = device
        self.path = path
        // One path for one folder: `/srv`, never `/srv/` or `/./srv`.
        if path.bytes.first == UInt8(ascii: "/") { self.path = Self.path(names.filter { $0 != [UInt8(ascii: ".")] }) }
    }

    /// The path of the item with this name, or with this path beneath.
    package func path(of name: [UInt8]) -> Files.Path {
        var bytes = path.bytes
        if bytes.last != UInt8(ascii: "/") { bytes.append(UInt8(ascii: "/")) }
        return Files.Path(bytes: bytes + name)
    }

    /// The folder in it of this name.
    package func child(_ name: [UInt8]) -> Folder { Folder(device: device, path: path(of: name)) }

    /// The folder around it; `nil` at the top, and where nobody knows.
    package var parent: Folder? {
        let names = names
        guard !names.isEmpty, path.bytes.first == UInt8(ascii: "/") else { return nil }
        return Folder(device: device, path: Self.path(names.dropLast()))
    }

    /// The last name; empty at the top.
    package var name: [UInt8] { names.last ?? [] }

    private var names: [[UInt8]] { path.bytes.split(separator: UInt8(ascii: "/")).map { Array($0) } }

    private static func path(_ names: some Collection<[UInt8]>) -> Files.Path {
        Files.Path(bytes: [UInt8(ascii: "/")] + names.joined(separator: [UInt8(ascii: "/")]))
    }

    /// The folders on the way here, the top first, each with what is shown of it.
    package var crumbs: [(text: String, folder: Folder)] {
        let names = names
        guard path.bytes.first == UInt8(ascii: "/") else { return [(Wording.printable(path.description), self)] }
        var crumbs: [(String, Folder)] = [("/", Folder(device: device, path: "/"))]
        for (index, name) in names.enumerated() {
            let text = Wording.printable(String(decoding: name, as: UTF8.self))
            crumbs.append(
                (
                    index == names.count - 1 ? text : text + "/",
                    Folder(device: device, path: Self.path(names[...index]))
                ))
        }
        return crumbs
    }

    /// The folder as it is typed: `laptop:/srv`.
    package var text: String { (device.map { $0 + ":" } ?? "") + path.description }
}

/// A view that a pane can show.
package enum Location: Hashable, Sendable {
    /// This device and those it is paired with.
    case devices
    /// The contents of a folder.
    case folder(Folder)
    /// The matches of a search in a folder and beneath it.
    case search(Folder, String)

    var isSearch: Bool { if case .search = self { true } else { false } }

    /// The folder shown or searched.
    package var folder: Folder? {
        switch self {
        case .devices: nil
        case .folder(let folder), .search(let folder, _): folder
        }
    }
}
