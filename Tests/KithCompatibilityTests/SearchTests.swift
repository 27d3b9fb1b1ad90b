import KithAPI
import KithRPC
import KithWire
import Testing

@testable import KithCompatibility

@Suite struct `A search of the reference` {
    private static let answers: [String: JSONValue] = [
        "search.files": ["entries": []],
        "search.facets": [
            "total": 7, "extensions": [["value": "pdf", "count": 4]], "tags": [["value": "work/clients", "count": 2]],
            "locations": [["value": "Docs", "count": 7]], "years": [["value": "2024", "count": 7]],
            "sizes": [["value": "<10K", "count": 7]],
            "kinds": [["value": "document", "count": 4], ["value": "folder", "count": 1]],
        ],
        "tags.list": ["tags": [["name": "work/clients", "uses": 1], ["name": "old \"stuff\"", "uses": 1]]],
        "locations.list": [
            "locations": [["id": 3, "path": "/srv/docs", "name": "Docs"], ["id": 4, "path": "/srv/b", "name": "B"]]
        ],
    ]

    private func query(_ input: [String: JSONValue]) async throws -> String? {
        let (adapter, carrier) = try makeAdapter(Self.answers)
        _ = try await adapter.run("query:search.files", .object(input), library: .string(library))
        // What is counted is what is searched, without an order.
        let queries = carrier.inputs(of: "search.facets").map { $0.member("query")?.text }
        #expect(queries.count == 1)
        return carrier.inputs(of: "search.files").first?.member("query")?.text
    }

    private func tag(_ name: String) throws -> JSONValue {
        .string(CompatibleID(.tag, name.utf8, of: try makeDevice()).text)
    }

    private func location(_ number: Int64) throws -> JSONValue {
        .string(CompatibleID(.location, number: number, of: try makeDevice()).text)
    }

    @Test func `keeps the times of a range, and takes a date for all of its day`() async throws {
        #expect(
            try await query([
                "query": "a",
                "filters": [
                    "date_range": [
                        "field": "ModifiedAt", "start": "2024-05-31T10:00:00.5Z", "end": "2024-05-31T14:30:00+02:00",
                    ]
                ],
            ]) == #""a" modified:>=@1717149600 modified:<=@1717158600"#)
        #expect(
            try await query(["filters": ["date_range": ["field": "IndexedAt", "end": "2024-05-31"]]])
                == "added:<=2024-05-31")
        await #expect(throws: KithError(.invalid, "")) {
            try await query(["filters": ["date_range": ["start": "yesterday OR x"]]])
        }
    }

    @Test func `asks for tags and locations by their names and paths`() async throws {
        #expect(
            try await query([
                "query": "",
                "filters": [
                    "tags": ["include": [tag("work/clients")], "exclude": [tag("old \"stuff\"")]],
                    "locations": [location(3), location(4)],
                ],
            ]) == #"tag:"work/clients" -tag:"old ""stuff""" (in:"/srv/docs" OR in:"/srv/b")"#)
        #expect(
            try await query(["scope": ["Location": ["location_id": location(4)]]]) == #"in:"/srv/b""#)
        await #expect(throws: KithError(.notFound, "")) {
            try await query(["filters": ["tags": ["include": [tag("gone")], "exclude": []]]])
        }
        await #expect(throws: KithError(.notFound, "")) { try await query(["filters": ["locations": [location(9)]]]) }
    }

    @Test func `counts what it finds by the UUIDs of tags and locations`() async throws {
        let (adapter, _) = try makeAdapter(Self.answers)
        let found = try await adapter.run(
            "query:search.files", ["query": "a", "sort": ["field": "Name"]], library: .string(library))
        let facets = try #require(found.member("facets"))
        #expect(found.member("total_found")?.whole == 7)
        #expect(facets.member("file_types") == ["pdf": 4] && facets.member("content_types") == ["document": 4])
        #expect(facets.member("tags") == .object([try #require(tag("work/clients").text): 2]))
        #expect(facets.member("locations") == .object([try #require(location(3).text): 7]))
        #expect(facets.member("date_ranges") == ["2024": 7] && facets.member("size_ranges") == ["<10K": 7])
    }
}
