import CKithSystem
import Foundation
import KithIO
import KithIdentity
import KithNode
package import KithWire

/// The place of a server of the remote framebuffer protocol, as it is typed: `vnc://localhost:5901`, `vnc://[::1]`.
package struct RFBAddress: Hashable, Sendable, CustomStringConvertible {
    /// A name or an address, without brackets.
    package let host: String
    /// 5900 where none is given.
    package let port: UInt16
    /// The file whose first line is the password.
    package let passwordFile: String?

    /// Reads the text form; a path, a user and a password are not part of it.
    ///
    /// - Throws: `.invalid`, saying what is wrong.
    package init(parsing text: String, passwordFile: String? = nil) throws(KithError) {
        let wrong = KithError(.invalid, "“\(text.prefix(64))” is not a VNC server: vnc://HOST or vnc://HOST:PORT.")
        guard text.hasPrefix("vnc://"), text.utf8.count <= 300 else { throw wrong }
        var rest = text.dropFirst(6)
        if rest.hasSuffix("/") { rest = rest.dropLast() }
        guard !rest.contains("@") else {
            throw KithError(
                .invalid,
                "A password is not part of vnc://HOST:PORT: put it into a file, --screen-source-password-file.")
        }
        var port = Substring("5900")
        if rest.hasPrefix("[") {
            guard let end = rest.firstIndex(of: "]") else { throw wrong }
            let after = rest[rest.index(after: end)...]
            host = String(rest[rest.index(after: rest.startIndex)..<end])
            guard after.isEmpty || after.hasPrefix(":"), NetworkAddress("[\(host)]:1") != nil else { throw wrong }
            if !after.isEmpty { port = after.dropFirst() }
        } else {
            let parts = rest.split(separator: ":", omittingEmptySubsequences: false)
            guard parts.count <= 2, let name = parts.first, !name.isEmpty,
                name.allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber || "-._".contains($0)) })
            else { throw wrong }
            host = String(name)
            if parts.count == 2 { port = parts[1] }
        }
        guard let number = UInt16(port), number != 0 else { throw wrong }
        self.port = number
        self.passwordFile = passwordFile
    }

    package var description: String { host.contains(":") ? "vnc [\(host)]:\(port)" : "vnc \(host):\(port)" }

    /// True for this machine itself.
    package var isLoopback: Bool {
        literal?.isLoopback ?? HostName.isLocalhost(host)
    }

    private var literal: NetworkAddress? {
        NetworkAddress(host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)")
    }

    /// The password; `nil` where no file was named.
    ///
    /// - Throws: `.notFound` when it cannot be read.
    func password() throws(KithError) -> [UInt8]? {
        guard let passwordFile else { return nil }
        return try Self.password(inFile: passwordFile)
    }

    /// The first line of a file, of which the protocol uses eight bytes.
    ///
    /// - Throws: `.notFound` when it cannot be read, `.invalid` when it is empty.
    package static func password(inFile path: String) throws(KithError) -> [UInt8] {
        guard let file = FileHandle(forReadingAtPath: path), let bytes = try? file.read(upToCount: 4_096) else {
            throw KithError(.notFound, "The file of the password, \(path), cannot be read.")
        }
        let line = bytes.prefix { $0 != 10 && $0 != 13 }
        guard !line.isEmpty else { throw KithError(.invalid, "The file of the password, \(path), is empty.") }
        return Array(line)
    }

    /// Connects; tries each address of the name, one after the other.
    ///
    /// - Throws: `.unreachable`, saying why the last of them failed.
    func connect(on reactor: Reactor) async throws -> StreamSocket {
        var reason = "it has no address"
        for address in try await addresses() {
            var remote = kith_udp_address(address)
            let descriptor = unsafe kith_stream_connect(&remote)
            do {
                guard descriptor >= 0 else { throw SystemError(-descriptor) }
                let socket = try StreamSocket(owning: descriptor, on: reactor, peer: address)
                try await socket.connected()
                return socket
            } catch let error as SystemError {
                reason = "\(error)"
            }
            try Task.checkCancellation()
        }
        throw KithError(.unreachable, "The screen \(self) cannot be reached: \(reason).")
    }

    private func addresses() async throws -> [NetworkAddress] {
        if let literal { return [literal] }
        if isLoopback {
            return [NetworkAddress(ipv4: 0x7F00_0001, port: port), NetworkAddress(ipv6: 0, 1, port: port)]
        }
        let (host, port) = (host, port)
        return try await DiskExecutor().run {
            var found = [kith_udp_address](repeating: kith_udp_address(), count: 16)
            let count = unsafe kith_resolve(host, &found, 16)
            return found.prefix(Int(max(0, count))).map { address in
                var address = NetworkAddress(address)
                address.port = port
                return address
            }
        }
    }
}
