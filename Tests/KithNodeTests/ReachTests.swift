import Testing

@testable import KithNode

@Suite struct ReachTests {
    @Test func `a clock that says any time is so far ahead or behind`() {
        #expect(ReachService.skew(of: 1_000_000, askedAt: 0, answeredAt: 20) == 999)
        #expect(ReachService.skew(of: .min, askedAt: 1_800_000_000_000, answeredAt: 1_800_000_000_020) < -60)
        #expect(ReachService.skew(of: .max, askedAt: -5, answeredAt: -1) > 60)
    }
}
