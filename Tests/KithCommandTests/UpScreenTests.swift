import Foundation
import Testing

/// The screen of `kith up` on a terminal.
@Suite struct UpScreenTests {
    private func up(_ machine: Machine) -> String { "env KITH_DATA='\(machine.data)' '\(Machine.program.path)' up" }

    @Test func `all of it is on a screen of 80 by 24, from the name to the invitation`() async throws {
        let machine = try Machine("small")
        let terminal = try Tmux(line: up(machine))
        try await terminal.show("It may then")
        let screen = try terminal.screen()
        #expect(
            screen.contains(" is up; Ctrl-C stops it\n") && screen.contains("DeviceID")
                && screen.contains("kith pair "), "\(screen)")
        #expect(try terminal.value("#{history_size}") == "0")
        // A window that is made narrower breaks the lines, and loses none.
        try terminal.resize(columns: 40, rows: 24)
        try await terminal.show("It may then")
        try terminal.press("C-c")
        terminal.end()
        await machine.remove()
    }

    @Test func `the QR code is shown where there is room for it`() async throws {
        let machine = try Machine("large")
        let terminal = try Tmux(line: "read line; \(up(machine))")
        try terminal.resize(columns: 120, rows: 80)
        try terminal.press("Enter")
        try await terminal.show("It may then")
        let screen = try terminal.screen()
        #expect(screen.contains("▀") && screen.contains(" is up; Ctrl-C stops it\n"), "\(screen)")
        #expect(try terminal.value("#{history_size}") == "0")
        try terminal.press("C-c")
        terminal.end()
        await machine.remove()
    }
}
