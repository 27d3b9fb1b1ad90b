import KithCommandLine
import Testing

/// Numbers as people are shown them, whatever another device says.
@Suite struct WordingTests {
    @Test func `a rate and a duration of any number are words`() {
        for rate in [0, -1, 1e30, .infinity, -.infinity, .nan] { #expect(Wording.rate(rate).hasSuffix("B/s")) }
        #expect(Wording.rate(Double(UInt64.max) / 0.001) == "1.0 EB/s")
        #expect(Wording.rate(1_400_000) == "1.4 MB/s" && Wording.rate(.nan) == "0 B/s")
        #expect(Wording.duration(1e30) == Wording.duration(.infinity))
        for seconds in [-1e30, .nan] { #expect(Wording.duration(seconds).hasSuffix("s")) }
    }

    @Test func `a share is from none to all`() {
        #expect(Wording.percent(.max, of: 1) == 100 && Wording.percent(1, of: .max) == 0)
        #expect(Wording.percent(1, of: 2) == 50 && Wording.percent(0, of: 0) == 100)
        #expect(Wording.percent(.nan) == 0 && Wording.percent(1e300) == 100 && Wording.percent(-.infinity) == 0)
    }

    @Test func `any time is some time ago or ahead`() {
        let now: Int64 = 1_800_000_000
        #expect(
            Wording.relative(now - 180, now: now) == "3 min ago" && Wording.relative(now + 7_200, now: now) == "in 2 h")
        #expect(Wording.relative(now + 4, now: now) == "now")
        #expect(Wording.relative(.min, now: now) == "106751991167300 days ago")
        #expect(Wording.relative(.max, now: -1) == "in 106751991167300 days")
    }
}
