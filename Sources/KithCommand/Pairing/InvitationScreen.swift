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
    let screen = terminalSize(STDOUT_FILENO)
    printLine()
    // Somebody who has it read aloud has no use for a picture, and a text can be too long for one.
    if !isPlainTerminal, let code = try? QRCode(invitation.text.uppercased()) {
        // The lines of the text, each as it breaks, with three between them and one for the cursor.
        let columns = screen?.columns ?? 80
        let text = ([head, command, allowed] + warnings).reduce(lines + 5) { $0 + ($1.count + columns - 1) / columns }
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
            printLine(styled("A window of \(needed) would show its QR code: kith invite", .dim))
        }
    }
    printLine(styled(head, .bold))
    printLine()
    printLine(command)
    printLine()
    printLine(allowed)
    noteWarnings(invitation.info.warnings)
}
