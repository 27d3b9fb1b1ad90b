#if os(Linux)
import CKithSystem
import Foundation
import Testing

/// The pages that the system maps of this program and its libraries.
@Suite struct ProgramMemoryTests {
    /// The pages of files that this process has mapped now.
    private func pages() throws -> Int {
        let fields = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ")
        return try #require(fields.count > 2 ? Int(fields[2]) : nil)
    }

    @Test func `what was used of the program is given up, and comes back when it is used again`() throws {
        let before = try pages()
        kith_release_program()
        // The tests beside this one go on meanwhile.
        #expect(try pages() < before / 4 * 3)
    }
}
#endif
