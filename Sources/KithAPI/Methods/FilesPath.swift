package import KithIdentity
package import KithWire

/// Files and folders on a device.
public enum Files {
    /// A path on a device, as bytes, because names of files are bytes.
    ///
    /// Either absolute, or beginning with `~/` (the home folder there), or relative to the one folder the caller is
    /// granted. Never with a `..` component. In messages it is text, or where it is not UTF-8 a map with one entry,
    /// `bytes`.
    public struct Path: Hashable, Sendable {
        /// The bytes, as given.
        public var bytes: [UInt8]

        /// Takes the bytes of a path.
        public init(bytes: [UInt8]) { self.bytes = bytes }

        /// Takes a path written as text.
        public init(_ text: String) { bytes = Array(text.utf8) }
    }
}

extension Files.Path {
    /// The beginning of a path.
    package enum Anchor: Hashable, Sendable {
        /// At the top of the file system.
        case top
        /// In the home folder.
        case home
        /// In the granted folder.
        case grant
    }

    /// A path taken apart.
    package struct Parsed: Hashable, Sendable {
        /// The beginning of the path.
        package var anchor: Anchor
        /// The names from there, none of them empty, `.` or `..`.
        package var components: [[UInt8]]
        /// True when a slash at its end says that it is a folder.
        package var isFolder: Bool
    }

    /// Takes the path apart.
    ///
    /// - Throws: `.invalid` for a NUL, a `..`, more than 4096 bytes, or a name of more than 255.
    package func parsed() throws(KithError) -> Parsed {
        func refuse(_ reason: String) -> KithError { KithError(.invalid, "The path “\(self)” \(reason).") }
        guard !bytes.isEmpty else { throw KithError(.invalid, "A path cannot be empty.") }
        guard bytes.count <= 4_096 else { throw KithError(.invalid, "A path is longer than 4096 bytes.") }
        guard !bytes.contains(0) else { throw refuse("holds a NUL byte") }
        var names = bytes.split(separator: UInt8(ascii: "/")).map { [UInt8]($0) }
        var anchor = Anchor.grant
        if bytes.first == UInt8(ascii: "/") {
            anchor = .top
        } else if names.first == [UInt8(ascii: "~")] {
            anchor = .home
            names.removeFirst()
        }
        let endsInDot = names.last == [UInt8(ascii: ".")]
        names.removeAll { $0 == [UInt8(ascii: ".")] }
        for name in names {
            guard name != Array("..".utf8) else { throw refuse("holds a “..”: name the folder itself") }
            guard name.count <= 255 else { throw refuse("holds a name longer than 255 bytes") }
        }
        return Parsed(
            anchor: anchor, components: names, isFolder: endsInDot || bytes.last == UInt8(ascii: "/") || names.isEmpty)
    }

    /// Tells whether bytes are the name of something in one folder: not empty, `.` or `..`, without slash and NUL.
    package static func isName(_ bytes: some Collection<UInt8>) -> Bool {
        !bytes.isEmpty && bytes.count <= 255 && !bytes.contains { $0 == 0 || $0 == UInt8(ascii: "/") }
            && (bytes.count > 2 || !bytes.allSatisfy { $0 == UInt8(ascii: ".") })
    }

    /// The number of levels the path is below a folder, when it is names and slashes alone; `nil` when it is more.
    package var levelsBeneath: Int? {
        var levels = 0
        var rest = bytes[...]
        while true {
            let end = rest.firstIndex(of: UInt8(ascii: "/")) ?? rest.endIndex
            guard Self.isName(rest[..<end]) else { return nil }
            levels += 1
            guard end < rest.endIndex else { return levels }
            rest = rest[(end + 1)...]
        }
    }

    /// The path of something beneath this one; of nothing more, the path itself.
    package func appending(_ path: [UInt8]) -> Files.Path {
        guard !path.isEmpty else { return self }
        let isOpen = bytes.isEmpty || bytes.last == UInt8(ascii: "/")
        return Files.Path(bytes: isOpen ? bytes + path : bytes + [UInt8(ascii: "/")] + path)
    }

    /// The access a caller needs to reach the path.
    ///
    /// Any grant on files is enough where the folder depends on the device (its home folder, the caller's only grant)
    /// or the path is invalid; the service decides the rest.
    package func access(_ wanted: Grant.FileAccess) -> Access {
        // A path that cannot be taken apart is refused by the service, with the reason.
        guard let parsed = try? parsed(), parsed.anchor == .top else {
            return .holding(.files, for: wanted == .write ? "write" : nil)
        }
        let path = "/" + parsed.components.map { String(decoding: $0, as: UTF8.self) }.joined(separator: "/")
        return .granted(.files(wanted, root: path))
    }
}

extension Files.Path: CustomStringConvertible, ExpressibleByStringLiteral {
    /// The path as text; bytes that are not UTF-8 become U+FFFD.
    public var description: String { String(decoding: bytes, as: UTF8.self) }

    /// Takes a path written in source code.
    public init(stringLiteral text: String) { self.init(text) }
}

extension Files.Path: Codable {
    private enum CodingKeys: CodingKey { case bytes }

    /// Reads text, or a map with the entry `bytes`.
    public init(from decoder: any Decoder) throws {
        if let container = try? decoder.singleValueContainer(), let text = try? container.decode(String.self) {
            // Text or, when it is not that, the map: two forms of one value, not an error.
            self.init(text)
        } else {
            self.init(
                bytes: try decoder.container(keyedBy: CodingKeys.self).decode(ByteString.self, forKey: .bytes).bytes)
        }
    }

    /// Writes text, or a map with the entry `bytes` when the path is not UTF-8.
    public func encode(to encoder: any Encoder) throws {
        if let text = String(validating: bytes, as: UTF8.self) {
            var container = encoder.singleValueContainer()
            try container.encode(text)
        } else {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(ByteString(bytes), forKey: .bytes)
        }
    }
}
