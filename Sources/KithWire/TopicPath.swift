/// The name of a service, an action or an event in a network, or a pattern for such names: `[network:]segment/segment…`.
///
/// | as text | stands for |
/// | --- | --- |
/// | `home:math/add` | the action `add` of the service `math` in the network `home` |
/// | `math/add` | the same in the default network |
/// | `users/{id}` | a template: any one segment, which gets a name |
/// | `sensors/*/temperature` | a pattern: any one segment |
/// | `sensors/>` | a pattern: one or more segments to the end |
///
/// Empty segments count for nothing: `a//b/` is `a/b`. At most 1,024 bytes and 32 segments; no control characters. In a
/// segment that is none of the above, `*`, `>`, `{` and `}` have no place.
public struct TopicPath: Hashable, Sendable {
    /// A part of a path between slashes.
    @frozen
    public enum Segment: Hashable, Sendable {
        /// Itself.
        case literal(String)
        /// Any one segment, by name: `{name}`; the name may be empty.
        case parameter(String)
        /// Any one segment: `*`.
        case one
        /// One or more segments to the end: `>`.
        case rest
    }

    /// The network of a path that names none, unless another is given.
    public static let defaultNetwork = "default"
    /// The most bytes a path has as text.
    public static let byteLimit = 1024
    /// The most segments a path has.
    public static let segmentLimit = 32

    /// The network the name belongs to; names of two networks are never the same.
    public let network: String
    /// The segments, at least one.
    public let segments: [Segment]

    /// Reads a path.
    ///
    /// - Parameters:
    ///   - text: The path; with or without a network.
    ///   - network: The network of a path that names none.
    /// - Throws: `KithError` `.invalid`, saying which rule the text breaks.
    public init(_ text: String, network: String = defaultNetwork) throws(KithError) {
        guard text.utf8.count <= Self.byteLimit else {
            throw Self.invalid(text, "is longer than \(Self.byteLimit) bytes")
        }
        if network == Self.defaultNetwork, let segments = Self.plainSegments(text) {
            try self.init(network: network, segments, text)
            return
        }
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count <= 2 else { throw Self.invalid(text, "has more than one colon") }
        guard parts.count == 1 || !parts[0].isEmpty else {
            throw Self.invalid(text, "names no network before its colon")
        }
        var segments: [Segment] = []
        for part in parts[parts.count - 1].split(separator: "/") {
            segments.append(try Segment(part, in: text))
        }
        try self.init(network: parts.count == 2 ? String(parts[0]) : network, segments, text)
    }

    /// Makes the path of a service, whose name is one segment.
    ///
    /// - Throws: `KithError` `.invalid`.
    public init(service: String, network: String = defaultNetwork) throws(KithError) {
        try self.init(network: network, [try Segment(literal: service)], service)
    }

    /// Makes the path that a template becomes when its parameters have these values.
    ///
    /// - Throws: `KithError` `.invalid` when a value is missing, or is no segment.
    public init(template: TopicPath, parameters: [String: String], network: String? = nil) throws(KithError) {
        var segments: [Segment] = []
        for segment in template.segments {
            guard case .parameter(let name) = segment else {
                segments.append(segment)
                continue
            }
            guard let value = parameters[name] else {
                throw Self.invalid(template.description, "needs a value for {\(name)}")
            }
            segments.append(try Segment(literal: value))
        }
        try self.init(network: network ?? template.network, segments, template.description)
    }

    private init(network: String, _ segments: [Segment], _ text: String) throws(KithError) {
        guard !network.isEmpty, !network.utf8.contains(where: ":/*>{}".utf8.contains), network.isPrintable else {
            throw Self.invalid(network, "is no name of a network")
        }
        guard !segments.isEmpty else { throw Self.invalid(text, "has no segments") }
        guard segments.count <= Self.segmentLimit else {
            throw Self.invalid(text, "has more than \(Self.segmentLimit) segments")
        }
        guard !segments.dropLast().contains(.rest) else { throw Self.invalid(text, "goes on behind “>”") }
        var names: Set<String> = []
        for case .parameter(let name) in segments where !names.insert(name).inserted {
            throw Self.invalid(text, "has {\(name)} twice")
        }
        self.network = network
        self.segments = segments
        guard network.utf8.count + 1 + pathByteCount <= Self.byteLimit else {
            throw Self.invalid(text, "is longer than \(Self.byteLimit) bytes")
        }
    }

    /// The segments of a path of printable ASCII with nothing in it that has a meaning but slashes; `nil` for any other.
    ///
    /// Most paths are of that kind, and every publication by name reads one.
    private static func plainSegments(_ text: String) -> [Segment]? {
        let bytes = text.utf8
        var count = 1
        for byte in bytes {
            switch byte {
            case UInt8(ascii: ":"), UInt8(ascii: "*"), UInt8(ascii: ">"), UInt8(ascii: "{"), UInt8(ascii: "}"):
                return nil
            case UInt8(ascii: "/"): count += 1
            case 0x20..<0x7F: continue
            default: return nil
            }
        }
        var segments: [Segment] = []
        segments.reserveCapacity(count)
        var start = bytes.startIndex
        while true {
            let end = bytes[start...].firstIndex(of: UInt8(ascii: "/")) ?? bytes.endIndex
            if start < end { segments.append(.literal(String(text[start..<end]))) }
            guard end < bytes.endIndex else { return segments }
            start = bytes.index(after: end)
        }
    }

    private static func invalid(_ text: String, _ reason: String) -> KithError {
        KithError(.invalid, "The path “\(text.prefix(bytes: 100))” \(reason).")
    }

    // MARK: - Parts

    /// The first segment: the service a name belongs to.
    public var service: String { segments[0].description }

    /// What follows the first segment, joined by slashes; empty for the path of a service.
    public var action: String { segments.dropFirst().lazy.map(\.description).joined(separator: "/") }

    /// True for a path with `*` or `>`; a template is none.
    public var isPattern: Bool { segments.contains(.one) || segments.last == .rest }

    /// True for a path with `{name}`.
    public var isTemplate: Bool { segments.contains { if case .parameter = $0 { true } else { false } } }

    /// True for a path of literal segments only: what can be called or published.
    public var isConcrete: Bool { segments.allSatisfy { if case .literal = $0 { true } else { false } } }

    /// The path one segment shorter.
    ///
    /// - Throws: `KithError` `.invalid` for a path of one segment.
    public func parent() throws(KithError) -> TopicPath {
        try TopicPath(network: network, Array(segments.dropLast()), description)
    }

    /// The path with one more segment.
    ///
    /// - Throws: `KithError` `.invalid` when `segment` is more than one, or this path ends in `>`.
    public func child(_ segment: String) throws(KithError) -> TopicPath {
        guard !segment.contains("/") else { throw Self.invalid(segment, "is more than one segment") }
        guard !segment.isEmpty else { throw Self.invalid(description, "cannot go on with nothing") }
        return try TopicPath(network: network, segments + [try Segment(segment[...], in: segment)], description)
    }

    /// The path of something this service has: an action or an event, of one or more segments.
    ///
    /// - Throws: `KithError` `.invalid` when this is not the path of a service.
    public func member(_ name: String) throws(KithError) -> TopicPath {
        guard segments.count == 1 else { throw Self.invalid(description, "is not that of a service") }
        guard !name.contains(":") else { throw Self.invalid(name, "has a colon") }
        guard name.contains(where: { $0 != "/" }) else { throw Self.invalid(name, "names nothing of the service") }
        return try TopicPath("\(description)/\(name)")
    }

    /// Tells whether this path has all segments of `prefix` at its beginning, in the same network.
    public func starts(with prefix: TopicPath) -> Bool {
        network == prefix.network && segments.starts(with: prefix.segments)
    }

    // MARK: - Matching

    /// Tells whether `topic`, a concrete path, is one this path stands for.
    ///
    /// Wildcards match literal segments; a template matches nothing here, see ``matches(template:)``.
    public func matches(_ topic: TopicPath) -> Bool {
        guard network == topic.network, topic.isConcrete else { return false }
        let endsInRest = segments.last == .rest
        guard endsInRest ? topic.segments.count >= segments.count : topic.segments.count == segments.count else {
            return false
        }
        for (own, other) in zip(segments, topic.segments) {
            switch own {
            case .rest: return true
            case .one: continue
            case .literal: if own != other { return false }
            case .parameter: return false
            }
        }
        return true
    }

    /// Tells whether this path, a concrete one, has the form of a template; their networks may differ.
    public func matches(template: TopicPath) -> Bool {
        guard isConcrete, segments.count == template.segments.count else { return false }
        return zip(segments, template.segments).allSatisfy { own, form in
            switch form {
            case .literal: own == form
            case .parameter: true
            case .one, .rest: false
            }
        }
    }

    /// The values that this path, a concrete one, has for the parameters of a template; their networks may differ.
    ///
    /// - Throws: `KithError` `.invalid` when the path does not have the template's form.
    public func parameters(in template: TopicPath) throws(KithError) -> [String: String] {
        guard matches(template: template) else {
            throw Self.invalid(description, "does not have the form \(template)")
        }
        var values: [String: String] = [:]
        for (own, form) in zip(segments, template.segments) {
            if case .parameter(let name) = form { values[name] = own.description }
        }
        return values
    }
}

extension TopicPath.Segment: CustomStringConvertible {
    /// The segment as it stands in a path.
    public var description: String {
        switch self {
        case .literal(let text): text
        case .parameter(let name): "{\(name)}"
        case .one: "*"
        case .rest: ">"
        }
    }

    fileprivate init(_ text: Substring, in path: String) throws(KithError) {
        switch text {
        case "*": self = .one
        case ">": self = .rest
        case _ where text.first == "{" && text.last == "}" && text.count >= 2:
            self = .parameter(try Self.checked(String(text.dropFirst().dropLast()), in: path))
        default: self = .literal(try Self.checked(String(text), in: path))
        }
    }

    fileprivate init(literal text: String) throws(KithError) {
        guard !text.isEmpty, !text.utf8.contains(where: "/:".utf8.contains) else {
            throw KithError(.invalid, "“\(text.prefix(bytes: 100))” is not one segment of a path.")
        }
        self = .literal(try Self.checked(text, in: text))
    }

    private static func checked(_ text: String, in path: String) throws(KithError) -> String {
        guard !text.utf8.contains(where: "*>{}".utf8.contains) else {
            throw KithError(
                .invalid,
                "In the path “\(path.prefix(bytes: 100))” a wildcard or a name in braces is part of a segment; it stands alone between slashes."
            )
        }
        guard !text.contains(":") else {
            throw KithError(.invalid, "In the path “\(path.prefix(bytes: 100))” a segment has a colon.")
        }
        guard text.isPrintable else { throw KithError(.invalid, "A path has a control character.") }
        return text
    }
}

extension String {
    fileprivate var isPrintable: Bool {
        utf8.allSatisfy { 0x20 <= $0 && $0 < 0x7F }
            || unicodeScalars.allSatisfy {
                $0.properties.generalCategory != .control && $0.properties.generalCategory != .format
            }
    }
}

extension TopicPath: CustomStringConvertible {
    /// The path as text, always with its network.
    public var description: String {
        var text = ""
        text.reserveCapacity(network.utf8.count + 1 + pathByteCount)
        text += network
        text += ":"
        appendPath(to: &text)
        return text
    }

    /// The number of bytes behind the network and its colon.
    private var pathByteCount: Int {
        segments.reduce(segments.count - 1) { count, segment in
            switch segment {
            case .literal(let text): count + text.utf8.count
            case .parameter(let name): count + name.utf8.count + 2
            case .one, .rest: count + 1
            }
        }
    }

    private func appendPath(to text: inout String) {
        for (index, segment) in segments.enumerated() {
            if index > 0 { text += "/" }
            text += segment.description
        }
    }
}

extension TopicPath {
    /// The path as text, as short as it can be written: without the default network.
    public var text: String {
        guard network == Self.defaultNetwork else { return description }
        var text = ""
        text.reserveCapacity(pathByteCount)
        appendPath(to: &text)
        return text
    }

    /// The path as grants name it, where the first dot of a name without a slash would be read as one.
    public var grantName: String { segments.count == 1 ? methodName : text }

    /// True for the names of a device itself, which begin with `$`: `$registry/…`, `$dead/…`.
    public var isReserved: Bool {
        if case .literal(let first) = segments[0] { first.utf8.first == UInt8(ascii: "$") } else { false }
    }
}

extension TopicPath: Codable {
    /// Reads the text form, in the default network unless it names another.
    public init(from decoder: any Decoder) throws {
        try self.init(decoder.singleValueContainer().decode(String.self))
    }

    /// Writes the text form, with the network.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
