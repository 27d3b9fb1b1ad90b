/// The failure of an operation, in the form in which it travels everywhere.
///
/// Switch on ``code`` to react; show ``message`` to a person. The same value travels between devices (code, message and
/// ``detail``), through JSON-RPC (``Code/rpcCode``) and out of the `kith` command (``Code/exitStatus``).
///
/// A message says what was attempted, on what, and what to do next. It never holds a secret.
public struct KithError: Error, Sendable {
    /// The kind of a failure, and so what a caller can do about it.
    @nonexhaustive
    public enum Code: String, Hashable, Sendable, Codable, CaseIterable {
        /// The request itself is wrong: an argument, a path, a name. Trying it again unchanged will not help.
        case invalid
        /// The thing asked for does not exist.
        case notFound
        /// Something of that name is already there, or changed meanwhile.
        case conflict
        /// The caller is known and lacks the grant, or the file system refused.
        case denied
        /// The caller is not paired with this device.
        case unpaired
        /// The other device cannot be reached now. Trying again later may work.
        case unreachable
        /// The deadline passed first.
        case timedOut
        /// The caller, or the other end, called it off.
        case cancelled
        /// This device does not know the method, or cannot do it on this platform.
        case unsupported
        /// A limit was met: a full disk, a full queue, too many of something.
        case exhausted
        /// Bytes that should agree do not: a hash, a signature, a stored file.
        case corrupt
        /// The connection or the stream ended before the operation did.
        case closed
        /// A fault of ours.
        case `internal`
    }

    /// An application's own description of its error, for its own programs.
    ///
    /// It reaches the caller as it is, over any number of hops.
    public struct Detail: Hashable, Sendable {
        /// The most bytes of ``code``.
        public static let codeLimit = 128
        /// The most bytes of ``data``.
        public static let dataLimit = 2048

        /// The application's own code: `lamp.tooHot`.
        public let code: String
        /// More, as CBOR; `nil` when the code says all.
        package let data: [UInt8]?

        /// Makes a detail of a code alone; it is cut to ``codeLimit``.
        public init(_ code: String) {
            self.code = code.prefix(bytes: Self.codeLimit)
            data = nil
        }

        /// Makes a detail that carries a value.
        ///
        /// - Throws: `KithError` `.exhausted` when `data` has more than ``dataLimit`` bytes as CBOR.
        public init(_ code: String, data: some Encodable) throws {
            let bytes = try CBOREncoder().encode(data)
            guard bytes.count <= Self.dataLimit else {
                throw KithError(
                    .exhausted, "An error carries at most \(Self.dataLimit) bytes of data; these are \(bytes.count).")
            }
            self.code = code.prefix(bytes: Self.codeLimit)
            self.data = bytes
        }

        /// Makes a detail that another device has sent; `nil` when it exceeds the limits.
        package init?(code: String, cbor: [UInt8]?) {
            guard code.utf8.count <= Self.codeLimit, (cbor?.count ?? 0) <= Self.dataLimit else { return nil }
            self.code = code
            data = cbor
        }

        /// The value it carries; `nil` when it carries none.
        ///
        /// - Throws: what the decoder throws when the value is of another type.
        public func value<Value: Decodable>(as type: Value.Type) throws -> Value? {
            try data.map { try CBORDecoder().decode(type, from: $0) }
        }
    }

    /// The kind of failure.
    public var code: Code
    /// One sentence for a person.
    public var message: String
    /// The application's own description; `nil` for Kith's own methods.
    public var detail: Detail?
    /// The underlying error, for a log on this device; it is never sent.
    public var cause: (any Error)?

    /// Makes an error.
    public init(_ code: Code, _ message: String, detail: Detail? = nil, cause: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.detail = detail
        self.cause = cause
    }
}

extension KithError: CustomStringConvertible {
    /// The text form.
    public var description: String { message }
}

extension KithError: Equatable {
    /// Compares the codes only: messages are for people.
    public static func == (left: KithError, right: KithError) -> Bool { left.code == right.code }
}

extension KithError.Code {
    /// The JSON-RPC 2.0 error number of this code (−32000…−32099 is the range left to implementations).
    public var rpcCode: Int {
        switch self {
        case .invalid: -32602
        case .unsupported: -32601
        case .internal: -32603
        case .notFound: -32001
        case .conflict: -32002
        case .denied: -32003
        case .unpaired: -32004
        case .unreachable: -32005
        case .timedOut: -32006
        case .cancelled: -32007
        case .exhausted: -32008
        case .corrupt: -32009
        case .closed: -32010
        }
    }

    /// The code a JSON-RPC error number stands for; an unknown number is ``internal``.
    public init(rpcCode: Int) {
        self = Self.allCases.first { $0.rpcCode == rpcCode } ?? .internal
    }

    /// The number that resets a QUIC stream or closes a connection with this code.
    public var wireCode: UInt64 {
        switch self {
        case .internal: 0x1
        case .invalid: 0x2
        case .notFound: 0x3
        case .conflict: 0x4
        case .denied: 0x5
        case .unpaired: 0x6
        case .unreachable: 0x7
        case .timedOut: 0x8
        case .cancelled: 0x9
        case .unsupported: 0xA
        case .exhausted: 0xB
        case .corrupt: 0xC
        case .closed: 0xD
        }
    }

    /// The code a stream was reset with; an unknown number is ``closed``.
    public init(wireCode: UInt64) {
        self = Self.allCases.first { $0.wireCode == wireCode } ?? .closed
    }

    /// The exit status of the `kith` command: 64 for a wrong request, 3…14 for the rest, 1 for a fault of ours.
    public var exitStatus: Int32 {
        switch self {
        case .internal: 1
        case .notFound: 3
        case .conflict: 4
        case .denied: 5
        case .unpaired: 6
        case .unreachable: 7
        case .timedOut: 8
        case .cancelled: 9
        case .unsupported: 10
        case .exhausted: 11
        case .corrupt: 12
        case .closed: 13
        case .invalid: 64
        }
    }
}
