#if os(Linux)
import Foundation

/// A mounted file system whose server can stop answering, as one on another machine does that is switched off.
///
/// The server is a Python program that speaks the kernel's FUSE protocol at `/dev/fuse`. It has one folder of small text
/// files, remembers nothing for the kernel, and is stopped by SIGSTOP. It takes root.
package final class StallingMount: Sendable {
    /// Where it is mounted.
    package let path: String
    private let server: ChildProcess

    /// True where one can be made: as root, with `/dev/fuse` and Python.
    package static let isPossible: Bool = {
        guard geteuid() == 0, FileManager.default.isWritableFile(atPath: "/dev/fuse"),
            FileManager.default.isExecutableFile(atPath: "/usr/bin/python3"), let folder = try? TemporaryFolder(),
            let mount = try? StallingMount(at: folder.path, names: [])
        else { return false }
        mount.remove()
        return true
    }()

    /// Mounts one at an empty folder.
    ///
    /// - Parameters:
    ///   - path: The folder.
    ///   - names: The names of its files.
    ///   - end: When this one of them is asked for the first time, it stops answering.
    /// - Throws: what Foundation says when the server cannot be run, or cannot mount it.
    package init(at path: String, names: [String], stoppingAt end: String? = nil) throws {
        server = try ChildProcess(
            "/usr/bin/python3", ["-c", Self.program, path, end ?? ""] + names, output: .connected, errors: .inherited)
        self.path = path
        var said = Data()
        // More than one byte is waited for.
        while said.last != UInt8(ascii: "\n"), let byte = try server.output?.read(upToCount: 1), !byte.isEmpty {
            said += byte
        }
        guard said == Data("mounted\n".utf8) else { throw CocoaError(.fileWriteUnknown) }
    }

    deinit { remove() }

    /// Answers nothing from now on.
    package func stall() { server.send(SIGSTOP) }

    /// Answers again, what was asked meanwhile, too.
    package func resume() { server.send(SIGCONT) }

    /// Unmounts it; whoever still waits for an answer gets an error.
    package func remove() {
        // With the server the kernel gives up what it waits for.
        server.kill()
        _ = unsafe umount2(path, 2)  // MNT_DETACH
    }

    private static let program = #"""
        import ctypes, os, signal, struct, sys

        INIT, LOOKUP, GETATTR, OPEN, READ, STATFS, OPENDIR, READDIR = 26, 1, 3, 14, 15, 17, 27, 28
        SILENT, DONE = (2, 36, 42), (18, 25, 29, 34, 38)
        place, end, names = sys.argv[1], sys.argv[2].encode(), [name.encode() for name in sys.argv[3:]]
        libc = ctypes.CDLL(None, use_errno=True)
        device = os.open("/dev/fuse", os.O_RDWR)
        options = b"fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other" % device
        if libc.mount(b"server:/stalls", place.encode(), b"fuse.stalls", 6, options) != 0:
            sys.exit(os.strerror(ctypes.get_errno()))
        print("mounted", flush=True)

        def attributes(node):
            mode, size = (0o40755, 0) if node == 1 else (0o100644, 6)
            return struct.pack("<6Q10I", node, size, 1, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

        def answer(kind, node, body):
            global end
            if kind == INIT:
                return struct.pack("<4I2H2I2H8I", 7, 31, 65536, 0, 16, 12, 65536, 1, 0, 0, *[0] * 8)
            if kind == LOOKUP:
                name = body.rstrip(b"\0")
                if name not in names:
                    return -2
                if name == end:
                    end = None
                    os.kill(os.getpid(), signal.SIGSTOP)
                number = names.index(name) + 2
                return struct.pack("<4Q2I", number, 0, 0, 0, 0, 0) + attributes(number)
            if kind == GETATTR:
                return struct.pack("<Q2I", 0, 0, 0) + attributes(node)
            if kind in (OPEN, OPENDIR):
                # The page cache is left out: each read is asked for.
                return struct.pack("<Q2I", 0, 1, 0)
            if kind == STATFS:
                return struct.pack("<5Q10I", 1 << 20, 1 << 19, 1 << 19, 100, 50, 4096, 255, 4096, *[0] * 7)
            if kind in DONE:
                return b""
            if kind not in (READ, READDIR):
                return -38
            _, offset, size = struct.unpack("<QQI", body[:20])
            if kind == READ:
                return b"words\n"[offset:offset + size]
            entries = b""
            for number, name in list(enumerate(names))[offset:]:
                entry = struct.pack("<2Q2I", number + 2, number + 1, len(name), 8) + name
                entry += b"\0" * (-len(entry) % 8)
                if len(entries) + len(entry) > size:
                    break
                entries += entry
            return entries

        while True:
            try:
                request = os.read(device, 1 << 18)
            except OSError:
                break
            _, kind, number, node = struct.unpack("<2I2Q", request[:24])
            if kind in SILENT:
                continue
            result = answer(kind, node, request[40:])
            error, data = (result, b"") if isinstance(result, int) else (0, result)
            os.write(device, struct.pack("<IiQ", 16 + len(data), error, number) + data)
        """#
}
#endif
