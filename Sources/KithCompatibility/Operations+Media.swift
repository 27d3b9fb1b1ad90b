import KithAPI
import KithRPC
import KithWire

extension Operation {
    static let mediaOperations: [Operation] = [
        .action("media.thumbnail") { call in
            let paths = try call.paths("paths")
            guard paths.count <= 100 else {
                throw KithError(.invalid, "media.thumbnail: at most 100 paths at a time.")
            }
            try call.refuse([("quality", 85, "thumbnails have the quality 85 here")])
            let size = try thumbnailSize(call.input)
            // Each is there when this is answered: the receipt is of something that has ended.
            for path in paths {
                _ = try await call.call("media.thumbnail", ["path": path.json, "size": .integer(size)])
            }
            let name: [UInt8] = Array(paths.map(\.bytes).joined(separator: [0]))
            let receipt: JSONValue = [
                "id": .string(CompatibleID(.job, name, of: call.device.id).text), "job_name": "thumbnail_generation",
            ]
            return receipt
        },
        .action("media.thumbnail.regenerate") { call in
            let id = try call.input.id("entry_uuid")
            let path = try call.device.path(ofEntry: id.number(.entry, of: call.device.id))
            try call.refuse([("force", false, "a thumbnail is made anew when its file has changed")])
            let wanted = try call.input.list("variants").compactMap(\.text)
            let variants = thumbnailVariants.filter { wanted.isEmpty || wanted.contains($0.name) }
            guard !variants.isEmpty else {
                let names = thumbnailVariants.map(\.name).joined(separator: ", ")
                throw KithError(.unsupported, "media.thumbnail.regenerate: the variants are \(names).")
            }
            for variant in variants {
                _ = try await call.call("media.thumbnail", ["path": path.json, "size": .integer(variant.size)])
            }
            return [
                "generated_count": .integer(Int64(variants.count)),
                "variants": .array(variants.map { .string($0.name) }),
            ]
        },
    ]

    /// The thumbnails that this device makes.
    private static let thumbnailVariants: [(name: String, size: Int64)] = [
        ("grid@1x", 256), ("detail@1x", 1_024),
    ]

    /// The smallest of our sizes that is as large as wanted, or the largest.
    private static func thumbnailSize(_ input: Fields) throws -> Int64 {
        try input.number("size", 256, in: 1...4_096) <= 256 ? 256 : 1_024
    }
}
