import Foundation
import KithReach
import KithTesting
import KithWire
import Synchronization
import Testing

@testable import KithNet

/// A device behind a router that is Debian's miniupnpd.
@Suite(.enabled(if: HomeRouter.isPossible), .timeLimit(.minutes(4))) struct PortMappingTests {
    /// What the service said, until now.
    private final class News: Sendable {
        private let all = Mutex<[PortMappingUpdate]>([])

        func add(_ update: PortMappingUpdate) { all.withLock { $0.append(update) } }
        var last: PortMappingUpdate? { all.withLock { $0.last } }
        var mapping: PortMapping? { if case .mapped(let mapping) = last { mapping } else { nil } }
    }

    /// Runs the service behind a router, and stops it after `body`; nothing may be passed on then.
    private func withService(
        _ speech: HomeRouter.Speech, _ body: (HomeRouter, News) async throws -> Void
    ) async throws {
        let bridge = try Bridge()
        defer { bridge.remove() }
        let router = try HomeRouter(bridge, speech)
        defer { router.remove() }
        let device = try Namespace(path: bridge.path(of: 1))
        defer { device.end() }
        // Its answer to a search tells that it has started.
        try await eventually { (try? router.there(["upnpc", "-l"]))?.contains("ExternalIPAddress") ?? false }
        let news = News()
        let service = PortMappingService(port: 4_433)
        try await withThrowingDiscardingTaskGroup { group in
            group.addTask(executorPreference: device) { await service.run { news.add($0) } }
            defer { service.stop() }
            try await body(router, news)
        }
        // By a datagram, which the router may still have to read.
        try await eventually { try !router.passesOn(4_433) }
        // So says another program, too; it fails where nothing is passed on at all.
        #expect((try? router.there(["upnpc", "-l"]))?.contains("->192.168.77.2:4433") != true)
    }

    /// The same for the firewall of IPv6.
    private func withService6(
        _ speech: HomeRouter.Speech6, _ body: (HomeRouter, News) async throws -> Void
    ) async throws {
        let bridge = try Bridge()
        defer { bridge.remove() }
        let router = try HomeRouter(bridge, .all)
        defer { router.remove() }
        if speech == .upnpAlone { try router.forgetPCP6() }
        let device = try Namespace(path: bridge.path(of: 1))
        defer { device.end() }
        try await eventually { (try? router.there(["upnpc", "-l"]))?.contains("ExternalIPAddress") ?? false }
        let news = News()
        let service = PortMappingService(port: 4_433, isIPv6: true)
        try await withThrowingDiscardingTaskGroup { group in
            group.addTask(executorPreference: device) { await service.run { news.add($0) } }
            defer { service.stop() }
            try await body(router, news)
        }
        try await eventually { try !router.letsIn(4_433) }
    }

    private func pinhole(_ method: PortMapping.Method) -> PortMapping {
        let local = NetworkAddress(ipv6: 0x2001_0DB8_0077_0000, 2, port: 4_433)
        return PortMapping(external: local, local: local, lifetime: .seconds(7_200), method: method)
    }

    @Test func `a firewall for IPv6 is opened by PCP, and closed at the end`() async throws {
        try await withService6(.pcp) { router, news in
            try await eventually { news.last == .mapped(pinhole(.pcp)) }
            #expect(try router.letsIn(4_433))
        }
    }

    @Test func `a router's restart is noticed for IPv6, too, and its firewall opened again`() async throws {
        try await withService6(.pcp) { router, news in
            try await eventually { news.last == .mapped(pinhole(.pcp)) }
            // Old enough for the clock to step back when it begins anew.
            try await eventually { router.age() >= 5 }
            try router.restart()
            try await eventually { try router.letsIn(4_433) }
            #expect(news.last == .mapped(pinhole(.pcp)))
        }
    }

    @Test func `a firewall for IPv6 is opened by UPnP where there is no PCP, and closed at the end`() async throws {
        try await withService6(.upnpAlone) { router, news in
            try await eventually { news.last == .mapped(pinhole(.upnp)) }
            #expect(try router.letsIn(4_433))
        }
    }

    private func mapping(_ method: PortMapping.Method) -> PortMapping {
        PortMapping(
            external: NetworkAddress(ipv4: (9, 1, 1, 1), port: 4_433),
            local: NetworkAddress(ipv4: (192, 168, 77, 2), port: 4_433), lifetime: .seconds(7_200), method: method)
    }

    @Test func `a router passes a port on by PCP, again after it was started anew, and until it is given back`()
        async throws
    {
        try await withService(.all) { router, news in
            try await eventually { news.last == .mapped(mapping(.pcp)) }
            #expect(try router.passesOn(4_433))
            // Old enough for the clock to step back when it begins anew.
            try await eventually { router.age() >= 5 }
            try router.restart()
            try await eventually { try router.passesOn(4_433) }
            #expect(news.last == .mapped(mapping(.pcp)))
        }
    }

    @Test func `a router without PCP is asked by NAT-PMP`() async throws {
        try await withService(.natPMPAndUPnP) { router, news in
            try await eventually { news.last == .mapped(mapping(.natPMP)) }
            #expect(try router.passesOn(4_433))
        }
    }

    @Test func `a router with UPnP alone is asked by that, and another program sees the same mapping`() async throws {
        try await withService(.upnpAlone) { router, news in
            try await eventually { news.last == .mapped(mapping(.upnp)) }
            #expect(try router.passesOn(4_433))
            let list = try router.there(["upnpc", "-l"])
            #expect(list.contains("UDP  4433->192.168.77.2:4433  'Kith'"), "\(list)")
        }
    }

    @Test func `a double NAT is recognised by what servers see, and said in plain words`() async throws {
        try await HomeRouter.withDevice(.all) { _, laptop, options in
            try laptop.up(["--no-discovery"] + options)
            struct Report: Decodable {
                struct Step: Decodable {
                    var subject: String
                    var outcome: String
                    var finding: String
                    var remedy: String?
                }
                struct Network: Decodable {
                    var outsideIPv4: String?
                    var mappedPort: String?
                    var isDoubleNAT: Bool?
                }
                var steps: [Step]
                var network: Network
            }
            func report() throws -> Report {
                let text = try laptop.kith("doctor", "--network", "--json")
                return try JSONDecoder().decode(Report.self, from: Data(text.utf8))
            }
            try await eventually(within: .seconds(60)) {
                let network = try report().network
                return network.outsideIPv4 != nil && network.mappedPort != nil
            }
            let report = try report()
            #expect(report.network.outsideIPv4?.hasPrefix("11.1.1.1:") == true)
            #expect(report.network.mappedPort?.hasPrefix("9.1.1.1:") == true)
            #expect(report.network.isDoubleNAT == true)
            let router = try #require(report.steps.first { $0.subject == "router" && $0.finding.contains("9.1.1.1:") })
            #expect(router.outcome == "warning")
            #expect(router.remedy != nil)
            let words = try laptop.kith("doctor", "--network")
            #expect(words.contains("There is a double NAT"), "\(words)")
            #expect(words.contains("(double NAT): that is of no use outside"), "\(words)")
            #expect(!words.contains("on to this device (PCP).\n"), "\(words)")
            print(words)
        }
    }
}
