import KithTesting
import Testing

@testable import KithRelayServer

@Suite struct RenewalScheduleTests {
    @Test(arguments: [(90 * 86_400, 60 * 86_400), (576_000, 384_000), (0, 0), (2, 0)] as [(Int64, Int64)])
    func `a certificate is renewed when two thirds of its life are over`(life: Int64, due: Int64) {
        let schedule = RenewalSchedule(notBefore: 1_000, notAfter: 1_000 + life)
        #expect(schedule.due == 1_000 + due && schedule.next == schedule.due)
        #expect(!schedule.isDue(at: schedule.due - 1) && schedule.isDue(at: schedule.due))
    }

    @Test func `after failures it is tried at growing intervals, and not later than each six hours or so`() {
        var (schedule, random) = (RenewalSchedule(notBefore: 0, notAfter: 3_000), SeededRandom(seed: 1))
        var (now, pauses) = (Int64(2_000), [Int64]())
        for _ in 0..<80 {
            #expect(schedule.isDue(at: now))
            schedule.failed(at: now, wish: nil, using: &random)
            #expect(!schedule.isDue(at: now) && !schedule.isDue(at: schedule.next - 1))
            pauses.append(schedule.next - now)
            now = schedule.next
        }
        #expect((600...750).contains(pauses[0]) && (1_200...1_500).contains(pauses[1]))
        #expect(pauses.allSatisfy { $0 <= 27_000 } && pauses[79] >= 21_600)
    }

    @Test func `the authority's wish is respected up to a week, and a clock that was put back is not waited for`() {
        var (schedule, random) = (RenewalSchedule(notBefore: 0, notAfter: 3_000), SeededRandom(seed: 2))
        schedule.failed(at: 10_000, wish: 50_000, using: &random)
        #expect((60_000...72_500).contains(schedule.next))
        #expect(schedule.isDue(at: 9_999) && !schedule.isDue(at: 1_999))
        schedule.failed(at: 10_000, wish: .max, using: &random)
        #expect(schedule.next <= 10_000 + 756_000)
    }

    @Test func `no wish outlasts the certificate`() {
        var (schedule, random) = (RenewalSchedule(notBefore: 0, notAfter: 300_000), SeededRandom(seed: 3))
        schedule.failed(at: 210_000, wish: 600_000, using: &random)
        #expect((240_000...247_500).contains(schedule.next))
    }

    @Test func `a life that ends before it begins is over at once`() {
        #expect(RenewalSchedule(notBefore: 5, notAfter: 1).due == 5)
        #expect(RenewalSchedule(notBefore: .min, notAfter: .max).due <= 0)
    }
}
