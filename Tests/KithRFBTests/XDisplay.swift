import Foundation
import KithRFB
import KithTesting

/// An X server that a test starts, and the programs on it.
final class XDisplay {
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    /// Its name, as `DISPLAY` has it.
    let name: String
    private let server: ChildProcess
    private var programs: [ChildProcess] = []

    /// Starts `program`, an X server that writes its number to its output (`-displayfd 1`).
    init(_ program: String, _ arguments: [String]) throws {
        server = try ChildProcess(program, ["-displayfd", "1"] + arguments, output: .connected)
        var number = ""
        while let byte = try server.output?.read(upToCount: 1), let character = byte.first, character != 10 {
            number.append(Character(Unicode.Scalar(character)))
        }
        guard Int(number) != nil else { throw Failure(description: "\(program) did not start") }
        name = ":\(number)"
    }

    deinit {
        for program in programs { program.kill() }
        server.kill()
    }

    /// Starts a program on it that is ended with it.
    @discardableResult
    func start(_ program: String, _ arguments: [String]) throws -> ChildProcess {
        let process = try ChildProcess(
            "/usr/bin/env", [program] + arguments, environment: ["DISPLAY": name], output: .nothing)
        programs.append(process)
        return process
    }

    /// Runs a program on it to its end.
    @discardableResult
    func run(_ program: String, _ arguments: [String]) throws -> Int32 {
        try ChildProcess("/usr/bin/env", [program] + arguments, environment: ["DISPLAY": name]).waitUntilExit()
    }

    /// What it shows, by `xwd`.
    func picture() throws -> RFBFrameBuffer {
        let process = try ChildProcess(
            "/usr/bin/env", ["xwd", "-root", "-silent"], environment: ["DISPLAY": name], output: .connected)
        let bytes = [UInt8](try process.output?.readToEnd() ?? Data())
        process.waitUntilExit()
        // The head is 25 numbers of 32 bits, most significant byte first (X11/XWDFile.h).
        func number(_ index: Int) -> Int { bytes[index * 4..<index * 4 + 4].reduce(0) { $0 << 8 | Int($1) } }
        guard bytes.count > 100, number(11) == 32, number(7) == 0 else {
            throw Failure(description: "xwd gave no picture of 32 bits")
        }
        let (width, height, row) = (number(4), number(5), number(12))
        let start = number(0) + number(19) * 12
        guard row % 4 == 0, bytes.count >= start + row * height else {
            throw Failure(description: "xwd gave less than a picture")
        }
        // The least significant byte comes first, as in memory here.
        var colors = [UInt32](repeating: 0, count: width * height)
        colors.withUnsafeMutableBytes { target in
            bytes.withUnsafeBytes { source in
                for y in 0..<height {
                    UnsafeMutableRawBufferPointer(rebasing: target[(y * width * 4)..<((y + 1) * width * 4)]).copyBytes(
                        from: source[(start + y * row)..<(start + y * row + width * 4)])
                }
            }
        }
        var frame = try RFBFrameBuffer(width: width, height: height)
        frame.write(colors, into: frame.bounds)
        return frame
    }

    /// Shows a picture in the upper left corner, above all windows, by `xwud`; returns when it is there.
    func show(_ frame: RFBFrameBuffer, in folder: TemporaryFolder) throws {
        let head: [UInt32] = [
            101, 7, 2, 24, UInt32(frame.width), UInt32(frame.height), 0, 0, 32, 0, 32, 32, UInt32(frame.width * 4), 4,
            0xFF0000, 0xFF00, 0xFF, 8, 256, 0, UInt32(frame.width), UInt32(frame.height), 0, 0, 0,
        ]
        var bytes: [UInt8] = []
        for number in head { bytes += ReferenceEncoders.u32(Int(number)) }
        bytes.append(0)
        for y in 0..<frame.height {
            for x in 0..<frame.width { bytes += ReferenceEncoders.pixel(frame[x, y]) }
        }
        let name = "picture-\(UInt32.random(in: 0...UInt32.max)).xwd"
        try folder.write(bytes, to: name)
        try start("xwud", ["-geometry", "+0+0", "-in", "\(folder.path)/\(name)"])
        let end = ContinuousClock.now + .seconds(60)
        var difference = ""
        repeat {
            difference = try picture().differences(from: frame)
        } while difference != "" && ContinuousClock.now < end
        guard difference == "" else { throw Failure(description: "xwud did not show a picture: \(difference)") }
    }

    /// Tells whether all these programs are there; says which of them is not.
    static func has(_ programs: String..., package: String) -> Bool {
        let path = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
        for program in programs
        where !path.contains(where: { FileManager.default.isExecutableFile(atPath: "\($0)/\(program)") }) {
            print("skipped: \(program) is not installed (Debian's \(package))")
            return false
        }
        return true
    }
}
