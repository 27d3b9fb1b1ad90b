import KithWire

/// A member of a `Codable` type that only the holders of its label's keys can read; the members beside it stay plain.
///
/// ```swift
/// enum MedicalLabel: FieldLabel { static let label = "medical" }
/// typealias Medical<Value: Codable & Sendable> = Labelled<MedicalLabel, Value>
///
/// struct Reading: Codable, Sendable {
///     var room: String
///     @Medical var pulse: Int?
/// }
/// ```
///
/// It is encrypted when it is encoded, with the keys of ``FieldKeys``: where those do not know the label, encoding
/// fails, and nothing is ever written in the clear. Decoded without a key it is `nil`, with ``isSealed`` true, and when
/// encoded again goes on as it is. What it was encrypted as — this label, this member's name, this context — must be
/// the same when it is decrypted. Nothing proves who encrypted it, and it may be replaced by an older one.
@propertyWrapper public struct Labelled<Label: FieldLabel, Value: Codable & Sendable>: Sendable {
    private enum Content: Sendable {
        case plain(Value?)
        case sealed(Envelope)
    }

    private var content: Content

    /// The value; `nil` when there is none, or when it cannot be read here.
    public var wrappedValue: Value? {
        get { if case .plain(let value) = content { value } else { nil } }
        set { content = .plain(newValue) }
    }

    /// This member itself.
    public var projectedValue: Labelled { self }

    /// True when there is a value that cannot be read here.
    public var isSealed: Bool { if case .sealed = content { true } else { false } }

    /// Makes a member.
    public init(wrappedValue: Value?) { content = .plain(wrappedValue) }
}

extension Labelled: Equatable where Value: Equatable {
    /// Compares values; of those that cannot be read, the encrypted bytes.
    public static func == (left: Labelled, right: Labelled) -> Bool {
        switch (left.content, right.content) {
        case (.plain(let left), .plain(let right)): left == right
        case (.sealed(let left), .sealed(let right)): left == right
        default: false
        }
    }
}

extension Labelled: Hashable where Value: Hashable {
    /// Hashes the value, or the encrypted bytes.
    public func hash(into hasher: inout Hasher) {
        switch content {
        case .plain(let value): hasher.combine(value)
        case .sealed(let envelope): hasher.combine(envelope)
        }
    }
}

extension Labelled: Codable {
    /// Reads the member, and decrypts it if a key of ``FieldKeys`` does.
    ///
    /// - Throws: `KithError` `.denied` when it was changed, or belongs elsewhere; `.invalid` when it is not encrypted.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            content = .plain(nil)
            return
        }
        let envelope = try Envelope(from: decoder)
        let label = try KeyLabel(Label.label)
        guard let keys = FieldKeys.current, envelope.isFor(keys.opening) else {
            content = .sealed(envelope)
            return
        }
        let context = keys.context(of: decoder.codingPath.last?.stringValue, label)
        var bytes = try envelope.open(with: keys.opening, context: context)
        defer { bytes.clear() }
        do {
            content = .plain(try CBORDecoder().decode(Value.self, from: bytes))
        } catch {
            throw KithError(.invalid, "A member labelled \(label) is not of the type that is expected.", cause: error)
        }
    }

    /// Encrypts the member, and writes it.
    ///
    /// - Throws: `KithError` `.notFound` when there are no keys for its label.
    public func encode(to encoder: any Encoder) throws {
        switch content {
        case .sealed(let envelope): try envelope.encode(to: encoder)
        case .plain(nil):
            var container = encoder.singleValueContainer()
            try container.encodeNil()
        case .plain(let value?):
            let label = try KeyLabel(Label.label)
            guard let keys = FieldKeys.current, let recipients = keys.sealing[label.text], !recipients.isEmpty else {
                throw KithError(
                    .notFound,
                    "There are no keys for members labelled \(label): FieldKeys has none of that name, or is not in use."
                )
            }
            var bytes = try CBOREncoder().encode(value)
            defer { bytes.clear() }
            let context = keys.context(of: encoder.codingPath.last?.stringValue, label)
            try Envelope(sealing: bytes, to: recipients, context: context).encode(to: encoder)
        }
    }
}

extension KeyedDecodingContainer {
    /// Reads a labelled member, which may be missing.
    public func decode<Label, Value>(
        _ type: Labelled<Label, Value>.Type, forKey key: Key
    ) throws -> Labelled<Label, Value> { try decodeIfPresent(type, forKey: key) ?? Labelled(wrappedValue: nil) }
}
