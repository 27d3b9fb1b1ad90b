import Foundation
import KithTesting
import Testing

/// What a device sends to the network and hears from it, as Wireshark's tshark reads it.
@Suite("By tshark", .serialized, .enabled(if: TShark.isPossible), .timeLimit(.minutes(4)))
struct DissectionTests {
    /// Each with the protocol that the router speaks, as tshark calls it.
    static let speeches: [(HomeRouter.Speech, String)] = [(.all, "portcontrol"), (.natPMPAndUPnP, "nat-pmp")]

    @Test(arguments: speeches)
    func `STUN, multicast DNS, PCP, NAT-PMP and WebSocket are what their names say, and nothing is malformed`(
        _ speech: (HomeRouter.Speech, String)
    ) async throws {
        try await HomeRouter.withDevice(speech.0) { bridge, laptop, options in
            let namespace = try Namespace(path: bridge.path(of: 1))
            defer { namespace.end() }
            let tap = try await withTaskExecutorPreference(namespace) { try PacketTap() }
            try laptop.up(options)
            try await eventually(within: .seconds(60)) {
                let words = try laptop.kith("doctor", "--network")
                return words.contains("Servers outside see") && words.contains("double NAT")
            }
            // The services of others are asked for, and the mapping is given back.
            try laptop.kith("devices")
            try laptop.kith("down")
            let shark = try TShark(try tap.all())
            defer { shark.remove() }
            #expect(try shark.lines("-Y", "_ws.malformed || _ws.expert.severity == error") == [])
            for (name, filter) in [
                ("stun", "stun.type == 0x0001"), ("stun", "stun.type == 0x0101"),
                ("mdns", "dns.flags.response == 0"),
                (speech.1, "udp.dstport == 5351"), (speech.1, "udp.srcport == 5351"),
                ("http", "http.request.uri == \"/relay\""), ("http", "http.response.code == 101"),
                ("websocket", "websocket.opcode == 2 && tcp.dstport == 3340"),
                ("websocket", "websocket.opcode == 2 && tcp.srcport == 3340"),
            ] {
                #expect(try !shark.lines("-Y", "\(name) && \(filter)").isEmpty, "\(name), \(filter)")
            }
            // And what goes to their ports is nothing else.
            for (port, names) in [("3478", "stun"), ("5353", "mdns"), ("5351", "portcontrol || nat-pmp")] {
                #expect(try shark.lines("-Y", "udp.port == \(port) && !icmp && !(\(names))") == [], "port \(port)")
            }
        }
    }
}

/// A recording that tshark reads.
private struct TShark {
    private let file = FileManager.default.temporaryDirectory.appendingPathComponent("kith-\(UUID().uuidString).pcap")

    /// Whether it is there, and a router to make traffic with; says so if not.
    static let isPossible: Bool = {
        guard Program.succeeds(["tshark", "--version"]) else {
            print("skipped: tshark is not installed (scripts/bootstrap --test)")
            return false
        }
        return HomeRouter.isPossible
    }()

    /// Writes packets of IP to a file of pcap, one a millisecond.
    init(_ packets: [[UInt8]]) throws {
        var data = Data()
        func number(_ value: Int) { withUnsafeBytes(of: UInt32(value).littleEndian) { data.append(contentsOf: $0) } }
        // Version 2.4, packets whole, link type 101: IP alone.
        for value in [0xA1B2_C3D4, 0x0004_0002, 0, 0, 0xFFFF, 101] { number(value) }
        for (index, packet) in packets.enumerated() {
            for value in [index / 1_000, index % 1_000 * 1_000, packet.count, packet.count] { number(value) }
            data.append(contentsOf: packet)
        }
        try data.write(to: file)
    }

    /// What tshark prints about it with those options, line by line.
    func lines(_ options: String...) throws -> [String] {
        let process = Process()
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["tshark", "-n", "-r", file.path, "-d", "tcp.port==3340,http"] + options
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        // It warns of running as root.
        process.standardError = FileHandle.nullDevice
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        try #require(process.terminationStatus == 0, "tshark \(options)")
        return text.split(separator: "\n").map(String.init)
    }

    func remove() { try? FileManager.default.removeItem(at: file) }  // the next boot empties /tmp at the latest
}
