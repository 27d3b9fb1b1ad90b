import ArgumentParser
import Foundation
import KithIdentity
import KithReach
import KithWire
import NIOCore
import NIOHTTP1
import NIOPosix

/// Measures a directory of its own, started as a process: what a record costs it, a write and a lookup.
@main struct DirectoryLoad: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "kith-directory-load",
        abstract: "Measure `kith directory`: memory for each record, writes, lookups for each second of one core.")

    @Argument(help: "The kith to measure.")
    var program: String

    @Option(help: "The records that are published.")
    var records = 10_000

    @Option(help: "The lookups, and as many pages of health to compare with.")
    var lookups = 200_000

    @Option(help: "Keep records in etcd at these URLs, in place of a folder.")
    var etcd: String?

    /// What a run of requests took.
    private struct Cost {
        var seconds: Double
        /// The seconds of processor time of the directory.
        var processorSeconds: Double
    }

    func run() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "kith-directory-load-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }  // the next boot empties it at the latest
        let directory = Process()
        directory.executableURL = URL(filePath: program)
        let place = etcd.map { ["--etcd", $0] } ?? ["--data", folder.path]
        directory.arguments = ["directory", "--listen", "127.0.0.1:0", "--json"] + place
        let output = Pipe()
        directory.standardOutput = output
        try directory.run()
        defer { directory.terminate() }
        struct Started: Decodable { var http: String }
        var said = Data()
        while said.last != UInt8(ascii: "\n") || !said.contains(UInt8(ascii: "}")) {
            let more = output.fileHandleForReading.availableData
            guard !more.isEmpty else { throw KithError(.closed, "\(program) directory has ended.") }
            said += more
        }
        let started = try JSONDecoder().decode(Started.self, from: said)
        guard let address = NetworkAddress(started.http) else {
            throw KithError(.corrupt, "\(program) directory said no address.")
        }
        let pid = directory.processIdentifier

        // Half of them name a relay, and the others two and four addresses: 250 to 500 bytes.
        let signed = try (0..<records).map { number in
            var said = DeviceRecord()
            if let relay = RelayAddress("https://relay-\(number % 7).example.org") { said.relays = [relay] }
            if number.isMultiple(of: 2) {
                said.addresses = (0..<4).map { NetworkAddress(ipv4: (192, 0, 2, UInt8($0)), port: 4_433) }
            }
            return try said.signed(by: DeviceKey(), at: UInt64(number + 1))
        }
        let puts = signed.map { Request(method: .PUT, path: "/pkarr/\($0.device.zBase32)", body: $0.body) }
        let gets = (0..<lookups).map { Request(method: .GET, path: puts[$0 &* 7_919 % puts.count].path, body: []) }
        let pages = [Request](repeating: Request(method: .GET, path: "/healthz", body: []), count: lookups)
        // What the process needs for itself is there before it is looked at.
        _ = try await cost(of: Array(pages.prefix(2_000)), at: address, pid)

        let before = Self.residentBytes(pid)
        let writing = try await cost(of: puts, at: address, pid)
        let growth = Double(Self.residentBytes(pid) - before)
        // Health is the same request, but for the lookup and the record.
        let page = try await cost(of: pages, at: address, pid)
        let reading = try await cost(of: gets, at: address, pid)

        func show(_ name: String, _ value: Double, _ unit: String) {
            print(
                "\(name.padding(toLength: 44, withPad: " ", startingAt: 0))\(String(format: "%12.2f", value)) \(unit)")
        }
        let (written, read) = (Double(records), Double(lookups))
        show("memory for \(records) records", growth / 1e6, "MB (goal < 20 for 10,000)")
        if etcd == nil {
            let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
            let size = try files.reduce(0) { $0 + (try Data(contentsOf: $1).count) }
            show("disk for \(records) records, its log included", Double(size) / 1e6, "MB")
        }
        show("writes", written / writing.seconds, "/s, by \(Self.connections) connections")
        show("writes for a second of one core", written / writing.processorSeconds, "")
        show("lookups for a second of one core", read / reading.processorSeconds, "(goal ≥ 5,000)")
        show("the same for a page of health", read / page.processorSeconds, "")
        show("a lookup's processor time to a page's", reading.processorSeconds / page.processorSeconds, "×")
    }

    // MARK: - Requests

    /// A request whose answer has a status of 2xx.
    private struct Request {
        var method: HTTPMethod
        var path: String
        var body: [UInt8]
    }

    /// The connections, each from an address of its own: the limits of one address would not do.
    private static let connections = 32
    /// The requests on the way on one connection.
    private static let depth = 8

    private func cost(of requests: [Request], at address: NetworkAddress, _ pid: Int32) async throws -> Cost {
        let (began, processor) = (ContinuousClock.now, Self.processorSeconds(pid))
        try await withThrowingTaskGroup { group in
            for part in 0..<Self.connections {
                let share = stride(from: part, to: requests.count, by: Self.connections).map { requests[$0] }
                group.addTask { try await Self.send(share, to: address, from: "127.0.1.\(part + 1)") }
            }
            try await group.waitForAll()
        }
        let elapsed = ContinuousClock.now - began
        return Cost(seconds: elapsed / .seconds(1), processorSeconds: Self.processorSeconds(pid) - processor)
    }

    private static func send(_ requests: [Request], to address: NetworkAddress, from source: String) async throws {
        let host = address.ip.map(String.init).joined(separator: ".")
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .bind(to: try SocketAddress(ipAddress: source, port: 0))
            .connect(host: host, port: Int(address.port)) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHTTPClientHandlers()
                    return try NIOAsyncChannel<HTTPClientResponsePart, HTTPClientRequestPart>(
                        wrappingChannelSynchronously: channel)
                }
            }
        try await channel.executeThenClose { answers, output in
            var (sent, answered) = (0, 0)
            var answer = answers.makeAsyncIterator()
            while answered < requests.count {
                while sent < requests.count, sent - answered < depth {
                    let request = requests[sent]
                    var headers: HTTPHeaders = ["host": host]
                    if !request.body.isEmpty { headers.add(name: "content-length", value: "\(request.body.count)") }
                    try await output.write(
                        .head(
                            HTTPRequestHead(
                                version: .http1_1, method: request.method, uri: request.path, headers: headers)))
                    if !request.body.isEmpty {
                        try await output.write(.body(.byteBuffer(ByteBuffer(bytes: request.body))))
                    }
                    try await output.write(.end(nil))
                    sent += 1
                }
                switch try await answer.next() {
                case .head(let head):
                    guard (200..<300).contains(head.status.code) else {
                        throw KithError(
                            .denied, "The directory answered \(head.status.code) to \(requests[answered].path).")
                    }
                case .end: answered += 1
                case .body: break
                case nil: throw KithError(.closed, "The directory has closed a connection.")
                }
            }
        }
    }

    // MARK: - The process

    /// The processor time of a process, in seconds: of its code and the kernel's on its behalf.
    private static func processorSeconds(_ pid: Int32) -> Double {
        let text = (try? String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8)) ?? ""  // it has ended: 0
        let fields = text.split(separator: ")").last?.split(separator: " ") ?? []
        guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) else { return 0 }
        return (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
    }

    /// The memory of a process, in bytes.
    private static func residentBytes(_ pid: Int32) -> Int {
        let text = (try? String(contentsOfFile: "/proc/\(pid)/statm", encoding: .utf8)) ?? ""  // it has ended: 0
        let fields = text.split(separator: " ")
        return (fields.count > 1 ? Int(fields[1]) ?? 0 : 0) * Int(sysconf(Int32(_SC_PAGESIZE)))
    }
}
