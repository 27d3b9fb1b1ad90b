import ArgumentParser
import Foundation
import KithAPI
import KithIdentity

/// Prints an invitation for a person: how to use it, what it allows, the QR code where it fits on the screen.
///
/// `lines` is how many the screen shows above it.
func show(_ invitation: Invitations.Create.Output, below lines: Int = 0) {
    let grants = invitation.info.grants.map(\.description).joined(separator: ", ")
    let head = "Invite a device (once, expires \(relative(invitation.info.expiresAt))); on that device, run:"
    let command = "  kith pair \(invitation.text)"
    let allowed =
        "It may then: \(grants.isEmpty ? "nothing yet; `kith grant NAME --add shell` lets it open a shell" : grants)"
    let warnings = invitation.info.warnings ?? []
    drawCode(invitation.text, besides: [head, command, allowed] + warnings, lines: lines + 5, again: "kith invite")
    printLine(styled(head, .bold))
    printLine()
    printLine(command)
    printLine()
    printLine(allowed)
    noteWarnings(invitation.info.warnings)
}

/// Prints the QR code of a text where it fits on the screen, and otherwise how large that would have to be.
///
/// `texts` stand below it, each as it breaks, with `lines` more; `command` shows it again.
func drawCode(_ content: String, besides texts: [String], lines: Int, again command: String) {
    printLine()
    // Somebody who has it read aloud has no use for a picture, and a text can be too long for one.
    guard !isPlainTerminal, let code = try? QRCode(content.uppercased()) else { return }
    let screen = terminalSize(STDOUT_FILENO)
    let columns = screen?.columns ?? 80
    let text = texts.reduce(lines) { $0 + ($1.count + columns - 1) / columns }
    let room = screen.map { (columns: $0.columns, rows: max(0, $0.rows - text)) }
    // Four light modules around it are the standard's, two are enough for most cameras.
    let margin = [4, 2].first { margin in
        let size = code.size + 2 * margin
        return room.map { size <= $0.columns && (size + 1) / 2 <= $0.rows } ?? true
    }
    if let margin {
        printLine(code.terminal(margin: margin, colors: wantsColour(STDOUT_FILENO)))
    } else {
        let size = code.size + 4
        let needed = "\(max(size, 80)) by \(text + (size + 1) / 2)"
        printLine(styled("A window of \(needed) would show its QR code: \(command)", .dim))
    }
}
