import KithIdentity

/// Shells and commands on a device.
public enum Shell {
    /// The terminal a shell is to run on.
    public struct Terminal: Codable, Hashable, Sendable {
        /// Its size.
        public var size: Size
        /// The type, as `$TERM` names it: "xterm-256color".
        public var type: String

        /// Describes a terminal.
        public init(size: Size, type: String) {
            self.size = size
            self.type = type
        }
    }

    /// The size of a terminal.
    public struct Size: Codable, Hashable, Sendable {
        /// Characters in a row; 0 when unknown.
        public var columns: UInt16
        /// Rows; 0 when unknown.
        public var rows: UInt16
        /// Pixels from left to right; 0 when unknown.
        public var pixelWidth: UInt16
        /// Pixels from top to bottom; 0 when unknown.
        public var pixelHeight: UInt16

        /// Makes a size.
        public init(columns: UInt16, rows: UInt16, pixelWidth: UInt16 = 0, pixelHeight: UInt16 = 0) {
            self.columns = columns
            self.rows = rows
            self.pixelWidth = pixelWidth
            self.pixelHeight = pixelHeight
        }
    }

    /// Opens a shell, or runs a command, and connects it to the stream (``ShellFrame`` says how).
    ///
    /// Without a command it is the account's login shell. A command runs through that shell's `-c`.
    /// When the stream ends before the process has, every process of its session is ended, unless ``Input/keep``
    /// says to wait for the caller to come back (``Attach``).
    public enum Open: StreamMethod {
        /// The input: the command, its terminal and its environment.
        public struct Input: Codable, Hashable, Sendable {
            /// The terminal it runs on; `nil`: pipes, with standard output and standard error apart.
            public var terminal: Terminal?
            /// A program and its arguments; each reaches the program as it is, whatever characters it holds.
            public var command: [String]?
            /// A line for the shell to read, as after its `-c`: pipelines, variables and so on work.
            ///
            /// At most one of this and ``command`` may be given.
            public var commandLine: String?
            /// Environment variables; the device takes those on its list and leaves out the others.
            public var environment: [String: String]
            /// The folder to start in, absolute or from the home folder; `nil`: the home folder.
            public var directory: String?
            /// The time the session outlives its last interactive client, in seconds; `nil`: it ends with the stream.
            ///
            /// A session on a terminal is kept however the caller goes, unless it hangs up (resets the stream with
            /// `.cancelled`); one on pipes only when the connection was lost. The device has a limit of its own.
            public var keep: UInt32?
            /// The devices that may attach, besides the caller's own.
            public var sharing: Sharing
            /// True to give the session an ssh agent that is the caller's; needs the grant `shell:agent`.
            public var forwardsAgent: Bool
            /// The caller as a client of the session.
            public var client: Client

            /// Makes the input.
            public init(
                terminal: Terminal? = nil, command: [String]? = nil, commandLine: String? = nil,
                environment: [String: String] = [:], directory: String? = nil, keep: UInt32? = nil,
                sharing: Sharing = .none, forwardsAgent: Bool = false, client: Client = Client()
            ) {
                self.terminal = terminal
                self.command = command
                self.commandLine = commandLine
                self.environment = environment
                self.directory = directory
                self.keep = keep
                self.sharing = sharing
                self.forwardsAgent = forwardsAgent
                self.client = client
            }

            private enum CodingKeys: String, CodingKey {
                case terminal, command, commandLine, environment, directory, keep, sharing, forwardsAgent
                case client = "viewer"
            }
        }

        /// The answer: the session that was started.
        public struct Output: Codable, Hashable, Sendable {
            /// The number of the process, and of its session.
            public var process: Int32
            /// The shell that runs: "/bin/bash".
            public var shell: String
            /// The account it runs as.
            public var user: String
            /// The session's name on that device, to attach to it.
            public var session: String
            /// The time it outlives its last interactive client, in seconds; `nil`: it ends with the stream.
            public var keep: UInt32?

            /// Makes the answer.
            public init(process: Int32, shell: String, user: String, session: String, keep: UInt32? = nil) {
                self.process = process
                self.shell = shell
                self.user = user
                self.session = session
                self.keep = keep
            }
        }

        /// Any `shell` grant; the service runs what it covers: anything, or the one command it names.
        public static let header = MethodHeader.stream(
            "shell.open", by: .grant(.shell), "Opens a shell or runs a command, on a terminal or on pipes.")
        /// Input, and what goes with it.
        public typealias Upstream = ShellFrame
        /// Output, and what goes with it.
        public typealias Downstream = ShellFrame
    }
}

extension Shell.Open.Input: OmissibleInput {
    /// The person's own shell, without a terminal, shared with nobody.
    public static var usual: Self { Self() }
    /// None.
    public static var required: Set<String> { [] }
}
