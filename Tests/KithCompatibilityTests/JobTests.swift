import KithAPI
import KithRPC
import KithWire
import Testing

@testable import KithCompatibility

@Suite struct `Jobs of the reference` {
    @Test func `are listed page by page, to the last`() async throws {
        let (adapter, carrier) = try makeAdapter(
            [:],
            [
                "jobs.list": { input in
                    let before = input.member("before")?.whole ?? 250
                    let numbers = (max(0, before - 100)..<before).reversed()
                    var answer: [String: JSONValue] = [
                        "jobs": .array(
                            numbers.map { ["id": .string("\($0)"), "kind": "copy", "state": "running", "created": 1] })
                    ]
                    if let last = numbers.last, last > 0 { answer["next"] = .integer(last) }
                    return .object(answer)
                }
            ])
        let active = try await adapter.run("query:jobs.active", .null, library: .string(library))
        #expect(active.member("running_count")?.whole == 250)
        let all = try await adapter.run("query:jobs.list", ["status": "running"], library: .string(library))
        #expect(Set((all.member("jobs")?.list ?? []).compactMap { $0.member("id")?.text }).count == 250)
        #expect(carrier.inputs(of: "jobs.list").allSatisfy { $0.member("limit")?.whole ?? 0 <= 100 })
    }
}
