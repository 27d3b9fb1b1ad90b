import KithAPI
import KithRPC
import KithWire

/// Tags as the reference describes them.
enum AdaptedTag {
    /// The UUID of a tag.
    static func id(_ name: String, of device: AdaptedDevice) -> CompatibleID {
        CompatibleID(.tag, name.utf8, of: device.id)
    }

    /// A tag by its name here, with those above it: `work/clients`.
    static func shown(_ name: String, of device: AdaptedDevice) -> JSONValue {
        let parts = name.split(separator: "/")
        let above = parts.dropLast().joined(separator: "/")
        return [
            "id": .string(id(name, of: device).text), "canonical_name": .string(parts.last.map(String.init) ?? name),
            "display_name": .null, "formal_name": .null, "abbreviation": .null, "aliases": [],
            "namespace": above.isEmpty ? .null : .string(above), "tag_type": "Standard", "color": .null, "icon": .null,
            "description": .null, "is_organizational_anchor": false, "privacy_level": "Normal", "search_weight": 100,
            "attributes": [:], "composition_rules": [], "created_at": .time(0), "updated_at": .time(0),
            "created_by_device": .string(device.uuid.text),
        ]
    }
}

extension Operation {
    static let tagOperations: [Operation] = [
        .action("tags.create") { call in
            let plain = try call.input.string("canonical_name")
            let space = try call.input.optionalString("namespace")
            let name = [space, plain].compactMap(\.self).joined(separator: "/")
            try call.refuse([
                ("display_name", .string(plain), "a tag has one name here"),
                ("formal_name", .string(plain), "a tag has one name here"),
                ("abbreviation", nil, "a tag has one name here"), ("aliases", nil, "a tag has one name here"),
                ("tag_type", "Standard", "all tags are of the type Standard here"),
                // Of a color, which clients give each tag, the answer and the lists say that there is none.
                ("icon", nil, "tags have no icons here"),
                ("description", nil, "tags have no descriptions here"),
                ("is_organizational_anchor", false, "no tag is an anchor here"),
                ("privacy_level", "Normal", "what has a tag is found by all who may search here"),
                ("search_weight", 100, "all tags weigh the same here"),
                ("attributes", nil, "tags have a name alone here"),
            ])
            let paths = try tagged(call.input.value.member("apply_to"), call)
            _ = try await call.call(
                "tags.change", ["paths": .array(paths.map(\.json)), "add": [.string(name)], "remove": []])
            return [
                "tag_id": .string(AdaptedTag.id(name, of: call.device).text), "canonical_name": .string(plain),
                "namespace": .optional(space), "color": .null, "message": .string("The tag \(name) is there."),
            ]
        },
        .action("tags.apply") { call in
            let names = try await tagNames(call)
            let wanted = try call.input.list("tag_ids").map { try name(ofTag: $0, in: names) }
            let paths = try tagged(call.input.value.member("targets"), call)
            guard !paths.isEmpty, !wanted.isEmpty else {
                throw KithError(.invalid, "tags.apply: `targets` and `tag_ids` must not be empty.")
            }
            _ = try await call.call(
                "tags.change",
                ["paths": .array(paths.map(\.json)), "add": .array(wanted.map { .string($0) }), "remove": []])
            return [
                "entries_affected": .integer(Int64(paths.count)), "tags_applied": .integer(Int64(wanted.count)),
                "applied_tag_ids": .array(wanted.map { .string(AdaptedTag.id($0, of: call.device).text) }),
                "tagged_entry_ids": [], "warnings": [], "message": "Done.",
            ]
        },
        .query("tags.search") { call in
            let query = try call.input.optionalString("query") ?? ""
            let space = try call.input.optionalString("namespace")
            let limit = try call.input.number("limit", 100, in: 1...10_000)
            let found = try await tagNames(call).values.sorted().filter { name in
                (query.isEmpty || name.lowercased().contains(query.lowercased()))
                    && (space.map { name.hasPrefix($0 + "/") } ?? true)
            }
            return [
                "tags": .array(
                    found.prefix(Int(limit)).map {
                        [
                            "tag": AdaptedTag.shown($0, of: call.device), "relevance": 1, "matched_variant": .null,
                            "context_score": .null,
                        ]
                    }),
                "total_found": .integer(Int64(found.count)), "disambiguated": false, "query": .string(query),
                "filters": [
                    "namespace": .optional(space), "tag_type": .null, "include_archived": false,
                    "limit": .integer(limit),
                ],
            ]
        },
        .action("tags.delete") { call in
            let id = try call.input.id("tag_id")
            guard let name = try await tagNames(call)[id] else {
                throw KithError(.notFound, "There is no tag \(id.text) in this library.")
            }
            _ = try await call.call("tags.delete", ["name": .string(name)])
            return ["tag_id": .string(id.text), "success": true, "deleted": true]
        },
    ]

    /// The name of the tag that a UUID names.
    ///
    /// - Throws: `KithError` `.notFound`.
    static func name(ofTag id: JSONValue, in names: [CompatibleID: String]) throws -> String {
        guard let name = id.text.flatMap({ CompatibleID($0) }).flatMap({ names[$0] }) else {
            throw KithError(.notFound, "There is no tag \(id.text?.prefix(64) ?? "of such an id") in this library.")
        }
        return name
    }

    /// The names of all tags, by their UUIDs.
    static func tagNames(_ call: Call) async throws -> [CompatibleID: String] {
        let tags = try await call.call("tags.list").member("tags")?.list ?? []
        let names = tags.compactMap { $0.member("name")?.text }
        return Dictionary(names.map { (AdaptedTag.id($0, of: call.device), $0) }, uniquingKeysWith: { $1 })
    }

    /// The paths of what is to be tagged: `{"type":"EntryUuid","ids":[…]}`, or `{"EntryUuid":[…]}` as it was before, or
    /// `Entry`; with numbers or UUIDs.
    private static func tagged(_ value: JSONValue?, _ call: Call) throws -> [Files.Path] {
        guard let value else { return [] }
        let target: (variant: String, ids: [JSONValue])? =
            if let type = value.member("type")?.text {
                (type, value.member("ids")?.list ?? [])
            } else if case .object(let members) = value, members.count == 1, let (variant, list) = members.first {
                list.list.map { (variant, $0) }
            } else {
                nil
            }
        guard let (variant, ids) = target, ids.count <= 10_000 else {
            throw KithError(
                .invalid,
                "\(call.input.operation): targets are {\"type\":\"EntryUuid\",\"ids\":[…]}, at most 10,000.")
        }
        guard variant == "Entry" || variant == "EntryUuid" else {
            throw KithError(
                .unsupported, "\(call.input.operation): this device tags files, not \(variant.prefix(32)).")
        }
        return try ids.map { id in
            let number = id.whole ?? id.text.flatMap { CompatibleID($0) }?.number(.entry, of: call.device.id)
            return try call.device.path(ofEntry: number)
        }
    }
}
