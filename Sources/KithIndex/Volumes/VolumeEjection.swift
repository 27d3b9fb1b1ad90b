import CKithSystem
import Foundation
package import KithWire

/// Unmounts volumes by the programs that the system has for it.
package enum VolumeEjection {
    /// How long a program may take, in seconds: what is cached is written to the disk first.
    private static let patience = 120.0

    /// Unmounts a volume, and has its disk stop where that can be done.
    ///
    /// Blocks. - Throws: `.conflict` when it is in use, `.denied` when this user may not, `.unsupported` when it cannot be
    /// ejected, or the system has no program for it.
    package static func eject(_ volume: MountedVolume) throws(KithError) {
        let path = String(decoding: volume.mount.point, as: UTF8.self)
        guard path != "/" else { throw KithError(.invalid, "The system runs from /, which cannot be ejected.") }
        guard volume.kind != .virtual else {
            throw KithError(.unsupported, "\(path) is \(volume.mount.type), which is no disk that could be taken out.")
        }
        let device = String(decoding: volume.mount.source, as: UTF8.self)
        if let udisks = program("udisksctl"), device.hasPrefix("/dev/") {
            let (status, said) = try run(udisks, ["unmount", "--no-user-interaction", "--block-device", device])
            guard status == 0 else { throw refusal(path, said) }
            // It is unmounted, which is what counts; not every disk can be turned off.
            if volume.kind == .external {
                _ = try? run(udisks, ["power-off", "--no-user-interaction", "--block-device", device])
            }
            return
        }
        guard kith_effective_user() == 0, let umount = program("umount") else {
            throw KithError(
                .unsupported,
                "This system has no udisksctl, without which a person may not eject \(path). Install udisks2, or as root: umount \(shellWord(path))"
            )
        }
        let (status, said) = try run(umount, ["--", path])
        guard status == 0 else { throw refusal(path, said) }
    }

    private static func refusal(_ path: String, _ said: String) -> KithError {
        let reason = said.split(whereSeparator: \.isNewline).last.map(String.init) ?? "the system does not say why"
        let isBusy = said.localizedCaseInsensitiveContains("busy")
        let isDenied = said.localizedCaseInsensitiveContains("not authorized") || said.contains("must be superuser")
        let advice = isBusy ? " Close what uses it; `fuser -vm \(shellWord(path))` says what that is." : ""
        return KithError(
            isBusy ? .conflict : isDenied ? .denied : .internal, "Could not eject \(path): \(reason).\(advice)")
    }

    private static func program(_ name: String) -> String? {
        ["/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/"].map { $0 + name }.first {
            FileManager.default.isExecutableFile(atPath: $0)
        }
    }

    /// Runs a program, and returns its status and what it said.
    private static func run(_ program: String, _ arguments: [String]) throws(KithError) -> (Int32, String) {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments = arguments
        process.environment = ["LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"]
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        process.standardInput = FileHandle.nullDevice
        do { try process.run() } catch {
            throw KithError(.internal, "Could not run \(program): \(error.localizedDescription)", cause: error)
        }
        let overdue = DispatchWorkItem { process.terminate() }
        DispatchQueue.global().asyncAfter(deadline: .now() + patience, execute: overdue)
        // A few lines; whatever more there is is not waited for by anybody.
        let said = (try? output.fileHandleForReading.readToEnd()) ?? Data()
        process.waitUntilExit()
        overdue.cancel()
        return (process.terminationStatus, String(decoding: said.prefix(4_096), as: UTF8.self))
    }
}
