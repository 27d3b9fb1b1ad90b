public import KithWire

extension Reach {
    /// The facts about this device's network, for programs: what the steps of an examination say in words.
    public struct Network: Codable, Hashable, Sendable {
        /// A relay, and the connection to it.
        public struct Relay: Codable, Hashable, Sendable {
            /// Its URL.
            public var url: String
            /// The state: `connected`, `connecting`, `restarting`, `waiting`, `denied` or `captive`.
            public var state: String
            /// The round trip to it, in milliseconds; `nil` before it was measured.
            public var roundTripMilliseconds: Double?
            /// True when this device is to be found there.
            public var isHome: Bool
            /// True when it takes over from the home.
            public var isStandby: Bool
            /// The transport to it, `quic` or `tcp`; `nil` while it is not connected.
            public var carrier: String?
            /// The HTTP proxy it is reached through; `nil` for none.
            public var proxy: String?
            /// The reason it is not connected, where there is one.
            public var reason: String?

            /// Describes a relay.
            public init(url: String, state: String, isHome: Bool = false, isStandby: Bool = false) {
                (self.url, self.state, self.isHome, self.isStandby) = (url, state, isHome, isStandby)
            }
        }

        /// A directory, and what became of the last exchanges with it.
        public struct Directory: Codable, Hashable, Sendable {
            /// Its URL.
            public var url: String
            /// The last publication of this device's record: `worked`, `failed` or `untried`.
            public var publication: String
            /// The last question for another device's record: `worked`, `failed` or `untried`.
            public var question: String
            /// The reason of what failed.
            public var reason: String?

            /// Describes a directory.
            public init(url: String, publication: String, question: String) {
                (self.url, self.publication, self.question) = (url, publication, question)
            }
        }

        /// The way UDP goes: `works`, `blocked` or `unknown`.
        public var udp = "unknown"
        /// The IPv4 address and port that servers see; `nil` while none has answered.
        public var outsideIPv4: NetworkAddress?
        /// The IPv6 address and port that servers see.
        public var outsideIPv6: NetworkAddress?
        /// How the NAT maps (RFC 4787): `none`, `independent`, `address-dependent`, `address-and-port-dependent` or
        /// `unknown`.
        public var natMapping = "unknown"
        /// The same in words for a person; `nil` where nothing is known.
        public var nat: String?
        /// The address and port that the router passes on to this device; `nil` for none.
        public var mappedPort: NetworkAddress?
        /// The protocol by which it was asked: `PCP`, `NAT-PMP` or `UPnP`.
        public var mappedBy: String?
        /// True when there is a second NAT beyond the router, so that the mapped port leads nowhere.
        public var isDoubleNAT: Bool?
        /// The page of a captive portal, where somebody has to sign in; `nil` for none.
        public var captivePortal: String?
        /// The relays it uses.
        public var relays: [Relay] = []
        /// The directories it uses; `nil` for none.
        public var directories: [Directory]?
        /// True when this device saves its battery.
        public var savesPower = false

        /// Describes a network of which nothing is known.
        public init() {}
    }
}
