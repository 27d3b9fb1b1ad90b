import KithIdentity

extension Shell {
    /// The devices, besides the one that opened a session, that may attach to it.
    @nonexhaustive
    public enum Sharing: String, Codable, Hashable, Sendable, CaseIterable {
        /// Nobody but this device's own person.
        case none
        /// Devices with the grant `shell` or `shell:view` may view it.
        case view
        /// Devices with the grant `shell` may type as well, and those with `shell:view` may view it.
        case interactive = "drive"
    }

    /// A client of a session.
    public struct Client: Codable, Hashable, Sendable {
        /// The client's own identifier, 16 random bytes, the same when it reconnects: input sent twice counts once.
        public var id: [UInt8]
        /// True to be told which input has been processed (`echoed`), to predict the echo.
        public var wantsEchoes: Bool

        /// Makes a client with a new identifier.
        public init(wantsEchoes: Bool = false) {
            id = (0..<16).map { _ in UInt8.random(in: 0...255) }
            self.wantsEchoes = wantsEchoes
        }
    }

    /// A session as a list shows it.
    public struct Session: Codable, Hashable, Sendable {
        /// Its name on the device: eight letters and digits.
        public var id: String
        /// The number of its first process.
        public var process: Int32
        /// The command asked for; empty for a login shell.
        public var command: String
        /// The window title the program there has set; empty without a terminal.
        public var title: String
        /// The size of its terminal; `nil`: it runs on pipes.
        public var size: Size?
        /// The name of the device that opened it; empty for the device's own person.
        public var owner: String
        /// True when that is the device that asks.
        public var isOwn: Bool
        /// The devices that may attach.
        public var sharing: Sharing
        /// The time it was opened, in seconds since 1970.
        public var opened: Int64
        /// The time since something was typed or shown, in seconds.
        public var idle: Int64
        /// The number of clients attached now.
        public var clients: Int
        /// The number of them that may type.
        public var interactiveClients: Int
        /// The time until it is ended if nobody attaches, in seconds; `nil` while somebody is attached.
        public var endsIn: Int64?
        /// The status it has ended with, as a shell counts; `nil` while it runs.
        public var status: Int32?

        /// Describes a session.
        public init(
            id: String, process: Int32, command: String, title: String, size: Size?, owner: String, isOwn: Bool,
            sharing: Sharing, opened: Int64, idle: Int64, clients: Int, interactiveClients: Int, endsIn: Int64?,
            status: Int32?
        ) {
            self.id = id
            self.process = process
            self.command = command
            self.title = title
            self.size = size
            self.owner = owner
            self.isOwn = isOwn
            self.sharing = sharing
            self.opened = opened
            self.idle = idle
            self.clients = clients
            self.interactiveClients = interactiveClients
            self.endsIn = endsIn
            self.status = status
        }

        private enum CodingKeys: String, CodingKey {
            case id, process, command, title, size, owner, isOwn, sharing, opened, idle
            case clients = "viewers"
            case interactiveClients = "drivers"
            case endsIn, status
        }
    }

    /// Attaches to a running session, as a further client or as one whose connection was lost.
    public enum Attach: StreamMethod {
        /// The input: the session, and the way to attach.
        public struct Input: Codable, Hashable, Sendable {
            /// The session's name, or the beginning of it.
            public var session: String
            /// True to type; otherwise only to view.
            public var isInteractive: Bool
            /// The size of the caller's terminal; `nil`: it has none.
            public var size: Size?
            /// The number of bytes of output the caller has received; `nil`: it begins with the screen.
            ///
            /// Output continues there if it is still kept; otherwise the screen is drawn anew.
            public var position: UInt64?
            /// The most lines of scrollback sent before the screen, when it is drawn.
            public var scrollback: UInt32
            /// The caller as a client of the session.
            public var client: Client

            /// Makes the input.
            public init(
                session: String, isInteractive: Bool = true, size: Size? = nil, position: UInt64? = nil,
                scrollback: UInt32 = 2_000, client: Client = Client()
            ) {
                self.session = session
                self.isInteractive = isInteractive
                self.size = size
                self.position = position
                self.scrollback = scrollback
                self.client = client
            }

            private enum CodingKeys: String, CodingKey {
                case session
                case isInteractive = "drives"
                case size, position, scrollback
                case client = "viewer"
            }
        }

        /// The answer: the session, and both positions.
        public struct Output: Codable, Hashable, Sendable {
            /// The session.
            public var session: Session
            /// The time it outlives its last interactive client, in seconds; `nil`: it ends with the stream.
            public var keep: UInt32?
            /// The number of bytes of this caller's input received so far: the next continue there.
            public var inputPosition: UInt64
            /// The position of the first byte of output that is sent.
            public var position: UInt64

            /// Makes the answer.
            public init(session: Session, keep: UInt32?, inputPosition: UInt64, position: UInt64) {
                self.session = session
                self.keep = keep
                self.inputPosition = inputPosition
                self.position = position
            }
        }

        /// Any `shell` grant; the service shows a device its own sessions and those that are shared.
        public static let header = MethodHeader.stream(
            "shell.attach", by: .grant(.shell),
            "Attaches to a running shell, at the caller's last position or with its screen.")
        /// Input, and what goes with it.
        public typealias Upstream = ShellFrame
        /// Output, and what goes with it.
        public typealias Downstream = ShellFrame
    }

    /// The sessions the caller may attach to, the oldest first.
    public enum Sessions: Method {
        /// The input: nothing.
        public typealias Input = Nothing
        /// The answer: the sessions.
        public typealias Output = [Session]
        /// Any `shell` grant.
        public static let header = MethodHeader.query(
            "shell.sessions", by: .grant(.shell), "Lists the shells the caller may attach to.")
    }

    /// Ends a session, or changes who may attach to it.
    public enum Change: Method {
        /// The input: the session, and the change.
        public struct Input: Codable, Hashable, Sendable {
            /// The session's name, or the beginning of it.
            public var session: String
            /// True to end it, with all its processes.
            public var ends: Bool
            /// The devices that may attach from now on; `nil`: no change.
            public var sharing: Sharing?

            /// Makes the input.
            public init(session: String, ends: Bool = false, sharing: Sharing? = nil) {
                self.session = session
                self.ends = ends
                self.sharing = sharing
            }
        }

        /// The session after the change.
        public typealias Output = Session
        /// Any `shell` grant; the service lets only the device that opened the session, and this one's own person.
        public static let header = MethodHeader.action(
            "shell.change", by: .grant(.shell), "Ends a shell, or changes who may attach to it.")
    }
}

extension Shell.Attach.Input: OmissibleInput {
    /// To type into it, with two thousand lines of scrollback.
    public static var usual: Self { Self(session: "") }
    /// The session.
    public static var required: Set<String> { ["session"] }
}

extension Shell.Change.Input: OmissibleInput {
    /// It goes on, shared as it is.
    public static var usual: Self { Self(session: "") }
    /// The session.
    public static var required: Set<String> { ["session"] }
}
