import CKithSystem
import Foundation
import KithIdentity
import KithWire

/// The passphrase that seals a device's key: from where a person or a program has it, into memory that is cleared.
///
/// Every source gives one line, of at most 1,024 bytes; what follows the line is not read.
enum PassphraseInput {
    /// The most bytes one has.
    static let limit = 1_024
    /// The name of systemd's credential that is a passphrase.
    private static let credential = "kith.passphrase"

    /// `$KITH_PASSPHRASE`, which is no longer in this process's environment, nor in that of any child; `nil` when it was
    /// not set, or empty.
    ///
    /// The first use takes it out; before ``Root`` does anything else.
    static let fromEnvironment: SecretBytes? = {
        var count = 0
        let room = unsafe SecretBytes.lasting(count: limit + 1) { room in
            unsafe count = kith_take_variable("KITH_PASSPHRASE", room.baseAddress, room.count)
        }
        // One that is too long is refused when it is used.
        return count > 0 ? room.prefix(min(count, limit + 1)) : nil
    }()

    /// The first line that can be read from a descriptor.
    static func line(from descriptor: Int32, _ what: String) throws(KithError) -> SecretBytes {
        var count = 0
        var failure: Int32 = 0
        let room = unsafe SecretBytes.lasting(count: limit + 1) { room in
            // Byte by byte: what follows the line is somebody else's.
            while count < room.count {
                let got = unsafe read(descriptor, room.baseAddress?.advanced(by: count), 1)
                if got < 0, errno == EINTR { continue }
                if got < 0 { failure = errno }
                guard got == 1, unsafe room[count] != UInt8(ascii: "\n") else { break }
                count += 1
            }
            if count > 0, unsafe room[count - 1] == UInt8(ascii: "\r") { count -= 1 }
        }
        guard failure == 0 else {
            throw KithError(
                .invalid, "The passphrase could not be read from \(what): \(unsafe String(cString: strerror(failure)))."
            )
        }
        guard count > 0 else { throw KithError(.invalid, "The passphrase from \(what) is empty.") }
        guard count <= limit else {
            throw KithError(.invalid, "The passphrase from \(what) has more than \(limit) bytes.")
        }
        return room.prefix(count)
    }

    /// The first line of a descriptor that was given for this, which is closed then.
    static func line(fromOwn descriptor: Int32) throws(KithError) -> SecretBytes {
        let line = try line(from: descriptor, "file descriptor \(descriptor)")
        guard descriptor <= STDERR_FILENO else {
            close(descriptor)
            return line
        }
        // A standard stream is not left free for the next file that is opened.
        let nothing = unsafe open("/dev/null", O_RDWR | O_CLOEXEC)
        if nothing >= 0 {
            dup2(nothing, descriptor)
            close(nothing)
        }
        return line
    }

    /// The first line of a file that others may not read, or of a pipe.
    ///
    /// `isGuarded`: the file lies in a folder that somebody else keeps closed, so its own mode does not matter.
    static func line(fromFile path: String, isGuarded: Bool = false) throws(KithError) -> SecretBytes {
        let path = (path as NSString).expandingTildeInPath
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw KithError(
                errno == ENOENT ? .notFound : .denied,
                "The passphrase could not be read from \(path): \(unsafe String(cString: strerror(errno))).")
        }
        defer { close(descriptor) }
        if !isGuarded, SecretFile.isOpenToOthers(descriptor) {
            throw KithError(.denied, "\(path) holds a passphrase and others may read it. Run: chmod 600 \(path)")
        }
        return try line(from: descriptor, path)
    }

    /// The first line that a command of the shell prints; it may ask at the terminal.
    static func line(fromCommand command: String) throws(KithError) -> SecretBytes {
        var ends: [Int32] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else {
            throw KithError(.exhausted, "Cannot run the passphrase command: too many files are open.")
        }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        let pid: pid_t
        do throws(ProcessSpawn.Failure) {
            defer { close(ends[1]) }
            pid = try ProcessSpawn(["/bin/sh", "-c", command], mode: .answering(output: ends[1])).start()
        } catch {
            close(ends[0])
            throw KithError(.internal, "The passphrase command could not be run: \(error).")
        }
        var status: Int32 = 0
        func end() {
            close(ends[0])
            while unsafe waitpid(pid, &status, 0) < 0, errno == EINTR {}
        }
        let passphrase: SecretBytes
        do throws(KithError) {
            passphrase = try line(from: ends[0], "the passphrase command")
            end()
        } catch {
            end()
            guard status == 0 else { throw failed(status) }
            throw error
        }
        // One that prints more than a line may end by the pipe that closes.
        guard status == 0 || status & 0x7F == SIGPIPE else { throw failed(status) }
        return passphrase
    }

    private static func failed(_ status: Int32) -> KithError {
        let signal = status & 0x7F
        return KithError(
            .denied, "The passphrase command failed (\(signal == 0 ? "status \(status >> 8)" : "signal \(signal)")).")
    }

    /// The credential that systemd has for this service; `nil` when there is none.
    static func fromCredentials() throws(KithError) -> SecretBytes? {
        guard let folder = ProcessInfo.processInfo.environment["CREDENTIALS_DIRECTORY"], folder.hasPrefix("/") else {
            return nil
        }
        let path = folder + "/" + credential
        return unsafe access(path, F_OK) == 0 ? try line(fromFile: path, isGuarded: true) : nil
    }

    // MARK: - Asking

    /// True when there is a person to ask.
    static var canAsk: Bool { isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1 }

    /// Asks at the terminal; what is typed is not shown.
    ///
    /// - Throws: `.cancelled` for Ctrl-C, `.invalid` for nothing.
    static func ask(_ prompt: String) throws(KithError) -> SecretBytes {
        let terminal = unsafe open("/dev/tty", O_RDWR | O_CLOEXEC)
        guard terminal >= 0 else {
            throw KithError(
                .invalid, "There is no terminal to ask for the passphrase: give it as `kith passphrase --help` says.")
        }
        defer { close(terminal) }
        var before = termios()
        guard unsafe tcgetattr(terminal, &before) == 0 else {
            throw KithError(
                .invalid, "There is no terminal to ask for the passphrase: give it as `kith passphrase --help` says.")
        }
        var quiet = before
        // Keys that would end the process would leave the terminal as it is now.
        quiet.c_lflag &= ~tcflag_t(ECHO | ICANON | ISIG)
        unsafe tcsetattr(terminal, TCSAFLUSH, &quiet)
        defer {
            unsafe tcsetattr(terminal, TCSAFLUSH, &before)
            unsafe write(terminal, "\n", 1)
        }
        let text = Array((prompt + " ").utf8)
        _ = unsafe write(terminal, text, text.count)
        var count = 0
        var isCancelled = false
        let room = unsafe SecretBytes.lasting(count: limit + 4) { room in
            reading: while count <= limit {
                var byte: UInt8 = 0
                let got = unsafe read(terminal, &byte, 1)
                if got < 0, errno == EINTR { continue }
                guard got == 1 else { break }
                switch byte {
                case 0x0A, 0x0D, 0x04: break reading
                case 0x03, 0x1C:
                    isCancelled = true
                    break reading
                case 0x15: count = 0
                case 0x08, 0x7F:
                    // All bytes of a character go.
                    while count > 0 {
                        count -= 1
                        if unsafe room[count] & 0xC0 != 0x80 { break }
                    }
                default:
                    unsafe room[count] = byte
                    count += 1
                }
            }
        }
        guard !isCancelled else { throw KithError(.cancelled, "No passphrase was given.") }
        guard count > 0 else { throw KithError(.invalid, "The passphrase is empty.") }
        guard count <= limit else { throw KithError(.invalid, "The passphrase has more than \(limit) bytes.") }
        return room.prefix(count)
    }
}

extension GlobalOptions {
    /// The passphrase that seals this device's key; `nil` when the machine's key does.
    ///
    /// A person is asked for it only where one is needed.
    func passphrase() throws -> SecretBytes? {
        if let passphraseFD { return try PassphraseInput.line(fromOwn: passphraseFD) }
        if let passphraseFile { return try PassphraseInput.line(fromFile: passphraseFile) }
        if let passphraseCommand { return try PassphraseInput.line(fromCommand: passphraseCommand) }
        if let passphrase = PassphraseInput.fromEnvironment {
            guard passphrase.count <= PassphraseInput.limit else {
                throw KithError(.invalid, "$KITH_PASSPHRASE has more than \(PassphraseInput.limit) bytes.")
            }
            return passphrase
        }
        if let passphrase = try PassphraseInput.fromCredentials() { return passphrase }
        guard try FileKeyStore.sealKind(directory: directory) == .passphrase, PassphraseInput.canAsk else { return nil }
        return try PassphraseInput.ask("Passphrase of this device's key:")
    }
}
