import ArgumentParser
import KithNode
import KithWire

extension UpCommand {
    /// A device and a place at which it is looked for.
    struct PeerAddress: Hashable, CustomStringConvertible {
        enum Place: Hashable {
            case address(NetworkAddress)
            case host(HostAndPort)
        }

        let device: String
        let place: Place

        init(_ argument: String) throws {
            let parts = argument.split(separator: "=", maxSplits: 1).map(String.init)
            if parts.count == 2, let address = NetworkAddress(parts[1]), address.port != 0 {
                place = .address(address)
            } else if parts.count == 2, let host = HostAndPort(parts[1]) {
                place = .host(host)
            } else {
                throw ValidationError(
                    "--peer takes a device, and an address or a host with a port, such as laptop=192.0.2.7:4433, laptop=[2001:db8::7]:4433 or nas=nas.example.org:4433."
                )
            }
            device = parts[0]
        }

        var description: String {
            switch place {
            case .address(let address): "\(device)=\(address)"
            case .host(let host): "\(device)=\(host)"
            }
        }
    }
}
