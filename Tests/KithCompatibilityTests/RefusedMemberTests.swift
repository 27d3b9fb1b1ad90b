import KithAPI
import KithRPC
import KithWire
import Testing

@testable import KithCompatibility

@Suite struct `What the reference may ask for and this device does not do` {
    private static let answers: [String: JSONValue] = [
        "tags.change": [:], "operations.plan": ["id": "p", "totals": ["unresolved": 0]],
        "operations.confirm": ["job": "j"], "media.thumbnail": [:],
        "locations.export": ["name": "a", "bytes": 1, "notes": 0],
    ]

    private struct Asked: CustomTestStringConvertible {
        var operation: String
        var input: [String: JSONValue]
        /// The method that would do the rest.
        var method: String
        /// The members that ask for something else.
        var refused: [String: JSONValue]
        /// The members that ask for what happens.
        var usual: [String: JSONValue]

        var testDescription: String { operation }
    }

    private static let asked = [
        Asked(
            operation: "action:tags.create", input: ["canonical_name": "ana"], method: "tags.change",
            refused: [
                "icon": "star", "aliases": ["anna"], "description": "A client",
                "tag_type": "System",
                "privacy_level": "Hidden", "display_name": "Ana", "search_weight": 50, "attributes": ["a": 1],
                "is_organizational_anchor": true,
            ],
            usual: [
                "color": "#3B82F6", "aliases": [], "description": "", "tag_type": "Standard", "privacy_level": "Normal",
                "display_name": "ana", "search_weight": 100, "attributes": [:], "is_organizational_anchor": false,
            ]),
        Asked(
            operation: "action:files.copy", input: ["sources": ["paths": ["/a"]], "destination": "/b"],
            method: "operations.confirm",
            refused: ["preserve_timestamps": false, "verify_checksum": true, "copy_method": "Atomic"],
            usual: ["preserve_timestamps": true, "verify_checksum": false, "copy_method": "Auto"]),
        Asked(
            operation: "action:media.thumbnail", input: ["paths": ["/a"]], method: "media.thumbnail",
            refused: ["quality": 40], usual: ["quality": 85]),
    ]

    @Test(arguments: asked) private func `is refused, and nothing is done`(_ asked: Asked) async throws {
        for (name, value) in asked.refused {
            let (adapter, carrier) = try makeAdapter(Self.answers)
            await #expect(throws: KithError(.unsupported, ""), "\(name)") {
                try await adapter.run(
                    asked.operation, .object(asked.input.merging([name: value]) { $1 }), library: .string(library))
            }
            #expect(carrier.inputs(of: asked.method).isEmpty, "\(name)")
        }
        let (adapter, carrier) = try makeAdapter(Self.answers)
        _ = try await adapter.run(
            asked.operation, .object(asked.input.merging(asked.usual) { $1 }), library: .string(library))
        #expect(carrier.inputs(of: asked.method).count == 1)
    }

    @Test func `is refused of a location's file, too`() async throws {
        let (adapter, carrier) = try makeAdapter(
            Self.answers, ["locations.import": { _ in throw KithError(.conflict, "It is there.") }])
        let id = CompatibleID(.location, number: 3, of: adapter.device.id).text
        func export(_ name: String, _ value: JSONValue) async throws {
            _ = try await adapter.run(
                "action:locations.export", ["location_uuid": .string(id), "export_path": "/f", name: value],
                library: .string(library))
        }
        for (name, value) in [
            ("include_content_identities", true), ("include_media_data", true), ("include_user_metadata", false),
            ("include_tags", false),
        ] {
            await #expect(throws: KithError(.unsupported, "")) { try await export(name, .boolean(value)) }
            #expect(carrier.inputs(of: "locations.export").isEmpty)
        }
        try await export("include_tags", true)
        let error = await #expect(throws: KithError.self) {
            try await adapter.run(
                "action:locations.import", ["import_path": "/f", "skip_existing": true], library: .string(library))
        }
        #expect(error?.code == .conflict && error?.message.contains("skip_existing") == true)
    }

    @Test func `is a thumbnail that is made again`() async throws {
        let (adapter, _) = try makeAdapter(Self.answers)
        let id = adapter.device.note(7, at: "/a")
        func regenerate(_ force: Bool) async throws {
            _ = try await adapter.run(
                "action:media.thumbnail.regenerate", ["entry_uuid": .string(id.text), "force": .boolean(force)],
                library: .string(library))
        }
        await #expect(throws: KithError(.unsupported, "")) { try await regenerate(true) }
        try await regenerate(false)
    }
}

@Suite struct `Tags of the reference` {
    @Test(
        arguments: [
            ["type": "EntryUuid", "ids": [.string("ID")]], ["EntryUuid": [.string("ID")]],
            ["type": "Entry", "ids": [7]],
        ] as [JSONValue])
    func `are put on targets of both forms, today's and the one before`(_ targets: JSONValue) async throws {
        let (adapter, carrier) = try makeAdapter(["tags.change": [:]])
        let id = adapter.device.note(7, at: "/a")
        let text = try JSONText(encoding: targets).description.replacing("ID", with: id.text)
        _ = try await adapter.run(
            "action:tags.create", ["canonical_name": "ana", "apply_to": try JSONText(Array(text.utf8)).value()],
            library: .string(library))
        #expect(carrier.inputs(of: "tags.change").first?.member("paths") == ["/a"])
    }
}
