import KithAPI
import KithIdentity
import KithRPC
import KithWire

extension Operation {
    static let networkOperations: [Operation] = [
        .query("devices.list") { call in
            let showsOffline = try call.input.flag("include_offline", true)
            let status = try await call.device.client.call(ThisDevice.Status.self, Nothing())
            var devices: [JSONValue] = [
                [
                    "id": .string(call.device.uuid.text), "name": .string(status.name),
                    "slug": .string(call.device.slug), "os": .string(systemName), "os_version": .null,
                    "hardware_model": .null,
                    "network_addresses": .array(status.addresses.map { .string($0.description) }), "is_online": true,
                    "is_current": true, "is_paired": false, "is_connected": true, "last_seen_at": .null,
                    "created_at": .null, "updated_at": .null, "node_id": .string(status.id.description),
                ]
            ]
            for device in try await paired(call) where showsOffline || device.isOnline {
                devices.append([
                    "id": .string(CompatibleID(of: device.id).text), "name": .string(device.name),
                    "slug": .string(AdaptedDevice.slug(device.name)), "os": "Other", "os_version": .null,
                    "hardware_model": .null,
                    "network_addresses": .array(device.addresses.map { .string($0.description) }),
                    "is_online": .boolean(device.isOnline), "is_current": false, "is_paired": true,
                    "is_connected": .boolean(device.isOnline), "last_seen_at": .time(device.lastSeen),
                    "created_at": .time(device.pairedAt), "updated_at": .time(device.pairedAt),
                    "node_id": .string(device.id.description),
                ])
            }
            return .array(devices)
        },
        .query("network.status", .core) { call in
            let status = try await call.device.client.call(ThisDevice.Status.self, Nothing())
            return try await networkStatus(call, status)
        },
        .query("network.devices.list", .core) { call in
            let onlyConnected = try call.input.flag("connectedOnly")
            let devices = try await paired(call)
            return [
                "devices": .array(
                    devices.filter { !onlyConnected || $0.isOnline }.map {
                        [
                            "id": .string(CompatibleID(of: $0.id).text), "name": .string($0.name),
                            "device_type": "Other", "os_version": .null, "app_version": .optional($0.version),
                            "is_connected": .boolean($0.isOnline), "last_seen": .time($0.lastSeen ?? $0.pairedAt),
                            "node_id": .string($0.id.description),
                        ]
                    }),
                "total": .integer(Int64(devices.count)),
                "connected": .integer(Int64(devices.count { $0.isOnline })),
            ]
        },
        .action("network.start", .core) { call in
            // A device that answers is in its network.
            _ = try await call.device.client.call(ThisDevice.Status.self, Nothing())
            return ["started": true]
        },
        .action("network.device.revoke", .core) { call in
            let device = try await device(call.input.id("device_id"), call)
            _ = try await call.device.client.call(
                Devices.Forget.self, Devices.Reference(device: device.id.description))
            return ["revoked": true]
        },
        .action("network.pair.generate", .core) { call in
            // Whoever has the code is paired, as clients of Spacedrive expect, and may do nothing until it is granted.
            let made = try await call.device.client.call(
                Invitations.Create.self,
                Invitations.Create.Input(grants: [], lifetimeSeconds: 300, isAutomatic: true))
            let status = try await call.device.client.call(ThisDevice.Status.self, Nothing())
            let code: JSONValue = [
                "version": 2, "words": .string(made.text), "node_id": .string(status.id.description),
            ]
            return [
                "code": .string(made.text), "session_id": .string(session(made.info.id, call).text),
                "expires_at": .time(made.info.expiresAt), "qr_json": .string(try JSONText(encoding: code).description),
                "node_id": .string(status.id.description),
            ]
        },
        .action("network.pair.join", .core) { call in
            let code = try call.input.string("code")
            let opened = try await call.device.client.open(
                PairingMethods.Join.self, PairingMethods.Join.Input(invitation: code, grants: []))
            while let event = try await opened.stream.receive() {
                switch event {
                // The person who typed the code has no screen to compare on.
                case .compare: try await opened.stream.send(PairingMethods.Decision(accept: true))
                case .paired(let device):
                    return [
                        "paired_device_id": .string(CompatibleID(of: device.id).text),
                        "device_name": .string(device.name),
                    ]
                case .failed(let code, let message): throw KithError(code, message)
                }
            }
            throw KithError(.closed, "The pairing ended without a result. Make another code and try again.")
        },
        .query("network.pair.status", .core) { call in
            let open = try await call.device.client.call(Invitations.List.self, Nothing())
            let waiting = try await call.device.client.call(PairingMethods.Waiting.self, Nothing())
            return [
                "sessions": .array(
                    open.map { invitation in
                        let request = waiting.first { $0.invitation == invitation.id }
                        return [
                            "id": .string(session(invitation.id, call).text),
                            "state": request == nil ? "WaitingForConnection" : "AwaitingUserConfirmation",
                            "remote_device_id": .optional(request.map { CompatibleID(of: $0.device).text }),
                            "remote_device_name": .optional(request?.name), "expires_at": .time(invitation.expiresAt),
                        ]
                    })
            ]
        },
        .action("network.pair.cancel", .core) { call in
            let id = try call.input.id("session_id")
            let open = try await call.device.client.call(Invitations.List.self, Nothing())
            guard let invitation = open.first(where: { session($0.id, call) == id }) else {
                throw KithError(.notFound, "There is no pairing \(id.text) that could be cancelled.")
            }
            _ = try await call.device.client.call(Invitations.Revoke.self, Invitations.Revoke.Input(id: invitation.id))
            return ["cancelled": true]
        },
        .action("network.spacedrop.send", .core) { call in
            let device = try await device(call.input.id("device_id"), call)
            let paths = try call.paths("paths")
            let opened = try await call.device.client.open(
                Offers.Deliver.self, Offers.Deliver.Input(paths: paths, device: device.id.description))
            // The first word says that the other device knows of it, or why not.
            guard let first = try await opened.stream.receive() else {
                throw KithError(.closed, "The delivery ended before it began.")
            }
            if let failure = first.failure { throw failure.error }
            try call.device.keep {
                // What becomes of it is shown on both devices; nobody asks here.
                do { while try await opened.stream.receive() != nil {} } catch {}
            }
            let session = CompatibleID(
                .session, paths.flatMap(\.bytes) + device.id.bytes + Array("\(ContinuousClock.now)".utf8),
                of: call.device.id)
            return ["job_id": .null, "session_id": .string(session.text)]
        },
    ]

    /// The network as the reference describes it.
    static func networkStatus(_ call: Call, _ status: ThisDevice.Status.Output) async throws -> JSONValue {
        let devices = try await paired(call)
        return [
            "running": true, "node_id": .string(status.id.description),
            "addresses": .array(status.addresses.map { .string($0.description) }),
            "paired_devices": .integer(Int64(devices.count)),
            "connected_devices": .integer(Int64(devices.count { $0.isOnline })), "version": .string(status.version),
            "relay_url": .optional(status.relays?.first),
        ]
    }

    private static func paired(_ call: Call) async throws -> [Devices.Info] {
        try await call.device.client.call(Devices.List.self, Devices.List.Input(probe: false))
    }

    /// A paired device, by its UUID.
    private static func device(_ id: CompatibleID, _ call: Call) async throws -> Devices.Info {
        guard let device = try await paired(call).first(where: { CompatibleID(of: $0.id) == id }) else {
            throw KithError(.notFound, "No device \(id.text) is paired with this one.")
        }
        return device
    }

    private static func session(_ invitation: String, _ call: Call) -> CompatibleID {
        CompatibleID(.session, invitation.utf8, of: call.device.id)
    }
}
