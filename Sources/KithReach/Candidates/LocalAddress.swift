public import KithWire

/// An address of this device, and the interface that has it.
public struct LocalAddress: Hashable, Sendable {
    /// What an interface leads to, which decides whether its addresses are told to others.
    @nonexhaustive
    public enum Interface: Hashable, Sendable, CaseIterable {
        /// A cable or a wireless network.
        case ordinary
        /// A mobile operator's network.
        case cellular
        /// A tunnel to elsewhere, as of a VPN.
        case tunnel
        /// A bridge to containers or virtual machines on this device: it leads nowhere else.
        case containers
        /// This device itself.
        case loopback

        /// Sorts an interface by the name the system gives it.
        ///
        /// The names are those of Docker, Podman, CNI, LXC, libvirt, VMware, VirtualBox, Hyper-V, and of the tunnels of
        /// Linux and Apple's systems.
        public init(named name: String) {
            func begins(_ prefixes: [String]) -> Bool { prefixes.contains(where: name.hasPrefix) }
            if name == "lo" || name == "lo0" {
                self = .loopback
            } else if begins([
                "docker", "br-", "veth", "podman", "cni", "flannel", "cali", "cilium", "kube", "lxc", "lxd", "incus",
                "virbr", "vnet", "vmnet", "vboxnet", "vEthernet", "bridge100", "tailscale-bridge", "nerdctl", "cbr",
            ]) {
                self = .containers
            } else if begins(["tun", "tap", "utun", "wg", "tailscale", "zt", "ppp", "ipsec", "nordlynx", "proton"]) {
                self = .tunnel
            } else if begins(["wwan", "rmnet", "pdp_ip", "ccmni"]) {
                self = .cellular
            } else {
                self = .ordinary
            }
        }
    }

    /// The address, with the UDP port of the socket.
    public var address: NetworkAddress
    /// What its interface leads to.
    public var interface: Interface
    /// True for an IPv6 address that the system is about to give up (RFC 4862 §5.5.4).
    public var isDeprecated: Bool
    /// True for an IPv6 address that is another every day (RFC 8981).
    public var isTemporary: Bool

    /// Describes an address.
    public init(
        _ address: NetworkAddress, on interface: Interface = .ordinary, isDeprecated: Bool = false,
        isTemporary: Bool = false
    ) {
        (self.address, self.interface) = (address, interface)
        (self.isDeprecated, self.isTemporary) = (isDeprecated, isTemporary)
    }
}
