import Foundation
import Kith
import KithClient

extension Bench {
    /// A library of a hundred thousand files: put in, looked at again, and searched; beside the tools people have.
    static func library(files: Int, into report: inout Report) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "kith-bench-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        let tree = folder.appending(path: "tree")
        try makeTree(files, at: tree)
        var options = Device.Options()
        options.listens = false
        options.endpoint.bindAddresses = [NetworkAddress(ipv4: (127, 0, 0, 1), port: 0)]
        let device = try await Device.open(directory: folder.appending(path: "device").path, options: options)
        let path = tree.resolvingSymlinksInPath().path
        var lines = Report()
        try await device.whileRunning {
            let added = Meter()
            let location = try await device.client.call(Locations.Add.self, .init(path: Files.Path(path)))
            try await scan(location, device.client)
            lines.add("library: \(files) files put in", added.seconds, "s", atMost: files <= 100_000 ? 3 : nil)
            // The first pass warms the cache for everybody.
            let find = try seconds("/usr/bin/find", [path, "-printf", "%s %T@ %i\n"])
            let again = Meter()
            try await scan(location, device.client)
            lines.add("library: scanned again, nothing new", again.seconds, "s")
            if let find {
                lines.add("  find with sizes and times", find, "s")
                lines.add("  times as long as find", again.seconds / find, "times")
            }
            let database = folder.appending(path: "plocate.db").path
            let update = try seconds("/usr/sbin/updatedb.plocate", ["-l", "no", "-U", path, "-o", database])
            if let update { lines.add("  updatedb of plocate", update, "s") }
            try await search(files, device.client, into: &lines)
            let names = (0..<20).map { $0 % 2 == 0 ? "report" : "\($0 * 487 % files)" }
            if update != nil {
                try addProgram("plocate", names, into: &lines) {
                    ("/usr/bin/plocate", ["-d", database, "-i", "-l", "50", $0])
                }
            }
            try addProgram("fd", names, into: &lines) { ("/usr/bin/fdfind", ["-u", "--max-results", "50", $0, path]) }
            if let memory = residentMegabytes {
                let goal: Double? = files <= 1_000_000 ? 150 : nil
                lines.add("library: memory of the device and this benchmark", memory, "MB", atMost: goal)
            }
            // A hundred thousand contents say what more would.
            guard files <= 500_000 else { return }
            try await libraryContent(
                path, files: files, location: location, device.client, into: &lines)
        }
        report.lines += lines.lines
    }

    private static let queries = [
        "N", "holiday", "berlin garden", "report ext:pdf", "*.swift N", "kind:image sort:-modified", "nothinglikeit",
        "index_readme", "size:>100 music", "family OR paris", "ext:pdf sort:size", "garden sort:-modified", "ext:md",
    ]

    /// Times searches of several kinds, and names the kind that takes longest.
    private static func search(_ files: Int, _ client: Client, into lines: inout Report) async throws {
        var samples: [String: [Double]] = [:]
        for number in 0..<(20 * queries.count) {
            let kind = queries[number % queries.count]
            let query = kind.replacing("N", with: "\(number * 487 % files)")
            let meter = Meter()
            _ = try await client.call(Search.Find.self, .init(query: query))
            // The first of each kind reads what the others find in memory.
            if number >= queries.count { samples[kind, default: []].append(meter.seconds * 1e3) }
        }
        let all = samples.values.flatMap(\.self)
        lines.add("library: a search, p50", percentile(0.5, of: all), "ms")
        let goal: Double? = files <= 100_000 ? 5 : files == 2_000_000 ? 50 : nil
        lines.add("library: a search, p95", percentile(0.95, of: all), "ms", atMost: goal)
        let kinds = samples.mapValues { percentile(0.5, of: $0) }.sorted { $0.value > $1.value }
        for (kind, time) in kinds.prefix(3) { lines.add("  \(kind), p50", time, "ms") }
    }

    /// Times a program that searches for names, a process for each as in a shell; nothing when it is not installed.
    private static func addProgram(
        _ name: String, _ names: [String], into lines: inout Report,
        command: (_ name: String) -> (program: String, arguments: [String])
    ) throws {
        var samples: [Double] = []
        for text in names {
            let (program, arguments) = command(text)
            guard let time = try seconds(program, arguments) else { return }
            samples.append(time * 1e3)
        }
        lines.add("  \(name), a process for each, p50", percentile(0.5, of: samples), "ms")
        lines.add("  \(name), a process for each, p95", percentile(0.95, of: samples), "ms")
    }

    /// The memory that this process has, where the system says it in a file.
    static var residentMegabytes: Double? {
        // Elsewhere there is no such file, and no number.
        guard let status = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8),
            let line = status.split(separator: "\n").first(where: { $0.hasPrefix("VmRSS:") }),
            let kilobytes = line.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap({ Double($0) })
        else { return nil }
        return kilobytes / 1_024
    }

    private static func scan(_ location: Library.Location, _ client: Client) async throws {
        let stream = try await client.open(Locations.Scan.self, .init(id: location.id)).stream
        for try await progress in stream.messages where progress.isLast { return }
        throw KithError(.closed, "The scan ended early.")
    }

    /// Files with names of a few words, in folders of about seven.
    private static func makeTree(_ files: Int, at tree: URL) throws {
        let words = ["report", "holiday", "berlin", "garden", "music", "index", "readme", "family", "paris", "notes"]
        let ends = ["jpg", "pdf", "txt", "swift", "mp3", "md"]
        var folders = [tree]
        try FileManager.default.createDirectory(at: tree, withIntermediateDirectories: true)
        for number in 0..<(files / 7) {
            let parent = folders[number * 31 % min(folders.count, 2_000)]
            let folder = parent.appending(path: "\(words[number % words.count])-\(number)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
            folders.append(folder)
        }
        for number in 0..<files {
            let name = "\(words[number % 10])_\(words[number / 10 % 10]) \(number).\(ends[number % ends.count])"
            let content = Data(repeating: 120, count: number % 300)
            try content.write(to: folders[number % folders.count].appending(path: name))
        }
    }

    /// How long a program takes; `nil` when it is not installed.
    static func seconds(_ program: String, _ arguments: [String]) throws -> Double? {
        guard FileManager.default.isExecutableFile(atPath: program) else { return nil }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments = arguments
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        let meter = Meter()
        try process.run()
        process.waitUntilExit()
        return process.terminationStatus == 0 ? meter.seconds : nil
    }
}
