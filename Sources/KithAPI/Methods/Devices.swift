public import KithIdentity
public import KithWire

/// The devices this one is paired with: their names, addresses and grants.
public enum Devices {
    /// A paired device, as a person sees it.
    public struct Info: Codable, Hashable, Sendable {
        /// The name it goes by here.
        public var name: String
        /// Its key.
        public var id: DeviceID
        /// True while a connection to it stands on which it was heard within half a minute, and while it answers.
        public var isOnline: Bool
        /// The seconds since it was last heard on the connection that stands; `nil` without one.
        public var quietSeconds: Double?
        /// The other end's address on that connection, or the URL of the relay it goes through; `nil` while there is
        /// none.
        public var path: String?
        /// The transport to the relay it goes through, `quic` or `tcp`; `nil` without one.
        public var relayCarrier: String?
        /// The smoothed round-trip time of the connection, in milliseconds.
        public var roundTripMilliseconds: Double?
        /// The ways to it that are held now, the one in use first: as a rule a direct one and the relay; `nil` while there
        /// is no connection.
        public var paths: [HeldPath]?
        /// The grants it has on this device.
        public var grants: [Grant]
        /// The addresses at which it may be reached, best first.
        public var addresses: [NetworkAddress]
        /// The time of pairing, or at which its certificate was first shown, in seconds since 1970.
        public var pairedAt: Int64
        /// The time it was last connected, in seconds since 1970; `nil`: never.
        public var lastSeen: Int64?
        /// True when it said, when last asked, that it is not paired with this device any more.
        public var hasForgotten: Bool?
        /// The grants this device has there, as it last said; `nil` when it never did.
        public var grantsThere: [Grant]?
        /// The time it said so, in seconds since 1970.
        public var grantsThereAt: Int64?
        /// The time a connection last used each of ``addresses``, in seconds since 1970; `nil`: never.
        public var addressesGoodAt: [Int64?]?
        /// The reason it could not be reached, when that was tried.
        public var failure: String?
        /// The names its own may be mistaken for in a list of devices, as a rule those of other devices; `nil` for
        /// none.
        public var looksLike: [String]?
        /// The warnings about a change of grants, for a person: folders that one device may change for another.
        public var warnings: [String]?

        /// The version of its software, as it said on the connection that stands; `nil` when it did not.
        public var version: String?
        /// The addresses at which it was just heard on the local network; `nil` when it is not there.
        public var localAddresses: [NetworkAddress]?
        /// Its capabilities, as in ``Reach/Hello/capabilities``.
        public var capabilities: [String]?
        /// The end of the certificate by which it is known, in seconds since 1970, after which it is cut off; `nil` for one
        /// that people paired.
        public var certifiedUntil: Int64?
        /// The labels that its owner here gave it, in order; `nil` for none.
        public var labels: [String]?
        /// Whether it comes first in lists; `nil`: no.
        public var isFavorite: Bool?
        /// Those of ``grants`` that end; `nil` for none.
        public var grantEnds: [GrantEnd]?

        /// Makes a description of a device.
        public init(
            name: String, id: DeviceID, isOnline: Bool, path: String?, roundTripMilliseconds: Double?,
            grants: [Grant], addresses: [NetworkAddress], pairedAt: Int64, lastSeen: Int64?
        ) {
            self.name = name
            self.id = id
            self.isOnline = isOnline
            self.path = path
            self.roundTripMilliseconds = roundTripMilliseconds
            self.grants = grants
            self.addresses = addresses
            self.pairedAt = pairedAt
            self.lastSeen = lastSeen
        }
    }

    /// A way to a device that is open.
    public struct HeldPath: Codable, Hashable, Sendable {
        /// The kind of a way.
        @nonexhaustive
        public enum Kind: String, Codable, Hashable, Sendable, CaseIterable {
            /// Within the local network.
            case lan
            /// From device to device.
            case direct
            /// Through a relay.
            case relay
        }

        /// The kind of way.
        public var kind: Kind
        /// The other end's address, or the URL of the relay.
        public var place: String
        /// The round trip that way, in milliseconds; `nil` before it was measured.
        public var roundTripMilliseconds: Double?
        /// True when packets go this way now.
        public var isActive: Bool

        /// Describes a way.
        public init(kind: Kind, place: String, roundTripMilliseconds: Double?, isActive: Bool) {
            (self.kind, self.place) = (kind, place)
            (self.roundTripMilliseconds, self.isActive) = (roundTripMilliseconds, isActive)
        }
    }

    /// Lists the paired devices.
    public enum List: Method {
        /// The input: the devices to list, and whether to try to reach those that are offline first.
        public struct Input: Codable, Hashable, Sendable {
            /// Tries to connect to every device, for at most two seconds, and asks what this one may do there.
            public var probe: Bool
            /// The only device to list, as ``Reference/device``; `nil` for all.
            public var device: String?

            /// Makes the input.
            public init(probe: Bool, device: String? = nil) {
                self.probe = probe
                self.device = device
            }
        }

        /// The answer: the devices.
        public typealias Output = [Info]
        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "devices.list", by: .owner, "Lists the paired devices: online, path, round trip, grants.")
    }

    /// Names one paired device.
    public struct Reference: Codable, Hashable, Sendable {
        /// Its name, its DeviceID, or an unambiguous beginning of either.
        public var device: String

        /// Makes a reference.
        public init(device: String) { self.device = device }
    }

    /// Ends the pairing with a device, cutting off whatever it is doing here.
    public enum Forget: Method {
        /// The input: the device.
        public typealias Input = Reference
        /// The answer: the device as it was.
        public typealias Output = Info
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "devices.forget", by: .owner, "Forgets a paired device and cuts off what it is doing here, at once.")
    }

    /// Gives a paired device another name on this one.
    public enum Rename: Method {
        /// The input: the device and its new name.
        public struct Input: Codable, Hashable, Sendable {
            /// The device, as ``Reference/device``.
            public var device: String
            /// The new name: 1 to 63 letters, digits, `-`, `_` or `.`.
            public var name: String

            /// Makes the input.
            public init(device: String, name: String) {
                self.device = device
                self.name = name
            }
        }

        /// The answer: the device under its new name.
        public typealias Output = Info
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "devices.rename", by: .owner, isIdempotent: true, "Gives a paired device another name on this one.")
    }

    /// Gives a paired device labels, by which it is found among many, or takes them away; they say nothing about rights.
    public enum Label: Method {
        /// The input: the device and the change.
        public struct Input: Codable, Hashable, Sendable {
            /// The device, as ``Reference/device``.
            public var device: String
            /// The labels to give: 1 to 63 letters, digits, `-`, `_` or `.` each, at most 16 in all.
            public var add: [String]
            /// The labels to take away.
            public var remove: [String]
            /// Whether it comes first in lists from now on; absent: as before.
            public var isFavorite: Bool?

            /// Makes the input.
            public init(device: String, add: [String], remove: [String], isFavorite: Bool? = nil) {
                self.device = device
                self.add = add
                self.remove = remove
                self.isFavorite = isFavorite
            }
        }

        /// The answer: the device with its labels.
        public typealias Output = Info
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "devices.label", by: .owner, "Gives labels to a paired device, or takes them away.")
    }

    /// A grant that ends.
    public struct GrantEnd: Codable, Hashable, Sendable {
        /// The grant.
        public var grant: Grant
        /// The time at which it is taken away, in seconds since 1970.
        public var time: Int64

        /// Describes the end of a grant.
        public init(grant: Grant, time: Int64) {
            self.grant = grant
            self.time = time
        }
    }

    /// Changes what a paired device may do here; running work that loses its grant is cut off.
    public enum ChangeGrants: Method {
        /// The input: the device and the change.
        public struct Input: Codable, Hashable, Sendable {
            /// The device, as ``Reference/device``.
            public var device: String
            /// The grants to give.
            public var add: [Grant]
            /// The grants to take away.
            public var remove: [Grant]
            /// The time at which those of ``add`` are taken away again, in seconds since 1970; `nil`: they last, also where
            /// the device had them until a time.
            public var until: Int64?

            /// Makes the input.
            public init(device: String, add: [Grant], remove: [Grant], until: Int64? = nil) {
                self.device = device
                self.add = add
                self.remove = remove
                self.until = until
            }
        }

        /// The answer: the device with its new grants.
        public typealias Output = Info
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "devices.grant", by: .owner, "Gives grants to a paired device, or takes them away.")
    }
}

/// The device that answers: its name, its key, where it listens.
public enum ThisDevice {
    /// Describes this device.
    public enum Status: Method {
        /// The answer: the device as its own person sees it.
        public struct Output: Codable, Hashable, Sendable {
            /// The name it gives when it pairs.
            public var name: String
            /// Its key.
            public var id: DeviceID
            /// The addresses it listens on.
            public var addresses: [NetworkAddress]
            /// Its ticket: the key and the addresses by which another device finds it; it grants nothing.
            public var ticket: String
            /// The version of the software.
            public var version: String
            /// The process that answers.
            public var pid: Int32
            /// The number of devices it is paired with.
            public var devices: Int
            /// The problems it has, a sentence each; empty when there is none, `nil` from a version that does not say.
            public var problems: [String]?
            /// The finding of devices on the local network; `nil` when it is off, or from a version that does not say.
            public var discovery: Discovery?
            /// The URLs of the relays at which it is to be found, the one it is connected to first; `nil` for none.
            public var relays: [String]?
            /// The directories that know where devices are; `nil` for none.
            public var directories: [Reach.Network.Directory]?

            /// Makes a status.
            public init(
                name: String, id: DeviceID, addresses: [NetworkAddress], ticket: String, version: String, pid: Int32,
                devices: Int, problems: [String]? = nil
            ) {
                self.name = name
                self.id = id
                self.addresses = addresses
                self.ticket = ticket
                self.version = version
                self.pid = pid
                self.devices = devices
                self.problems = problems
            }
        }

        /// The finding of paired devices on the local network.
        public struct Discovery: Codable, Hashable, Sendable {
            /// The group and the port that announcements go to; absent where multicast DNS alone makes the device known.
            public var group: NetworkAddress?
            /// The names of the interfaces on which this device announces itself.
            public var interfaces: [String]
            /// The paired devices that are there.
            public var heard: [DeviceID]

            /// Makes a description.
            public init(group: NetworkAddress?, interfaces: [String], heard: [DeviceID]) {
                self.group = group
                self.interfaces = interfaces
                self.heard = heard
            }
        }

        /// The input: nothing.
        public typealias Input = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "device.status", by: .owner, "Describes this device: name, DeviceID, addresses, ticket.")
    }

    /// Stops this device: a running daemon ends.
    public enum Stop: Method {
        /// The input: nothing.
        public typealias Input = Nothing
        /// The answer: nothing.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "device.stop", by: .owner, "Stops this device, waiting at most five seconds for running calls.")
    }

    /// Sends bytes back, to measure a round trip through the whole stack.
    public enum Echo: Method {
        /// The bytes to send back: at most 1 MiB.
        public struct Payload: Codable, Hashable, Sendable {
            /// The bytes.
            public var bytes: ByteString

            /// Makes a payload.
            public init(bytes: ByteString) { self.bytes = bytes }
        }

        /// The input: the bytes.
        public typealias Input = Payload
        /// The answer: the same bytes.
        public typealias Output = Payload
        /// The stable name on every wire.
        public static let header = MethodHeader.query("device.echo", by: .paired, "Sends bytes back.")
    }
}

/// The log of what happened on this device, and of who was refused what.
public enum Audit {
    /// The name for this device's own person in the log; no other device can have it, because it contains a space.
    public static let thisDevice = "this device"

    /// One line of the log.
    public struct Entry: Codable, Hashable, Sendable {
        /// The time, in seconds since 1970.
        public var time: Int64
        /// The device's name, its DeviceID when it has none, or ``Audit/thisDevice``.
        public var device: String
        /// The method, or the event.
        public var method: String
        /// `allowed` or `denied`.
        public var decision: String
        /// More about it; never a secret.
        public var detail: String

        /// Makes an entry.
        public init(time: Int64, device: String, method: String, decision: String, detail: String) {
            self.time = time
            self.device = device
            self.method = method
            self.decision = decision
            self.detail = detail
        }
    }

    /// Lists the newest entries, newest first.
    public enum List: Method {
        /// The input: the number of entries.
        public struct Input: Codable, Hashable, Sendable {
            /// The most entries to list, 1…10,000.
            public var limit: Int

            /// Makes the input.
            public init(limit: Int) { self.limit = limit }
        }

        /// The answer: the entries.
        public typealias Output = [Entry]
        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "audit.list", by: .owner, "Lists what was changed here, what other devices did, and what they were refused."
        )
    }
}

extension Devices.List.Input: OmissibleInput {
    /// All devices, without trying to reach them.
    public static var usual: Self { Self(probe: false) }
    /// None.
    public static var required: Set<String> { [] }
}

extension Devices.Label.Input: OmissibleInput {
    /// No label is given, none taken away.
    public static var usual: Self { Self(device: "", add: [], remove: []) }
    /// The device.
    public static var required: Set<String> { ["device"] }
}

extension Devices.ChangeGrants.Input: OmissibleInput {
    /// Nothing is given, nothing taken away.
    public static var usual: Self { Self(device: "", add: [], remove: []) }
    /// The device.
    public static var required: Set<String> { ["device"] }
}

extension Audit.List.Input: OmissibleInput {
    /// The newest fifty.
    public static var usual: Self { Self(limit: 50) }
    /// None.
    public static var required: Set<String> { [] }
}
