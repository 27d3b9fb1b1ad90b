import Foundation
import Glibc
import Testing

/// A UDP socket; everything waits at most ten seconds.
final class Socket: Sendable {
    private let file: CInt
    let address: sockaddr_in

    /// One at an end of a link.
    convenience init(at end: Link.End) throws { try self.init(ipv4: 0x0A07_0000 + (end == .left ? 1 : 2)) }

    /// One at an address of the namespace that the calling thread is in.
    init(ipv4: UInt32, port: UInt16 = 0) throws {
        file = socket(AF_INET, CInt(SOCK_DGRAM.rawValue), 0)
        guard file >= 0 else { throw LinkError("no socket: \(String(cString: strerror(errno)))") }
        var yes: CInt = 1
        setsockopt(file, CInt(IPPROTO_IP), IP_RECVTOS, &yes, socklen_t(MemoryLayout<CInt>.size))
        var patience = timeval(tv_sec: 10, tv_usec: 0)
        setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = ipv4.bigEndian
        address.sin_port = port.bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let file = self.file
        let status = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                bind(file, pointer, size) == 0 ? getsockname(file, pointer, &size) : -1
            }
        }
        self.address = address
        guard status == 0 else { throw LinkError("bind: \(String(cString: strerror(errno)))") }
    }

    deinit { close(file) }

    func send(_ bytes: [UInt8], to peer: Socket, ecn: CInt = 0) throws { try send(bytes, to: peer.address, ecn: ecn) }

    func send(_ bytes: [UInt8], to peer: sockaddr_in, ecn: CInt = 0) throws {
        var (peer, ecn) = (peer, ecn)
        setsockopt(file, CInt(IPPROTO_IP), IP_TOS, &ecn, socklen_t(MemoryLayout<CInt>.size))
        let sent = withUnsafePointer(to: &peer) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                sendto(file, bytes, bytes.count, 0, pointer, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard sent == bytes.count else { throw LinkError("sendto: \(String(cString: strerror(errno)))") }
    }

    func receive() throws -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: 2048)
        let count = recv(file, &bytes, bytes.count, 0)
        guard count >= 0 else { throw LinkError("recv: \(String(cString: strerror(errno)))") }
        return Array(bytes[..<count])
    }

    /// Whether a datagram is there already.
    var hasDatagram: Bool {
        var byte: UInt8 = 0
        return recv(file, &byte, 1, CInt(MSG_DONTWAIT) | CInt(MSG_PEEK)) >= 0
    }

    /// Takes one datagram and returns where it came from.
    func receiveFrom() throws -> sockaddr_in {
        var byte: UInt8 = 0
        var peer = sockaddr_in()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let count = withUnsafeMutablePointer(to: &peer) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { recvfrom(file, &byte, 1, 0, $0, &size) }
        }
        guard count >= 0 else { throw LinkError("recvfrom: \(String(cString: strerror(errno)))") }
        return peer
    }

    /// Takes one datagram, whose ECN field must be `ecn`.
    func receive(ecn: UInt8, sourceLocation: SourceLocation = #_sourceLocation) throws {
        var byte: UInt8 = 0
        var control = [UInt8](repeating: 0, count: 64)
        let seen: UInt8? = withUnsafeMutableBytes(of: &byte) { payload in
            control.withUnsafeMutableBytes { control in
                var part = iovec(iov_base: payload.baseAddress, iov_len: 1)
                return withUnsafeMutablePointer(to: &part) { part in
                    var message = msghdr()
                    message.msg_iov = part
                    message.msg_iovlen = 1
                    message.msg_control = control.baseAddress
                    message.msg_controllen = control.count
                    guard recvmsg(file, &message, 0) == 1, message.msg_controllen >= 17 else { return nil }
                    // One control message: a header of 16 bytes, then the TOS byte.
                    return control[16] & 3
                }
            }
        }
        #expect(seen == ecn, sourceLocation: sourceLocation)
    }
}
