import KithAPI
import KithIdentity
import KithRPC
import KithTesting
import KithWire
import Logging
import Testing

@testable import KithCompatibility

@Suite struct `The names of the reference` {
    @Test(arguments: [
        "query:libraries.list", "query:libraries.list.v1", "query:libraries.list.input",
        "query:libraries.list.input.v1",
    ])
    func `are read in all their forms`(name: String) throws {
        #expect(OperationName(name) == OperationName(kind: .query, plain: "libraries.list"))
    }

    @Test(arguments: [
        "", "libraries.list", "query:", "query:libraries", "Query:libraries.list", "command:libraries.list",
        "query:a/b.c",
        "query:" + String(repeating: "a.", count: 100),
    ])
    func `are nothing else`(name: String) { #expect(OperationName(name) == nil) }

    @Test func `each mean one operation`() {
        #expect(Operation.table.count == Operation.all.count)
        #expect(Operation.all.count > 40)
    }

    @Test(arguments: [#"{"input":null}"#, #"{"input":{}}"#, "{}", "null", nil])
    func `take an input that is null, empty or absent`(params: String?) async throws {
        let (adapter, _) = try makeAdapter([:])
        let answer = try await adapter.answer(
            "query:libraries.list", try params.map { try JSONText(Array($0.utf8)) })
        #expect(try answer.value().list?.first?.member("id")?.text == library)
    }

    @Test(arguments: [
        (#"{"input":{}}"#, KithError.Code.invalid), (#"{"input":{},"library_id":null}"#, .invalid),
        (#"{"input":{},"library_id":"x"}"#, .invalid), (#"{"input":{},"library_id":7}"#, .invalid),
        (#"{"input":{},"library_id":"99999999-2222-4333-8444-555555555555"}"#, .notFound),
        (#"{"input":[],"library_id":"11111111-2222-4333-8444-555555555555"}"#, .invalid), ("[]", .invalid),
    ])
    func `refuse a library that is missing, malformed or unknown`(params: String, code: KithError.Code) async throws {
        let (adapter, carrier) = try makeAdapter(["locations.list": ["locations": []]])
        await #expect(throws: KithError(code, "")) {
            try await adapter.answer("query:locations.list", JSONText(Array(params.utf8)))
        }
        // It is never dropped: the call is not made without it.
        #expect(!carrier.asked.value.contains { $0.method == "locations.list" })
    }

    @Test func `check the library of an operation of the device, too, and name it in their calls`() async throws {
        let (adapter, carrier) = try makeAdapter(["locations.list": ["locations": []]])
        await #expect(throws: KithError(.notFound, "")) {
            try await adapter.run("query:core.events.list", .null, library: "99999999-2222-4333-8444-555555555555")
        }
        _ = try await adapter.run("query:locations.list", .null, library: .string(library.uppercased()))
        #expect(carrier.asked.value.last?.input == ["library": .string(library)])
    }

    @Test(arguments: [
        "query:spaces.list", "action:core.reset.input.v1", "query:no.such", "action:models.whisper.download",
    ])
    func `that cannot be done here are refused`(name: String) async throws {
        let (adapter, _) = try makeAdapter([:])
        await #expect(throws: KithError(.unsupported, "")) {
            try await adapter.run(name, .null, library: .string(library))
        }
    }

    @Test func `that this device has no method for are refused, not answered with nothing`() async throws {
        let (adapter, _) = try makeAdapter([:])
        for name in ["query:jobs.list", "query:volumes.list", "query:tags.search", "action:files.delete"] {
            await #expect(throws: KithError(.unsupported, "")) {
                try await adapter.run(name, ["query": "", "targets": ["/a"]], library: .string(library))
            }
        }
    }
}

@Suite struct `A UUID of a thing with a number` {
    @Test(arguments: [0, 1, 42, 1 << 32, 1 << 60 - 1] as [Int64])
    func `gives the number back, on its device and for its kind alone`(number: Int64) throws {
        let device = try makeDevice()
        let id = CompatibleID(.entry, number: number, of: device)
        #expect(id.number(.entry, of: device) == number)
        #expect(id.number(.location, of: device) == nil)
        #expect(id.number(.entry, of: try DeviceID(publicKey: [UInt8](repeating: 8, count: 32))) == nil)
        #expect(CompatibleID(id.text) == id && CompatibleID(id.text.uppercased()) == id)
        #expect(Array(id.text)[14] == "8" && "89ab".contains(Array(id.text)[19]))
    }

    @Test func `is of version 5 for what has a name, and the same each time`() throws {
        let device = try makeDevice()
        let id = CompatibleID(.tag, "work".utf8, of: device)
        #expect(id == CompatibleID(.tag, "work".utf8, of: device))
        #expect(id != CompatibleID(.path, "work".utf8, of: device))
        #expect(Array(id.text)[14] == "5")
    }

    @Test(arguments: ["", "x", "11111111222243338444555555555555", "11111111-2222-4333-8444-55555555555g"])
    func `is no other text`(text: String) { #expect(CompatibleID(text) == nil) }
}

@Suite struct `Times of the reference` {
    @Test(
        arguments: [
            (0, "1970-01-01T00:00:00Z"), (951_782_399, "2000-02-28T23:59:59Z"), (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"), (-1, "1969-12-31T23:59:59Z"),
            (-2_203_891_200, "1900-03-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"), (-62_167_219_200, "0000-01-01T00:00:00Z"),
        ] as [(Int64, String)])
    func `are RFC 3339 in UTC`(seconds: Int64, text: String) { #expect(Timestamp.text(seconds) == text) }

    @Test func `have no text outside of four digits`() {
        #expect(Timestamp.text(.max) == nil && Timestamp.text(.min) == nil)
        #expect(Timestamp.date("2024-05-31") == "2024-05-31" && Timestamp.date("2024-05") == nil)
        #expect(Timestamp.date("2024-05-31T10:00:00Z") == nil)
    }

    @Test(arguments: [
        "1970-01-01T00:00:00Z", "2000-02-29T23:59:59Z", "2024-02-29T00:00:00Z", "1969-12-31T23:59:59Z",
        "1900-03-01T00:00:00Z", "9999-12-31T23:59:59Z", "0000-01-01T00:00:00Z",
    ])
    func `are read as they are written`(text: String) throws {
        #expect(Timestamp.text(try #require(Timestamp.seconds(text))) == text)
    }

    @Test(
        arguments: [
            ("2024-05-31T10:00:00.123456789Z", "2024-05-31T10:00:00Z"),
            ("2024-05-31T01:30:00+02:00", "2024-05-30T23:30:00Z"),
            ("2024-05-31T23:00:00-01:30", "2024-06-01T00:30:00Z"),
        ])
    func `are read in other zones, and without their parts of a second`(text: String, meant: String) {
        #expect(Timestamp.seconds(text) == Timestamp.seconds(meant))
    }

    @Test(arguments: [
        "", "2024-05-31", "2024-05-31T10:00", "2024-05-31T10:00:00", "2024-13-01T00:00:00Z", "2024-05-31T10:00:00.Z",
        "2024-05-31T10:00:00Z OR x", "2024-05-31T10:00:00+2:00", "2024-05-31T10:00:00+", "２024-05-31T10:00:00Z",
    ])
    func `are no other text`(text: String) { #expect(Timestamp.seconds(text) == nil) }
}

@Suite struct `The envelope of the reference` {
    /// The exact bytes of its Swift client.
    @Test(arguments: [
        #""Ping""#,
        #"{"Query":{"method":"query:libraries.list.v1","library_id":null,"payload":{"include_stats":false}}}"#,
        #"{"Action":{"method":"action:libraries.create.input.v1","library_id":"1111","payload":{"name":"N","path":null}}}"#,
        #"{"Query":{"method":"query:core.status.v1","library_id":null,"payload":null}}"#,
        #"{"Subscribe":{"event_types":["JobStarted"]}}"#,
    ])
    func `is known by its first line`(line: String) { #expect(Envelope.begins(with: Array(line.utf8))) }

    @Test(arguments: [
        #"{"jsonrpc":"2.0","id":1,"method":"a"}"#, "[]", "{}", "garbage", "1", "null", #"{"A":1,"B":2}"#,
        #"{"query":1}"#,
        "\"\\ud800\"", "",
    ])
    func `is not what anything else begins with`(line: String) { #expect(!Envelope.begins(with: Array(line.utf8))) }

    @Test func `is answered with the reference's bytes`() async throws {
        let (adapter, _) = try makeAdapter([:])
        #expect(try await answer(#""Ping""#, adapter) == [#""Pong""#])
        #expect(try await answer(#""Unsubscribe""#, adapter) == [#""Unsubscribed""#])
        #expect(try await answer(#""UnsubscribeLogs""#, adapter) == [#""LogsUnsubscribed""#])
        let list = try await answer(
            #"{"Query":{"method":"query:libraries.list.v1","library_id":null,"payload":{"include_stats":false}}}"#,
            adapter)
        #expect(list == [#"{"JsonOk":[{"id":"\#(library)","name":"Home","path":"","stats":null}]}"#])
        #expect(
            try await answer(
                #"{"Action":{"method":"action:core.reset.input.v1","payload":{"confirm":true}}}"#, adapter)[0]
                .hasPrefix(#"{"Error":{"HandlerNotFound":""#))
        #expect(
            try await answer(#"{"Query":{"method":"query:jobs.list.v1","library_id":"1111","payload":{}}}"#, adapter)[0]
                .hasPrefix(#"{"Error":{"ValidationError":""#))
        for line in [
            #""Pong""#, #"{"Query":{}}"#, #"{"Query":7}"#, #"{"Nothing":{}}"#, #"{"Subscribe":{"event_types":1}}"#,
        ] {
            #expect(try await answer(line, adapter)[0].hasPrefix(#"{"Error":{"SerializationError":""#), "\(line)")
        }
        #expect(try await answer(#"{"SubscribeLogs":{"filter":null}}"#, adapter)[0].contains("OperationFailed"))
    }
}

@Suite struct `Events in the reference's terms` {
    private func job(_ state: String, _ done: Int64 = 0) -> JSONValue {
        [
            "id": "j", "kind": "copy", "state": .string(state),
            "progress": ["phase": "copy", "completed": .integer(done), "total": 4],
        ]
    }

    @Test func `follow the states of a job`() throws {
        let device = CompatibleID(of: try makeDevice())
        var states = JobStates()
        #expect(states.events(of: job("queued"), isCurrent: true, on: device).isEmpty)
        let told = ["queued", "running", "running", "paused", "paused", "running", "done"].flatMap {
            states.events(of: job($0, 1), isCurrent: false, on: device)
        }
        #expect(told.map(\.name) == ["JobStarted", "JobProgress", "JobPaused", "JobResumed", "JobCompleted"])
        #expect(told[1].content?.member("progress")?.real == 0.25)
        #expect(states.events(of: job("failed"), isCurrent: false, on: device).map(\.name) == ["JobFailed"])
    }

    @Test func `pass the filter of a subscription as the reference's do`() throws {
        let content: JSONValue = [
            "event_types": ["ResourceChangedBatch", "Refresh"],
            "filter": [
                "resource_type": "file", "path_scope": ["Physical": ["device_slug": "ana-s-laptop", "path": "/a/b"]],
                "include_descendants": false,
            ],
        ]
        let subscription = try Subscription(content)
        func file(_ path: String, _ name: String = "ResourceChangedBatch") -> AdaptedEvent {
            AdaptedEvent(name: name, resource: "file", paths: [Files.Path(path)])
        }
        #expect(subscription.wants(file("/a/b/c")) && subscription.wants(file("/a/b")))
        #expect(!subscription.wants(file("/a/b/c/d")) && !subscription.wants(file("/a/bc")))
        #expect(!subscription.wants(file("/a/b/c", "ResourceDeleted")))
        // What is about no resource is dropped when a type of resource is asked for.
        #expect(!subscription.wants(AdaptedEvent(name: "Refresh")))
        #expect(Subscription().wants(AdaptedEvent(name: "Refresh")))
    }

    @Test func `name only variants that the reference has`() {
        #expect(Set(AdaptedEvent.noisy).isSubset(of: AdaptedEvent.names))
    }
}

@Suite struct `A file in the reference's terms` {
    @Test func `is found by its UUID once it was named, and keeps a name that is not UTF-8`() async throws {
        let odd: JSONValue = ["bytes": .string(Base64.encode(Array("/a/".utf8) + [0xFF]))]
        let (adapter, carrier) = try makeAdapter([
            "search.files": [
                "entries": [
                    [
                        "id": 5, "path": "/a/report.tar.gz", "kind": "file", "category": "archive", "size": 3,
                        "modified": 0,
                    ],
                    ["id": 6, "path": odd, "kind": "file", "size": 1, "modified": 0],
                ], "total": 2,
            ],
            "files.stat": ["name": "report.tar.gz", "kind": "file", "size": 3, "modified": 0],
            "locations.list": ["locations": []], "search.facets": ["total": 2],
        ])
        let found = try await adapter.run(
            "query:search.files", ["query": "a \"b\"", "sort": ["field": "Size", "direction": "Desc"]],
            library: .string(library))
        #expect(
            carrier.inputs(of: "search.files").map { $0.member("query")?.text } == [#""a" """b""" sort:-size"#])
        let file = try #require(found.member("files")?.list?.first)
        #expect(file.member("name")?.text == "report.tar" && file.member("extension")?.text == "gz")
        #expect(file.member("content_kind")?.text == "archive")
        #expect(file.member("sd_path")?.member("Physical")?.member("device_slug")?.text == "ana-s-laptop")
        let other = try #require(found.member("files")?.list?.last?.member("sd_path"))
        #expect(try AdaptedPath(other, in: "").path.bytes == Array("/a/".utf8) + [0xFF])
        let id = try #require(file.member("id"))
        _ = try await adapter.run("query:files.by_id", ["file_id": id], library: .string(library))
        #expect(
            carrier.asked.value.contains {
                $0.method == "files.stat" && $0.input.member("path")?.text == "/a/report.tar.gz"
            })
        await #expect(throws: KithError(.notFound, "")) {
            try await adapter.run("query:files.by_id", ["file_id": .string(library)], library: .string(library))
        }
    }

    @Test func `is not taken from another device, or from a cloud`() async throws {
        let (adapter, carrier) = try makeAdapter(["files.stat": ["kind": "file"]])
        let paths: [JSONValue] = [
            ["Physical": ["device_slug": "other", "path": "/a"]],
            ["Cloud": ["service": "s3", "identifier": "b", "path": "a"]], "s3://bucket/key", "local://other/a",
        ]
        for path in paths {
            await #expect(throws: KithError(.unsupported, "")) {
                try await adapter.run("query:files.by_path", ["path": path], library: .string(library))
            }
        }
        #expect(!carrier.asked.value.contains { $0.method == "files.stat" })
    }

    @Test func `is not copied over another one unless that was said`() async throws {
        let plan: JSONValue = [
            "id": "p", "totals": ["unresolved": 1],
            "steps": [["destination": "/b/a", "conflict": ["kind": "file"]]],
        ]
        let (adapter, carrier) = try makeAdapter([
            "operations.plan": plan, "operations.confirm": ["operation": "o", "job": "j"],
        ])
        await #expect(throws: KithError(.conflict, "")) {
            try await adapter.run(
                "action:files.copy.input.v1", ["sources": ["paths": ["/a"]], "destination": "/b"],
                library: .string(library))
        }
        #expect(!carrier.asked.value.contains { $0.method == "operations.confirm" })
    }
}
