#if os(Linux)
import Foundation

/// What a process has that does not go by itself.
struct Remains: Equatable, CustomStringConvertible {
    var sockets = 0
    var descriptors = 0
    var threads = 0
    var description: String { "\(sockets) sockets, \(descriptors) descriptors, \(threads) threads" }

    static var now: Remains {
        get throws {
            var remains = Remains()
            let folder = "/proc/self/fd"
            for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
                // The listing's own descriptor is gone by now.
                guard let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/\(name)")
                else { continue }
                remains.descriptors += 1
                if target.hasPrefix("socket:") { remains.sockets += 1 }
            }
            remains.threads = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task").count
            return remains
        }
    }

    /// The memory in use, in KiB.
    static var memory: Int {
        get throws {
            let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
            let line = status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") }
            return line.flatMap { Int($0.filter(\.isNumber)) } ?? 0
        }
    }

    /// The growth of memory that is none, in KiB, after hundreds of cycles.
    static let memoryLimit = 16 << 10

    /// The number of times that something comes and goes; `make soak` says how often.
    ///
    /// Each time costs a twentieth of a second, or three where two devices pair and talk.
    static var cycles: Int { ProcessInfo.processInfo.environment["KITH_CYCLES"].flatMap { Int($0) } ?? 12 }
}
#endif
