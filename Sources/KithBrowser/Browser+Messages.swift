package import KithAPI
package import KithTerminal
package import KithWire

/// The number of a request, by which its answers are known.
package typealias Ticket = Int

extension Browser {
    /// An event for the browser.
    package enum Event: Sendable {
        /// The person did something.
        case input(InputEvent)
        /// The terminal has a new size.
        case resized(columns: Int, rows: Int)
        /// Time has passed; see ``Browser/deadline``.
        case timePassed
        /// The absolute path of the folder that is being listed.
        case resolved(Ticket, Files.Path)
        /// Some of what a folder holds, or a search has found.
        case entries(Ticket, [Files.Entry])
        /// The paired devices.
        case devices(Ticket, [Devices.Info])
        /// The target of a link.
        case described(Ticket, Files.Entry)
        /// A preview.
        case preview(Ticket, Preview)
        /// A part of the file being looked at.
        case bytes(Ticket, [UInt8], isLast: Bool)
        /// The names, of those asked for, that exist at a copy's destination.
        case present(Ticket, [Files.Path])
        /// The progress of a copy.
        case progress(Ticket, Files.Progress)
        /// So many of what is to be deleted or moved have been.
        case advanced(Ticket, Int)
        /// The editor has ended; whether anything was written.
        case edited(Ticket, isChanged: Bool)
        /// A request has ended: with all that was to come, or with an error.
        case ended(Ticket, KithError?)
    }

    /// A request of the browser; each is answered with events of its ticket, the last of them ``Event/ended(_:_:)``.
    package enum Effect: Hashable, Sendable {
        case list(Ticket, Folder)
        case listDevices(Ticket)
        /// Search a folder and all beneath it for names with a text or a pattern.
        case search(Ticket, Folder, String)
        /// Say what a path leads to.
        case describe(Ticket, device: String?, Files.Path)
        case preview(Ticket, device: String?, Files.Path, Item)
        case read(Ticket, device: String?, Files.Path, offset: UInt64, length: Int)
        /// Say which of a copy's sources have a namesake at its destination.
        case compare(Ticket, CopyOrder)
        case copy(Ticket, CopyOrder)
        case makeFolder(Ticket, device: String?, Files.Path)
        /// Rename, or move into another folder, one after the other.
        case move(Ticket, device: String?, [Move], overwrite: Bool)
        case delete(Ticket, device: String?, [Files.Path])
        case edit(Ticket, device: String?, Files.Path)
        /// Nobody waits for the answer any more.
        case cancel(Ticket)
        /// Give the terminal back until the process is continued.
        case suspend
        /// Draw everything anew: something else wrote on the terminal.
        case redraw
        case quit
    }

    /// One thing that gets another path on its device.
    package struct Move: Hashable, Sendable {
        package var from: Files.Path
        package var to: Files.Path
    }

    /// A copy to make, and how.
    package struct CopyOrder: Hashable, Sendable {
        package var sources: [Files.Location]
        package var destination: Files.Location
        /// True when the destination is a folder to put things in.
        package var intoFolder: Bool
        /// True when files that exist already are replaced.
        package var overwrite = true
    }
}
