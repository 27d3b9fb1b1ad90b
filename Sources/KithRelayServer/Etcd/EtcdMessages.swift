import Foundation
import KithWire

/// etcd's version 3 interface as its JSON gateway speaks it: bytes in base64, whole numbers as strings.
///
/// What is zero, false or empty is left out by etcd.
package enum EtcdMessages {
    /// The most bytes of an answer, and of one message of a watch: etcd sends at most 1.5 MiB of a row.
    package static let maxLength = 16 << 20

    /// The most rows of one answer to a list.
    static let rowsPerPage = 500

    /// A whole number, which is written as a string.
    struct Number: Codable, Hashable {
        var value: Int64

        init(_ value: Int64) { self.value = value }

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let text = try? container.decode(String.self) {  // a number that is none of a string is tried next
                guard let value = Int64(text) else {
                    throw DecodingError.dataCorruptedError(in: container, debugDescription: "no whole number")
                }
                self.value = value
            } else {
                value = try container.decode(Int64.self)
            }
        }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(String(value))
        }
    }

    // MARK: - Requests

    /// The rows of a range of keys.
    struct Range: Encodable {
        var key: Data
        var rangeEnd: Data?
        var limit: Number?
        var revision: Number?
        /// True when any member may answer by itself, without asking the others.
        var serializable: Bool?

        private enum CodingKeys: String, CodingKey {
            case key, limit, revision, serializable
            case rangeEnd = "range_end"
        }
    }

    /// A row that is written.
    struct Put: Encodable {
        var key: Data
        var value: Data
        var lease: Number?
    }

    /// A row that is deleted.
    struct Delete: Encodable {
        var key: Data
    }

    /// What has to hold for a transaction's first branch.
    struct Compare: Encodable {
        var key: Data
        var target: String
        var result = "EQUAL"
        var modRevision: Number?
        var value: Data?

        private enum CodingKeys: String, CodingKey {
            case key, target, result, value
            case modRevision = "mod_revision"
        }
    }

    /// One step of a transaction.
    struct Operation: Encodable {
        var put: Put?
        var range: Range?
        var delete: Delete?
        var transaction: Transaction?

        private enum CodingKeys: String, CodingKey {
            case put = "request_put"
            case range = "request_range"
            case delete = "request_delete_range"
            case transaction = "request_txn"
        }
    }

    /// Steps that are done all or not at all.
    struct Transaction: Encodable {
        var compare: [Compare]?
        var success: [Operation]
        var failure: [Operation]?
    }

    /// A watch, which begins at a revision.
    struct WatchRequest: Encodable {
        struct Create: Encodable {
            var key: Data
            var rangeEnd: Data
            var startRevision: Number
            var fragment = true

            private enum CodingKeys: String, CodingKey {
                case key, fragment
                case rangeEnd = "range_end"
                case startRevision = "start_revision"
            }
        }

        var create: Create

        private enum CodingKeys: String, CodingKey {
            case create = "create_request"
        }
    }

    /// A lease that is asked for.
    struct LeaseGrant: Encodable {
        var seconds: Number

        private enum CodingKeys: String, CodingKey {
            case seconds = "TTL"
        }
    }

    /// A lease that is kept alive, or given back.
    struct LeaseNumber: Encodable {
        var id: Number

        private enum CodingKeys: String, CodingKey {
            case id = "ID"
        }
    }

    /// A name and a password.
    struct Authenticate: Encodable {
        var name: String
        var password: String
    }

    /// The JSON of a request.
    static func json(_ value: some Encodable) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.withoutEscapingSlashes]
        do {
            return Array(try encoder.encode(value))
        } catch {
            preconditionFailure("texts and numbers are always JSON: \(error)")
        }
    }

    // MARK: - Answers

    /// What stands above every answer.
    struct Header: Decodable, Hashable {
        /// The cluster that answers.
        var cluster = ""
        /// The revision of its rows.
        var revision: Int64 = 0

        init() {}

        private enum CodingKeys: String, CodingKey {
            case revision
            case cluster = "cluster_id"
        }

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            cluster = try container.decodeIfPresent(String.self, forKey: .cluster) ?? ""
            revision = try container.decodeIfPresent(Number.self, forKey: .revision)?.value ?? 0
        }
    }

    /// A row.
    struct Row: Decodable, Hashable {
        var key: [UInt8]
        var value: [UInt8]
        /// The revision at which it was written, or deleted.
        var revision: Int64

        init(key: [UInt8], value: [UInt8], revision: Int64) {
            (self.key, self.value, self.revision) = (key, value, revision)
        }

        private enum CodingKeys: String, CodingKey {
            case key, value
            case revision = "mod_revision"
        }

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            key = Array(try container.decode(Data.self, forKey: .key))
            value = Array(try container.decodeIfPresent(Data.self, forKey: .value) ?? Data())
            revision = try container.decodeIfPresent(Number.self, forKey: .revision)?.value ?? 0
        }
    }

    /// The answer to a range.
    struct Page: Decodable, Hashable {
        var header = Header()
        var rows: [Row] = []
        /// True when there are more rows than were asked for.
        var hasMore = false

        init(header: Header = Header(), rows: [Row] = [], hasMore: Bool = false) {
            (self.header, self.rows, self.hasMore) = (header, rows, hasMore)
        }

        private enum CodingKeys: String, CodingKey {
            case header
            case rows = "kvs"
            case hasMore = "more"
        }

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            header = try container.decodeIfPresent(Header.self, forKey: .header) ?? Header()
            rows = try container.decodeIfPresent([Row].self, forKey: .rows) ?? []
            hasMore = try container.decodeIfPresent(Bool.self, forKey: .hasMore) ?? false
        }
    }

    /// The answer to a transaction.
    struct TransactionAnswer: Decodable, Hashable {
        /// The answer to one step of it.
        struct Step: Decodable, Hashable {
            var range: Page?
            var transaction: TransactionAnswer?

            private enum CodingKeys: String, CodingKey {
                case range = "response_range"
                case transaction = "response_txn"
            }
        }

        var header = Header()
        /// True when the first branch was taken.
        var succeeded = false
        var steps: [Step] = []

        private enum CodingKeys: String, CodingKey {
            case header, succeeded
            case steps = "responses"
        }

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            header = try container.decodeIfPresent(Header.self, forKey: .header) ?? Header()
            succeeded = try container.decodeIfPresent(Bool.self, forKey: .succeeded) ?? false
            steps = try container.decodeIfPresent([Step].self, forKey: .steps) ?? []
        }
    }

    /// A message of a watch.
    struct Watch: Decodable, Hashable {
        /// A change of a row.
        struct Event: Decodable, Hashable {
            var type: String?
            var row: Row

            var isDeletion: Bool { type == "DELETE" }

            private enum CodingKeys: String, CodingKey {
                case type
                case row = "kv"
            }
        }

        var header = Header()
        var isCreated = false
        var isCancelled = false
        var reason = ""
        /// Where the rows begin that are not compacted away, when the watch began before that.
        var compactRevision: Int64 = 0
        /// True when more of the same revision follows.
        var isFragment = false
        var events: [Event] = []

        init() {}

        private enum CodingKeys: String, CodingKey {
            case header, fragment, events
            case isCreated = "created"
            case isCancelled = "canceled"
            case reason = "cancel_reason"
            case compactRevision = "compact_revision"
        }

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            header = try container.decodeIfPresent(Header.self, forKey: .header) ?? Header()
            isCreated = try container.decodeIfPresent(Bool.self, forKey: .isCreated) ?? false
            isCancelled = try container.decodeIfPresent(Bool.self, forKey: .isCancelled) ?? false
            reason = try container.decodeIfPresent(String.self, forKey: .reason) ?? ""
            compactRevision = try container.decodeIfPresent(Number.self, forKey: .compactRevision)?.value ?? 0
            isFragment = try container.decodeIfPresent(Bool.self, forKey: .fragment) ?? false
            events = try container.decodeIfPresent([Event].self, forKey: .events) ?? []
        }
    }

    /// The answer to a question for a lease, and to a sign of life of one.
    struct Lease: Decodable, Hashable {
        var id: Int64
        /// The seconds that it holds; 0 when there is none.
        var seconds: Int64

        private enum CodingKeys: String, CodingKey {
            case id = "ID"
            case seconds = "TTL"
        }

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            id = try container.decodeIfPresent(Number.self, forKey: .id)?.value ?? 0
            seconds = try container.decodeIfPresent(Number.self, forKey: .seconds)?.value ?? 0
        }
    }

    /// The answer to a name and a password.
    struct Token: Decodable {
        var token: String
    }

    /// A refusal, of a question or inside a stream.
    struct Refusal: Decodable, Hashable {
        var message: String
        /// The kind, as gRPC numbers them.
        var code: Int

        private enum CodingKeys: String, CodingKey {
            case message, code
            case streamCode = "grpc_code"
        }

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            message = try container.decodeIfPresent(String.self, forKey: .message) ?? ""
            code =
                try container.decodeIfPresent(Int.self, forKey: .code)
                ?? container.decodeIfPresent(Int.self, forKey: .streamCode) ?? 0
        }
    }

    /// One line of a stream: a message, or why there are no more.
    struct Line<Message: Decodable>: Decodable {
        var result: Message?
        var error: Refusal?
    }

    /// Reads an answer.
    ///
    /// - Throws: `WireError` for what is none, or is too long.
    static func read<Answer: Decodable>(_ type: Answer.Type, from bytes: [UInt8]) throws(WireError) -> Answer {
        guard bytes.count <= maxLength else { throw .tooLong(limit: maxLength, actual: bytes.count) }
        do {
            return try JSONDecoder().decode(type, from: Data(bytes))
        } catch {
            throw .invalid("an answer of etcd is JSON as its gateway writes it")
        }
    }
}
