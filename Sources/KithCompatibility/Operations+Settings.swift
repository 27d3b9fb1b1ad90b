import KithAPI
import KithRPC
import KithWire

/// The rules by which a library leaves things out, as switches of the reference.
///
/// Each stands for patterns of ours; one is on where all of its patterns are among the rules.
enum AdaptedRules {
    /// The switches, and the patterns they stand for.
    static let switches: [(name: String, patterns: [String])] = [
        (
            "no_system_files",
            [
                ".DS_Store", ".Trashes", ".Spotlight-V100", ".fseventsd", "Thumbs.db", "desktop.ini", "$RECYCLE.BIN",
                "System Volume Information", "lost+found",
            ]
        ),
        ("no_git", [".git/", ".hg/", ".svn/", ".jj/"]),
        ("no_dev_dirs", ["node_modules/", "target/", ".build/", ".venv/", "__pycache__/", ".gradle/"]),
        ("no_hidden", [".*"]),
    ]

    /// The switches of rules; without rules those of a new library.
    static func shown(_ rules: JSONValue?) -> JSONValue {
        guard let rules else {
            return [
                "no_system_files": true, "no_git": true, "no_dev_dirs": false, "no_hidden": false, "gitignore": true,
                "only_images": false,
            ]
        }
        let patterns = Set((rules.member("patterns")?.list ?? []).compactMap(\.text))
        var shown: [String: JSONValue] = [
            "gitignore": rules.member("followsIgnoreFiles") ?? true, "only_images": false,
        ]
        for one in switches { shown[one.name] = .boolean(patterns.isSuperset(of: one.patterns)) }
        return .object(shown)
    }

    /// The rules after some switches were turned; patterns that no switch stands for stay.
    static func changed(_ rules: JSONValue?, by input: Fields) throws -> JSONValue {
        let before = shown(rules)
        var patterns = (rules?.member("patterns")?.list ?? []).compactMap(\.text)
        for one in switches {
            let isOn = try input.flag(one.name, before.member(one.name)?.flag ?? false)
            patterns.removeAll { one.patterns.contains($0) }
            if isOn { patterns += one.patterns }
        }
        return [
            "patterns": .array(patterns.map { .string($0) }),
            "followsIgnoreFiles": .boolean(try input.flag("gitignore", before.member("gitignore")?.flag ?? true)),
        ]
    }
}

extension Operation {
    static let settingsOperations: [Operation] = [
        .query("config.library.get") { call in
            let library = try await call.call("libraries.info")
            return [
                "generate_thumbnails": true, "thumbnail_quality": 85, "enable_ai_tagging": false,
                "sync_enabled": false, "encryption_enabled": false, "auto_track_system_volumes": false,
                "auto_track_external_volumes": false, "indexer": AdaptedRules.shown(library.member("rules")),
            ]
        },
        .action("config.library.update") { call in
            try refuse(
                call,
                [
                    "generate_thumbnails": true, "thumbnail_quality": 85, "enable_ai_tagging": false,
                    "sync_enabled": false, "encryption_enabled": false, "auto_track_system_volumes": false,
                    "auto_track_external_volumes": false, "only_images": false,
                ])
            let rules = try await call.call("libraries.info").member("rules")
            let changed = try AdaptedRules.changed(rules, by: call.input)
            _ = try await call.call("libraries.configure", ["rules": changed])
            return [
                "success": true, "requires_restart": false,
                "message": "Folders that are added from now on go by it.",
            ]
        },
        .action("config.app.update", .core) { call in
            try refuse(
                call,
                [
                    "telemetry_enabled": false, "log_level": "error", "theme": "system", "language": "en",
                    "networking_enabled": true, "volume_monitoring_enabled": false, "fs_watcher_enabled": true,
                    "statistics_listener_enabled": false, "job_logging_enabled": true,
                    "job_logging_include_debug": false, "proxy_pairing_auto_accept_vouched": false,
                    "proxy_pairing_auto_vouch_to_all": false,
                ])
            for name in [
                "proxy_pairing_vouch_signature_max_age", "proxy_pairing_vouch_response_timeout",
                "proxy_pairing_vouch_queue_retry_limit",
            ] where call.input.value.member(name) != nil {
                throw KithError(.unsupported, "config.app.update: this device has no setting \(name).")
            }
            return ["success": true, "requires_restart": false, "message": "It is so already."]
        },
    ]

    /// Refuses settings that are always as they are here, where they are to be something else.
    private static func refuse(_ call: Call, _ settings: [String: JSONValue]) throws {
        for (name, value) in settings.sorted(by: { $0.key < $1.key }) {
            guard let wanted = call.input.value.member(name), wanted != value else { continue }
            throw KithError(
                .unsupported,
                "\(call.input.operation): `\(name)` cannot be changed on this device. Nothing was changed.")
        }
    }
}
