import KithWire

/// A label of members, as a type: members with one label are read by the same people.
///
/// ``Labelled`` shows it in use.
public protocol FieldLabel: Sendable {
    /// The label, as ``KeyLabel`` has it; the one of that name in ``FieldKeys`` says who reads it.
    static var label: String { get }
}

/// The keys by which labelled members are encrypted and decrypted, see ``Labelled``.
///
/// ```swift
/// let keys = FieldKeys(context: "clinic", sealing: ["medical": [doctors.publicKey]], opening: [mine])
/// try keys.use { try device.publish(reading, to: "ward/3") }
/// ```
public struct FieldKeys: Sendable {
    /// Where the values belong, such as an application's name: encrypted in one context, they are not read in another.
    public var context: String
    /// The recipients of each label's members, by the label.
    public var sealing: [String: [AgreementPublicKey]]
    /// The keys that are here.
    public var opening: [AgreementKey]

    /// Holds keys.
    public init(context: String, sealing: [String: [AgreementPublicKey]] = [:], opening: [AgreementKey] = []) {
        self.context = context
        self.sealing = sealing
        self.opening = opening
    }

    /// The keys that ``use(_:)-(()->Result)`` gave this task.
    @TaskLocal static var current: FieldKeys?

    /// Runs `body`, in which values are encoded and decoded with these keys, by whatever encoder.
    public func use<Result>(_ body: () throws -> Result) rethrows -> Result {
        try Self.$current.withValue(self) { try body() }
    }

    /// Runs `body`, in which values are encoded and decoded with these keys, by whatever encoder.
    public func use<Result>(_ body: () async throws -> Result) async rethrows -> Result {
        try await Self.$current.withValue(self) { try await body() }
    }

    /// What the value of a member is bound to.
    func context(of member: String?, _ label: KeyLabel) -> [UInt8] {
        var writer = ByteWriter()
        writer.bytes(Array("kith-field-v1".utf8))
        for part in [context, label.text, member ?? ""] {
            writer.integer(UInt32(truncatingIfNeeded: part.utf8.count))
            writer.bytes(Array(part.utf8))
        }
        return writer.bytes
    }
}
