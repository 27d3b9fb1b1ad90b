import KithIO
package import KithIdentity
import KithQUIC
package import KithWire
import Synchronization

/// A way for datagrams to devices that is not a socket: a relay.
package protocol DatagramLink: AnyObject, Sendable {
    /// Its number among the links its endpoint ever had, 0…32,767.
    var number: UInt32 { get }

    /// Sends datagrams to a device: all but the last have `segmentSize` bytes.
    ///
    /// Called from any thread. Never waits; drops the oldest when full, as any network loses datagrams.
    func send(_ datagrams: [UInt8], segmentSize: Int, to device: DeviceID)
}

/// The addresses that stand for devices behind links, where engines know nothing but addresses.
///
/// `fd4b:6974:68XX:XXXX::/64` is link `XXXXXX` of this process, and the host part is the front of the device's key. They
/// are shown to nobody. No datagram is ever sent to one, and none is taken from outside.
struct RelayedAddresses {
    /// The most devices remembered; beyond it those are forgotten that no connection has a path to.
    let limit: Int
    /// "Kith", in the range anybody may use (RFC 4193).
    private static let prefix: UInt64 = 0xFD4B_6974_6800_0000

    /// The devices by their whole address: one relay's word about a front says nothing about another's.
    private var devices: [NetworkAddress: DeviceID] = [:]

    init(limit: Int = 4096) { self.limit = limit }

    /// The number of devices remembered.
    var count: Int { devices.count }

    /// The address of a device behind a link.
    static func address(of device: DeviceID, by link: UInt32) -> NetworkAddress {
        NetworkAddress(ipv6: prefix | UInt64(link & 0xFF_FFFF), host(of: device), port: 1)
    }

    private static func host(of device: DeviceID) -> UInt64 {
        device.bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// The number of the link an address belongs to; nil for an address of the network.
    static func link(of address: NetworkAddress) -> UInt32? {
        guard address.isIPv6, address.halves.high & ~0xFF_FFFF == prefix else { return nil }
        return UInt32(truncatingIfNeeded: address.halves.high & 0xFF_FFFF)
    }

    /// An address as others know it: nil for one that only stands for a device.
    static func outside(_ address: NetworkAddress) -> NetworkAddress? { link(of: address) == nil ? address : nil }

    /// The device that an address stands for; nil when it was never added, or forgotten.
    func device(at address: NetworkAddress) -> DeviceID? { devices[address] }

    /// Remembers a device, and answers its address; `used` are the addresses that connections have paths to.
    mutating func add(_ device: DeviceID, by link: UInt32, used: () -> Set<NetworkAddress>) -> NetworkAddress {
        let address = Self.address(of: device, by: link)
        if devices[address] != device {
            if devices.count >= limit {
                let used = used()
                devices = devices.filter { used.contains($0.key) }
            }
            // A relay that names two devices with one front cuts off what goes by itself, as it can anyway.
            devices[address] = device
        }
        return address
    }

    /// The words for an address in messages.
    static func description(of address: NetworkAddress) -> String {
        link(of: address) == nil ? "at \(address)" : "through its relay"
    }
}

/// The bytes that links have delivered and the loop has not taken in yet.
final class LinkBacklog: Sendable {
    /// The most bytes; several times what a fast link brings while the loop is busy.
    static let limit = 8 << 20
    private let bytes = Atomic(0)

    /// Counts bytes in; false, and nothing is counted, when there are too many.
    func add(_ count: Int) -> Bool {
        if bytes.add(count, ordering: .relaxed).newValue <= Self.limit { return true }
        bytes.subtract(count, ordering: .relaxed)
        return false
    }

    /// Counts bytes out.
    func remove(_ count: Int) { bytes.subtract(count, ordering: .relaxed) }
}

// Links beside the sockets: what a path of theirs sends goes to the link, what a link delivers comes from the address
// that stands for the device.
extension EndpointDriver {
    /// Takes a link into use.
    func add(_ link: any DatagramLink) {
        guard !isClosing else { return }
        links[link.number] = link
        for driver in Array(drivers.values) { driver.pathFinder?.linkOpened(link.number) }
    }

    /// Forgets a link; what goes by it goes on along another path, where there is one.
    func removeLink(_ number: UInt32) {
        guard links.removeValue(forKey: number) != nil else { return }
        for driver in Array(drivers.values) { driver.linkIsGone(.relay(number)) }
    }

    /// The address of a device behind a link.
    func relayedAddress(of device: DeviceID, by link: UInt32) -> NetworkAddress {
        relayed.add(device, by: link) { [drivers] in
            Set(drivers.values.flatMap { driver in driver.engine.paths.map(\.address.remote) })
        }
    }

    /// Takes datagrams in that a link delivers; all but the last are `segmentSize` long.
    func received(_ datagrams: [UInt8], segmentSize: Int?, from device: DeviceID, by link: UInt32) {
        guard !isClosing, device != id, links[link] != nil else { return }
        let remote = relayedAddress(of: device, by: link)
        var bytes = datagrams
        unsafe bytes.withUnsafeMutableBytes { bytes in
            unsafe received(bytes, segmentSize: segmentSize, from: remote, ecn: 0, link: .relay(link))
        }
        readCompleted()
    }

    /// Hands datagrams to a link; those of a link or device that is gone are lost.
    func send(_ datagrams: UnsafeRawBufferPointer, segmentSize: Int, to remote: NetworkAddress, by link: LocalLink) {
        guard let relay = links[link.number], let device = relayed.device(at: remote) else { return }
        relay.send(unsafe Array(datagrams), segmentSize: segmentSize, to: device)
    }
}

extension Endpoint {
    /// Takes a link into use: devices can be dialed through it, and reach this one.
    package func add(_ link: any DatagramLink) {
        let driver = self.driver
        driver.loop.execute { driver.add(link) }
    }

    /// Forgets the link of that number; connections through it go on along their other paths, where they have any.
    package func removeLink(_ number: UInt32) {
        let driver = self.driver
        driver.loop.execute { driver.removeLink(number) }
    }

    /// Takes in what the link of that number delivers from a device: datagrams of `segmentSize` bytes, the last perhaps shorter.
    ///
    /// What comes faster than it can be taken in is lost, as on any network.
    /// The link vouches for the device as far as a network vouches for an address: not at all.
    package func received(
        _ datagrams: [UInt8], segmentSize: Int? = nil, from device: DeviceID, by link: UInt32
    ) {
        let driver = self.driver
        let size = datagrams.count
        guard driver.linkBacklog.add(size) else { return }
        driver.loop.execute {
            driver.linkBacklog.remove(size)
            driver.received(datagrams, segmentSize: segmentSize, from: device, by: link)
        }
    }

    /// Handles the datagrams at this endpoint's sockets that are STUN (RFC 8489) and of no connection; nil ignores them.
    ///
    /// The handler gets the bytes, the sender, and the number of the socket; it is called from the event loop, and must
    /// not wait. Returns once it is in place.
    package func onOtherDatagram(
        _ handler: (@Sendable (_ bytes: [UInt8], _ from: NetworkAddress, _ socket: UInt32) -> Void)?
    ) async {
        let done = Promise<Void>()
        let driver = self.driver
        driver.loop.execute {
            driver.onOtherDatagram = handler
            done.fulfil(())
        }
        await done.value()
    }

    /// Sends a datagram that is of no connection from one of this endpoint's sockets: the one of that number, or one
    /// that reaches `address`.
    ///
    /// It may be lost, as on any network.
    package func send(_ datagram: [UInt8], to address: NetworkAddress, from socket: UInt32? = nil) {
        let driver = self.driver
        driver.loop.execute { driver.send(datagram, to: address, from: socket) }
    }

    /// The sockets open now: their numbers, and the addresses they are bound to.
    package func sockets() async -> [(number: UInt32, address: NetworkAddress)] {
        let answer = Promise<[(number: UInt32, address: NetworkAddress)]>()
        let driver = self.driver
        driver.loop.execute { answer.fulfil(driver.sockets.map { ($0.number, $0.address) }) }
        return await answer.value()
    }
}
