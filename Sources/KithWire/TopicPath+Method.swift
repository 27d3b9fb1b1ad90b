/// Topic paths and the names of methods are one namespace, seen two ways.
///
/// | name of a method | path |
/// | --- | --- |
/// | `math.add` | `math/add`: the first dot of a name without a slash is the slash |
/// | `math.slow.add` | `math/slow.add` |
/// | `weather/now` | `weather/now`: a name with a slash is the path as it stands |
/// | `home:math.add` | `home:math/add` |
extension TopicPath {
    /// Reads the name of a method, or its path.
    ///
    /// - Throws: `KithError` `.invalid`, saying which rule the name breaks.
    public init(method name: String, network: String = defaultNetwork) throws(KithError) {
        guard name.utf8.count <= Self.byteLimit, !name.utf8.contains(UInt8(ascii: "/")) else {
            try self.init(name, network: network)
            return
        }
        let start = name.firstIndex(of: ":") ?? name.startIndex
        guard let dot = name[start...].firstIndex(of: ".") else {
            try self.init(name, network: network)
            return
        }
        try self.init("\(name[..<dot])/\(name[name.index(after: dot)...])", network: network)
    }

    /// The name of the method at this path, from which ``init(method:network:)`` makes the same path again.
    ///
    /// The default network is left out; a slash remains where a dot would be read otherwise.
    public var methodName: String {
        let prefix = network == Self.defaultNetwork ? "" : "\(network):"
        let hasDot = segments[0].description.utf8.contains(UInt8(ascii: "."))
        if segments.count == 1 { return "\(prefix)\(segments[0])\(hasDot ? "/" : "")" }
        if segments.count == 2, isConcrete, !hasDot { return "\(prefix)\(segments[0]).\(segments[1])" }
        return prefix + segments.lazy.map(\.description).joined(separator: "/")
    }

    /// Tells whether this path, a pattern or not, stands for everything that `other` stands for.
    ///
    /// A parameter counts as `*`.
    public func covers(_ other: TopicPath) -> Bool {
        guard network == other.network else { return false }
        for (index, own) in segments.enumerated() {
            guard index < other.segments.count else { return false }
            switch (own, other.segments[index]) {
            case (.rest, _): return true
            case (_, .rest): return false
            case (.one, _), (.parameter, _): continue
            case (.literal(let text), .literal(let wanted)): if text != wanted { return false }
            case (.literal, .one), (.literal, .parameter): return false
            }
        }
        return segments.count == other.segments.count
    }
}
