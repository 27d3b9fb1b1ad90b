import KithAPI
import KithRPC
import KithWire

/// A path as the reference writes it: `{"Physical":{"device_slug","path"}}`, or the text of one.
///
/// Paths that are not UTF-8 have the further member `path_bytes`, in base64; what `path` shows of them names nothing.
struct AdaptedPath: Hashable, Sendable {
    /// The device's slug or UUID; `nil` or empty for this one.
    var device: String?
    /// The path there.
    var path: Files.Path

    /// Reads a path.
    ///
    /// - Throws: `KithError` `.unsupported` for what lies in a cloud, or is named by its content.
    init(_ value: JSONValue, in operation: String) throws {
        if let text = value.text {
            self = try Self(text: text, in: operation)
            return
        }
        guard case .object(let members) = value, members.count == 1, let (variant, content) = members.first else {
            throw KithError(
                .invalid, "\(operation): a path must be text, or {\"Physical\":{\"device_slug\",\"path\"}}.")
        }
        guard variant == "Physical" else {
            throw KithError(.unsupported, "\(operation): this device knows no paths of the kind \(variant.prefix(32)).")
        }
        device = content.member("device_slug")?.text ?? content.member("device_id")?.text
        if let bytes = content.member("path_bytes")?.text {
            guard let bytes = Base64.decode(bytes) else {
                throw KithError(.invalid, "\(operation): `path_bytes` must be base64.")
            }
            path = Files.Path(bytes: bytes)
        } else if let text = content.member("path")?.text {
            path = Files.Path(text)
        } else {
            throw KithError(.invalid, "\(operation): a path has a `path`.")
        }
    }

    /// Reads a path's text: as it stands, or `local://slug/path`.
    private init(text: String, in operation: String) throws {
        guard let colon = text.firstRange(of: "://") else {
            (device, path) = (nil, Files.Path(text))
            return
        }
        guard text[..<colon.lowerBound] == "local" else {
            throw KithError(
                .unsupported, "\(operation): this device knows no paths of \(text[..<colon.lowerBound].prefix(32)).")
        }
        let rest = text[colon.upperBound...]
        let slash = rest.firstIndex(of: "/") ?? rest.endIndex
        (device, path) = (String(rest[..<slash]), Files.Path(String(rest[slash...])))
    }

    /// The path as the reference writes it.
    static func shown(_ path: Files.Path, on slug: String, _ id: CompatibleID) -> JSONValue {
        var members: [String: JSONValue] = [
            "device_slug": .string(slug), "device_id": .string(id.text), "path": .string(path.description),
        ]
        if String(validating: path.bytes, as: UTF8.self) == nil {
            members["path_bytes"] = .string(Base64.encode(path.bytes))
        }
        return ["Physical": .object(members)]
    }

    /// A path in the JSON of our own methods.
    static func read(_ value: JSONValue?) -> Files.Path? {
        if let text = value?.text { return Files.Path(text) }
        return value?.member("bytes")?.text.flatMap { Base64.decode($0) }.map { Files.Path(bytes: $0) }
    }
}

extension Files.Path {
    /// The path in the JSON of our own methods.
    var json: JSONValue {
        String(validating: bytes, as: UTF8.self).map { .string($0) } ?? ["bytes": .string(Base64.encode(bytes))]
    }

    /// The names in it, from the top.
    var names: [ArraySlice<UInt8>] { bytes.split(separator: UInt8(ascii: "/")) }

    /// The last name in it.
    var lastName: [UInt8] { names.last.map { Array($0) } ?? [] }

    /// The path of the folder it lies in.
    var parent: Files.Path {
        let names = names.dropLast()
        return Files.Path(bytes: names.isEmpty ? [UInt8(ascii: "/")] : names.flatMap { [UInt8(ascii: "/")] + $0 })
    }
}
