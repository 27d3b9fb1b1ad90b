import Foundation
import KithCommandLine
import Testing

@Suite struct CalendarTimeTests {
    @Test(arguments: [
        (0 as Int64, 0, "1970-01-01 00:00"), (-1, 0, "1969-12-31 23:59"), (951_782_400, 0, "2000-02-29 00:00"),
        (4_107_542_399, 0, "2100-02-28 23:59"), (1_795_306_800, 3_600, "2026-11-22 01:20"),
        (1_795_306_800, -18_000, "2026-11-21 19:20"), (-62_167_219_200, 0, "0000-01-01 00:00"),
        (-62_167_219_201, 0, "-0001-12-31 23:59"), (253_402_300_800, 0, "10000-01-01 00:00"),
    ])
    func `a time is shown as the calendar has it`(seconds: Int64, offset: Int, text: String) {
        #expect(CalendarTime(seconds, offset: offset).minutes == text)
    }

    @Test func `every day of four hundred years is the one Foundation names`() throws {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = try #require(TimeZone(secondsFromGMT: 0))
        for day in stride(from: 0 as Int64, to: 146_097, by: 13) {
            let seconds = day * 86_400 + 45_296
            let parts = calendar.dateComponents(
                [.year, .month, .day], from: Date(timeIntervalSince1970: Double(seconds)))
            let time = CalendarTime(seconds, offset: 0)
            #expect(
                parts.year == Int(time.year) && parts.month == time.month && parts.day == time.day
                    && (time.hour, time.minute, time.second) == (12, 34, 56), "\(seconds)")
        }
    }
}
