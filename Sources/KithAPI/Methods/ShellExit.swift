#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The way in which a shell or a command ended.
@frozen
public enum ShellExit: Hashable, Sendable {
    /// It returned this status, 0…255.
    case status(Int32)
    /// A signal ended it.
    case signal(ShellSignal, dumpedCore: Bool)

    /// The status a shell would report: its own, or 128 plus the number of the signal.
    public var shellStatus: Int32 {
        switch self {
        case .status(let status): status
        case .signal(let signal, _): 128 + (signal.number ?? 0)
        }
    }
}

/// A signal by its name, because the numbers differ between systems.
public struct ShellSignal: Hashable, Sendable, CustomStringConvertible {
    /// Its name without "SIG", as in "INT".
    ///
    /// One to sixteen capital letters and digits.
    public let name: String

    /// Accepts a name that could be a signal's, with or without "SIG".
    public init?(_ name: String) {
        let bare = name.hasPrefix("SIG") ? String(name.dropFirst(3)) : name
        let isName = bare.utf8.allSatisfy { (65...90).contains($0) || (48...57).contains($0) }
        guard (1...16).contains(bare.utf8.count), isName else { return nil }
        self.name = bare
    }

    /// The signal of a number on this system.
    public init(number: Int32) {
        name = Self.numbers.first { $0.1 == number }?.0 ?? String(number)
    }

    private init(known name: String) { self.name = name }

    /// The number on this system; `nil` for one it does not have.
    public var number: Int32? {
        // The name is the peer's: a number beyond all signals is none.
        Self.numbers.first { $0.0 == name }?.1 ?? Int32(name).flatMap { (1...64).contains($0) ? $0 : nil }
    }

    /// The name as C spells it: "SIGINT".
    public var description: String { "SIG\(name)" }

    /// The interrupt key.
    public static let interrupt = ShellSignal(known: "INT")
    /// Please end.
    public static let terminate = ShellSignal(known: "TERM")
    /// The terminal is gone.
    public static let hangUp = ShellSignal(known: "HUP")
    /// End now.
    public static let kill = ShellSignal(known: "KILL")
    /// The quit key.
    public static let quit = ShellSignal(known: "QUIT")

    private static let numbers: [(String, Int32)] = [
        ("HUP", SIGHUP), ("INT", SIGINT), ("QUIT", SIGQUIT), ("ILL", SIGILL), ("TRAP", SIGTRAP), ("ABRT", SIGABRT),
        ("BUS", SIGBUS), ("FPE", SIGFPE), ("KILL", SIGKILL), ("USR1", SIGUSR1), ("SEGV", SIGSEGV),
        ("USR2", SIGUSR2), ("PIPE", SIGPIPE), ("ALRM", SIGALRM), ("TERM", SIGTERM), ("CHLD", SIGCHLD),
        ("CONT", SIGCONT), ("STOP", SIGSTOP), ("TSTP", SIGTSTP), ("TTIN", SIGTTIN), ("TTOU", SIGTTOU),
        ("URG", SIGURG), ("XCPU", SIGXCPU), ("XFSZ", SIGXFSZ), ("VTALRM", SIGVTALRM), ("PROF", SIGPROF),
        ("WINCH", SIGWINCH), ("IO", SIGIO), ("SYS", SIGSYS),
    ]
}
