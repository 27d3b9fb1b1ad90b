import KithAPI
import KithRPC
import KithWire
import Testing

@testable import KithCompatibility

/// What the library has of a folder `/a` with these names, in pages as our method gives them.
func browse(_ names: [String], _ entry: @escaping @Sendable (Int) -> JSONValue) -> FakeCarrier.Answer {
    { input in
        let after = AdaptedPath.read(input.member("after"))?.bytes ?? []
        let limit = Int(input.member("limit")?.whole ?? 1_000)
        let rest = names.indices.filter { after.lexicographicallyPrecedes(Array(names[$0].utf8)) }
        return [
            "entries": .array(rest.prefix(limit).map(entry)), "hasMore": .boolean(rest.count > limit),
        ]
    }
}

@Suite struct `A folder of the reference` {
    private static let names = (0..<2_500).map { "\(10_000 + $0).jpg" }

    /// A device with a folder `/a` of many files, each of which the library knows.
    private func makeDevice() throws -> (CompatibilityAdapter, FakeCarrier) {
        let names = Self.names
        let page = browse(names) { number in
            [
                "id": .integer(Int64(number)), "path": .string("/a/\(names[number])"), "kind": "file",
                "category": number % 2 == 0 ? "image" : "document", "tags": number == 2_400 ? ["work"] : [],
                "size": .integer(Int64(number)), "modified": .integer(Int64(number)), "added": 1,
            ]
        }
        return try makeAdapter(
            [
                "locations.list": ["locations": [["id": 3, "path": "/a", "name": "a"]]],
                "files.stat": ["name": "x", "kind": "file", "size": 1, "modified": 0],
            ],
            [
                "locations.browse": page,
                "files.list": { input in
                    let after = AdaptedPath.read(input.member("after"))?.bytes ?? []
                    let rest = names.filter { after.lexicographicallyPrecedes(Array($0.utf8)) }
                    return [
                        "entries": .array(
                            rest.prefix(1_000).map { ["name": .string($0), "kind": "file", "size": 1, "modified": 0] }),
                        "hasMore": .boolean(rest.count > 1_000),
                    ]
                },
            ])
    }

    @Test func `has tags and kinds behind its first thousand names, too`() async throws {
        let (adapter, _) = try makeDevice()
        let listing = try await adapter.run(
            "query:files.directory_listing", ["path": "/a", "limit": 10_000, "sort_by": "name"],
            library: .string(library))
        let files = try #require(listing.member("files")?.list)
        #expect(files.count == 2_500 && listing.member("has_more")?.flag == false)
        #expect(files.count { $0.member("content_kind")?.text == "image" } == 1_250)
        #expect(files[2_400].member("tags")?.list?.first?.member("canonical_name")?.text == "work")
    }

    @Test func `has each file by its path with its tags, and is not read through for it`() async throws {
        let (adapter, carrier) = try makeDevice()
        let file = try await adapter.run(
            "query:files.by_path", ["path": .string("/a/\(Self.names[2_400])")], library: .string(library))
        #expect(file.member("tags")?.list?.count == 1 && file.member("content_kind")?.text == "image")
        #expect(carrier.inputs(of: "locations.browse").count == 1)
        let other = try await adapter.run(
            "query:files.by_path", ["path": "/a/10000.jp"], library: .string(library))
        #expect(other.member("tags")?.list?.isEmpty == true)
    }

    @Test func `tells of one file what its content is and says, and where else it is`() async throws {
        let (adapter, carrier) = try makeAdapter(
            [
                "locations.list": ["locations": [["id": 3, "path": "/a", "name": "a"]]],
                "files.stat": ["name": "x.jpg", "kind": "file", "size": 9, "modified": 0],
                "media.properties": [
                    "sha256": "ab",
                    "properties": ["width": 40, "height": 30, "camera": "Sony A7", "taken": 7_200, "takenOffset": 120],
                ],
                "duplicates.copies": [
                    "group": [
                        "digest": "ab", "size": 9, "count": 2,
                        "copies": [
                            ["paths": ["/a/x.jpg"], "verified": 60], ["paths": ["/b/y.jpg"], "verified": 120],
                        ],
                    ]
                ],
            ],
            [
                "locations.browse": browse(["x.jpg"]) { _ in
                    ["id": 1, "path": "/a/x.jpg", "kind": "file", "category": "image", "size": 9, "modified": 0]
                }
            ])
        let file = try await adapter.run("query:files.by_path", ["path": "/a/x.jpg"], library: .string(library))
        let content = try #require(file.member("content_identity"))
        #expect(content.member("content_hash")?.text == "ab" && content.member("entry_count")?.whole == 2)
        #expect(content.member("last_verified_at")?.text == "1970-01-01T00:02:00Z")
        let others = (file.member("alternate_paths")?.list ?? []).map { $0.member("Physical")?.member("path")?.text }
        #expect(others == ["/b/y.jpg"])
        let image = try #require(file.member("image_media_data"))
        #expect(image.member("width")?.whole == 40 && image.member("camera_model")?.text == "Sony A7")
        #expect(image.member("date_taken")?.text == "1970-01-01T00:00:00Z" && file.member("video_media_data") == nil)
        // What is in no location is not asked about.
        _ = try await adapter.run("query:files.by_path", ["path": "/c/x.jpg"], library: .string(library))
        #expect(carrier.inputs(of: "media.properties").count == 1)
    }

    @Test(arguments: [("modified", "12498"), ("name", "10000"), ("size", "12498"), ("datetaken", "10000")])
    func `lists its own media before it is cut, in the order asked for`(order: String, first: String) async throws {
        let (adapter, _) = try makeDevice()
        let listing = try await adapter.run(
            "query:files.media_listing", ["path": "/a", "limit": 10, "sort_by": .string(order)],
            library: .string(library))
        #expect(listing.member("files")?.list?.count == 10 && listing.member("total_count")?.whole == 1_250)
        #expect(listing.member("has_more")?.flag == true)
        #expect(listing.member("files")?.list?.first?.member("name")?.text == first)
    }

    @Test func `lists the media beneath it by a search, with their number`() async throws {
        let entry: JSONValue = ["id": 1, "path": "/a/b/c.jpg", "kind": "file", "size": 1, "modified": 0]
        let (adapter, carrier) = try makeAdapter([
            "search.files": ["entries": [entry], "next": "x", "total": 70],
            "locations.list": ["locations": []],
        ])
        let listing = try await adapter.run(
            "query:files.media_listing",
            ["path": "/a", "limit": 1, "sort_by": "size", "include_descendants": true], library: .string(library))
        #expect(listing.member("total_count")?.whole == 70 && listing.member("has_more")?.flag == true)
        let asked = try #require(carrier.inputs(of: "search.files").first)
        #expect(asked.member("query")?.text == #"in:"/a" kind:image,video sort:-size,name"#)
        #expect(asked.member("countsAll")?.flag == true)
        await #expect(throws: KithError(.unsupported, "")) {
            try await adapter.run(
                "query:files.media_listing", ["path": "/a", "sort_by": "beauty"], library: .string(library))
        }
    }
}
