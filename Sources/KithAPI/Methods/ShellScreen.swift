import KithWire

extension Shell {
    /// Opens a shell on a device, or attaches to one, and tells what its terminal's screen looks like.
    ///
    /// For callers that draw and do not know escape sequences, as a page in a browser. This device keeps the terminal and
    /// goes to the other one itself, by ``Open`` and ``Attach``, whose grants hold; it finds the way back when the
    /// connection to it is lost. However much is written there, a caller is sent no more than it shows: see ``Update``.
    ///
    /// The end of the caller's direction hangs up, which ends the shell unless another window may type in it. A caller
    /// that cancels, or is gone, leaves it running for as long as it is kept.
    public enum Screen: StreamMethod {
        /// The input: the shell, and the size of the screen.
        public struct Input: Codable, Hashable, Sendable {
            /// The device the shell runs on; `nil`: this one.
            public var device: String?
            /// Characters in a row, 2…1,000.
            public var columns: Int
            /// Rows, 1…1,000.
            public var rows: Int
            /// A program and its arguments, instead of the login shell.
            public var command: [String]?
            /// A line for the shell to read; at most one of this and ``command`` may be given.
            public var commandLine: String?
            /// The folder to start in; `nil`: the home folder.
            public var directory: String?
            /// Environment variables, besides the language, the time zone and colours.
            public var environment: [String: String]
            /// The time the session outlives its last interactive client, in seconds; 0: it does not.
            public var keep: UInt32
            /// The devices that may attach, besides this one.
            public var sharing: Sharing
            /// The session to attach to; `nil`: a new one is opened.
            public var session: String?
            /// True to look only: what is typed is dropped.
            public var view: Bool
            /// The lines from before that are fetched with a session that is attached to, at most 10,000.
            public var scrollback: UInt32
            /// When what is typed is shown before it is echoed.
            public var prediction: Prediction
            /// A name by which a window that comes back is known, 1…64 characters of its choice; `nil`: it is new.
            public var viewer: String?

            /// Makes the input.
            public init(
                device: String? = nil, columns: Int, rows: Int, command: [String]? = nil, commandLine: String? = nil,
                directory: String? = nil, environment: [String: String] = [:], keep: UInt32 = 28_800,
                sharing: Sharing = .none, session: String? = nil, view: Bool = false, scrollback: UInt32 = 2_000,
                prediction: Prediction = .adaptive, viewer: String? = nil
            ) {
                self.device = device
                self.columns = columns
                self.rows = rows
                self.command = command
                self.commandLine = commandLine
                self.directory = directory
                self.environment = environment
                self.keep = keep
                self.sharing = sharing
                self.session = session
                self.view = view
                self.scrollback = scrollback
                self.prediction = prediction
                self.viewer = viewer
            }
        }

        /// When what is typed is shown before it is echoed.
        @nonexhaustive
        public enum Prediction: String, Codable, Hashable, Sendable, CaseIterable {
            /// On slow paths.
            case adaptive
            /// Always.
            case always
            /// Never.
            case never
        }

        /// The answer: the session.
        public struct Output: Codable, Hashable, Sendable {
            /// Its name on the device, to attach to it.
            public var session: String
            /// The number of its first process there.
            public var process: Int32
            /// The time it outlives its last interactive client, in seconds; `nil`: it does not.
            public var keep: UInt32?
            /// The number of this viewer's messages of input that were taken before: later ones it sends again.
            public var taken: UInt64

            /// Makes the answer.
            public init(session: String, process: Int32, keep: UInt32?, taken: UInt64) {
                self.session = session
                self.process = process
                self.keep = keep
                self.taken = taken
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "shell.screen", by: .owner, "Opens or attaches a shell anywhere, and tells what its screen looks like.")
        /// What a person does, and what the caller has shown.
        public typealias Upstream = Action
        /// What the screen looks like.
        public typealias Downstream = Update
    }
}

extension Shell.Screen.Input: OmissibleInput {
    /// The person's own shell on this device.
    public static var usual: Self { Self(columns: 80, rows: 24) }
    /// The size.
    public static var required: Set<String> { ["columns", "rows"] }
}
