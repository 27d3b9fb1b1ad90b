public import KithIdentity

/// The sessions of this device's screen, as its own person sees and ends them.
public enum ScreenSessions {
    /// The states of a session.
    @nonexhaustive
    public enum State: String, Codable, Hashable, Sendable, CaseIterable {
        /// A person here is to decide.
        case waiting
        /// It is shown.
        case active
    }

    /// A device that sees this screen, or asks to.
    public struct Session: Codable, Hashable, Sendable {
        /// Its name.
        public var id: String
        /// The device; absent for this device's own person.
        public var device: DeviceID?
        /// The device's name.
        public var name: String
        /// Whether it waits, or is shown.
        public var state: State
        /// What it may do, or asks for.
        public var permissions: Screen.Permissions
        /// The number of the display.
        public var display: UInt32
        /// When it began, in seconds since 1970.
        public var since: Int64
        /// The pictures it has been sent.
        public var pictures: UInt64
        /// The bytes of them.
        public var bytes: UInt64

        /// Describes a session.
        public init(
            id: String, device: DeviceID?, name: String, state: State, permissions: Screen.Permissions,
            display: UInt32, since: Int64, pictures: UInt64 = 0, bytes: UInt64 = 0
        ) {
            self.id = id
            self.device = device
            self.name = name
            self.state = state
            self.permissions = permissions
            self.display = display
            self.since = since
            self.pictures = pictures
            self.bytes = bytes
        }
    }

    /// Lists the sessions.
    public enum List: Method {
        /// The input: nothing.
        public typealias Input = Nothing

        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// The sessions, the oldest first.
            public var sessions: [Session]

            /// Makes the answer.
            public init(sessions: [Session]) { self.sessions = sessions }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "screen.sessions", by: .owner, "Lists who sees this screen, or asks to.")
    }

    /// Tells of the sessions whenever they change, until the caller leaves.
    public enum Watch: StreamMethod {
        /// The input: nothing.
        public typealias Input = Nothing
        /// All that there are.
        public struct Update: StreamMessage, Hashable {
            /// The sessions, the oldest first.
            public var sessions: [Session]

            /// Makes an update.
            public init(sessions: [Session]) { self.sessions = sessions }
        }

        /// The answer: nothing.
        public typealias Output = Nothing
        /// Nothing.
        public typealias Upstream = Nothing
        /// All that there are, at first and whenever that changes.
        public typealias Downstream = Update
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "screen.watch", by: .owner, isIdempotent: true, "Tells who sees this screen, or asks to.")
    }

    /// Decides about a session that waits.
    public enum Decide: Method {
        /// The input: the decision.
        public struct Input: Codable, Hashable, Sendable {
            /// The session, or the beginning of its name.
            public var session: String
            /// What it may do; absent: it is refused.
            public var permissions: Screen.Permissions?

            /// Makes a decision.
            public init(session: String, permissions: Screen.Permissions?) {
                self.session = session
                self.permissions = permissions
            }
        }

        /// The answer: the session.
        public typealias Output = Session
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "screen.decide", by: .owner, "Lets a device see this screen, or refuses it.")
    }

    /// Changes what a running session may do.
    public enum Change: Method {
        /// The input: the change.
        public struct Input: Codable, Hashable, Sendable {
            /// The session, or the beginning of its name.
            public var session: String
            /// What it may do from now on.
            public var permissions: Screen.Permissions

            /// Makes a change.
            public init(session: String, permissions: Screen.Permissions) {
                self.session = session
                self.permissions = permissions
            }
        }

        /// The answer: the session.
        public typealias Output = Session
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "screen.change", by: .owner, isIdempotent: true, "Changes what a session of this screen may do.")
    }

    /// Ends sessions at once.
    public enum End: Method {
        /// The input: which.
        public struct Input: Codable, Hashable, Sendable {
            /// The session, or the beginning of its name; absent: all of them.
            public var session: String?

            /// Makes the input.
            public init(session: String? = nil) { self.session = session }
        }

        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// The sessions that were ended.
            public var ended: [Session]

            /// Makes the answer.
            public init(ended: [Session]) { self.ended = ended }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "screen.end", by: .owner, isIdempotent: true, "Ends sessions of this screen.")
    }

    /// Exchanges lines of text with those who see this screen, until the caller leaves.
    ///
    /// The last lines of sessions that are still shown come first.
    public enum Talk: StreamMethod {
        /// The input: with whom.
        public typealias Input = End.Input

        /// A line, and whose it is.
        public struct Line: StreamMessage, Hashable {
            /// 4,096 bytes.
            public static var sizeLimit: Int { 4_096 }
            /// The session.
            public var session: String
            /// The name of its device; empty where there is none.
            public var name: String
            /// Whether this device's person wrote it.
            public var isOwn: Bool
            /// When it was written, in seconds since 1970.
            public var time: Int64
            /// The line.
            public var line: Screen.ChatLine
            /// The reason why it reached nobody, as a sentence; absent when it did.
            public var failure: String?

            /// Describes a line.
            public init(
                session: String, name: String, isOwn: Bool, time: Int64, line: Screen.ChatLine, failure: String? = nil
            ) {
                self.session = session
                self.name = name
                self.isOwn = isOwn
                self.time = time
                self.line = line
                self.failure = failure
            }
        }

        /// The answer: nothing.
        public typealias Output = Nothing
        /// What this device's person writes: to that session, or to all.
        public typealias Upstream = Screen.ChatLine
        /// What everybody writes.
        public typealias Downstream = Line
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "screen.talk", by: .owner, "Exchanges lines of text with those who see this screen.")
    }

    /// The rules by which a session begins.
    public struct Rules: Codable, Hashable, Sendable {
        /// The times at which a person is asked.
        @nonexhaustive
        public enum Consent: String, Codable, Hashable, Sendable, CaseIterable {
            /// For every session, but of devices with the grant `screen:unattended`.
            case ask
            /// For those of other people's devices, but with that grant.
            case trusted
            /// Never: a grant is enough.
            case unattended
        }

        /// A part of the week, in the device's own time zone.
        public struct Window: Codable, Hashable, Sendable {
            /// The days it begins on: 1 is Monday, 7 Sunday.
            public var days: [UInt8]
            /// The minute of the day it begins, 0…1439.
            public var from: UInt16
            /// The minute of the day it ends, 0…1440; one before `from` is on the next day.
            public var to: UInt16

            /// Makes a window.
            public init(days: [UInt8], from: UInt16, to: UInt16) {
                self.days = days
                self.from = from
                self.to = to
            }
        }

        /// When a person is asked.
        public var consent: Consent
        /// When the screen may be seen at all; none: at any time.
        ///
        /// A session ends with its window.
        public var windows: [Window]
        /// The sessions at the same time, 1…16.
        public var limit: UInt8
        /// The time a person has to answer, in seconds, 5…600.
        public var waitSeconds: UInt16
        /// The longest that a session lasts, with what it was before it was lost, in seconds; 0: as long as it likes,
        /// `nil`: ``standardLongest``.
        public var longestSeconds: UInt32?

        /// The longest that a session lasts unless said otherwise, in seconds: 8 hours.
        public static let standardLongest: UInt32 = 8 * 3_600

        /// Makes rules.
        public init(
            consent: Consent = .ask, windows: [Window] = [], limit: UInt8 = 4, waitSeconds: UInt16 = 60,
            longestSeconds: UInt32? = nil
        ) {
            self.longestSeconds = longestSeconds
            self.consent = consent
            self.windows = windows
            self.limit = limit
            self.waitSeconds = waitSeconds
        }
    }

    /// Shows the rules.
    public enum GetRules: Method {
        /// The input: nothing.
        public typealias Input = Nothing
        /// The answer: the rules.
        public typealias Output = Rules
        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "screen.rules", by: .owner, "Shows when a person is asked before a session.")
    }

    /// Replaces the rules.
    public enum SetRules: Method {
        /// The input: the rules.
        public typealias Input = Rules
        /// The answer: the rules.
        public typealias Output = Rules
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "screen.setRules", by: .owner, isIdempotent: true, "Says when a person is asked before a session.")
    }
}
