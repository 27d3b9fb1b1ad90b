import Foundation
import Kith
import KithTesting
import Testing

@Suite(.timeLimit(.minutes(2))) struct GrantEndTests {
    @Test func `a grant for a time ends by itself, and cuts off what runs by it`() async throws {
        let (there, here) = (try TemporaryFolder(), try TemporaryFolder())
        var options = onLoopback
        options.name = "laptop"
        options.services.own = [MathService()]
        let laptop = try await Device.open(directory: there.path, options: options)
        let phone = try await Device.open(directory: here.path, options: onLoopback)
        try await laptop.whileRunning {
            try await phone.whileRunning {
                try await pair(phone, with: laptop, grants: [])
                let math = Grant.node(pattern: "math.*")
                func give(until end: Int64?) async throws -> Devices.Info {
                    try await laptop.client.call(
                        Devices.ChangeGrants.self,
                        .init(device: phone.id.description, add: [math], remove: [], until: end))
                }
                let now = Int64(Date().timeIntervalSince1970)
                await #expect(throws: KithError(.invalid, "")) { _ = try await give(until: now - 1) }
                let info = try await give(until: now + 5)
                #expect(info.grants == [math] && info.grantEnds == [.init(grant: math, time: now + 5)])
                let sums = try await phone.client.open(Math.Running.self, Nothing(), on: "laptop").stream
                await #expect(throws: KithError(.denied, "")) { while try await sums.receive() != nil {} }
                await #expect(throws: KithError(.denied, "")) {
                    try await phone.client.call(Math.Add.self, .init(a: 2, b: 3), on: "laptop")
                }
                #expect(try await laptop.client.call(Devices.List.self, .init(probe: false)).map(\.grants) == [[]])
                let log = try await laptop.client.call(Audit.List.self, .init(limit: 100))
                #expect(log.contains { $0.method == "devices.grant" && $0.detail.hasSuffix("over: \(math)") })
                #expect(try await give(until: nil).grantEnds == nil)
            }
        }
    }
}
