import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithSocket

/// `kith complete`: what the scripts ask.
///
/// `kith complete bash -- LINE REPLACED`, `kith complete zsh|fish -- CURRENT WORD…`.
struct CompleteCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "complete", abstract: "Print what can stand at the cursor; for the scripts of `kith completions`.",
        shouldDisplay: false)

    @Argument(parsing: .captureForPassthrough)
    var words: [String] = []

    func run() async throws {
        guard words.count >= 3, words[1] == "--", let shell = CompletionScript(rawValue: words[0]) else {
            throw ValidationError("This command is for the scripts that `kith completions` prints.")
        }
        let rest = Array(words.dropFirst(2))
        let line = shell == .bash ? ShellLine(rest[0]) : nil
        var before = line.map { Array($0.words.dropFirst()) } ?? Array(rest.dropFirst())
        let current = line?.current ?? rest[0]
        // Settings that cannot be read are for other commands to complain about.
        let settings = try? Settings.load(arguments: before)
        var completion = Completion(words: before, current: current, root: try Root.description())
        if before.first == "help" { before.removeFirst() }
        // Whatever hangs, the person at the keyboard does not.
        let (replaced, known) = (rest.count > 1 ? rest[1] : "", completion)
        Thread.detachNewThread {
            Thread.sleep(forTimeInterval: 0.5)
            for line in shell.lines(known, line: line, replaced: replaced) { printLine(line) }
            leave(0)
        }
        for source in completion.sources {
            switch source {
            case .devices, .devicesForPaths:
                var devices = (settings?.configuration.aliases ?? []).map { name in
                    (name, settings?.configuration.meaning(of: name).map { "means \($0.name)" } ?? "")
                }
                devices += await devicesKnown(to: before)
                completion.add(devices: devices, withColon: source == .devicesForPaths)
            case .remote(let device, let folder, let prefix):
                let name = settings?.configuration.meaning(of: device)?.name ?? device
                completion.add(names: await names(in: folder, prefix, on: name, before))
            case .files where shell == .bash, .folders where shell == .bash:
                addLocalNames(to: &completion, foldersOnly: source == .folders)
            case .members(let method, let device):
                let name = device.map { settings?.configuration.meaning(of: $0)?.name ?? $0 }
                completion.add(members: await members(of: method, on: name, before))
            case .files, .folders: break
            }
        }
        for line in shell.lines(completion, line: line, replaced: replaced) { printLine(line) }
        leave(0)
    }

    private static let patience = Duration.milliseconds(200)

    /// The daemon, if one runs.
    private func daemon(_ words: [String]) async -> (client: Client, carrier: SocketCarrier)? {
        var data: [String] = []
        if let place = words.firstIndex(of: "--data"), place + 1 < words.count { data = ["--data", words[place + 1]] }
        // No daemon, no names: nothing to say about it in the middle of somebody's typing.
        guard let globals = try? GlobalOptions.parse(data),
            let carrier = try? await SocketCarrier.connect(directory: globals.directory)
        else { return nil }
        return (Client(carrier), carrier)
    }

    private func devicesKnown(to words: [String]) async -> [(name: String, help: String)] {
        guard let (client, carrier) = await daemon(words) else { return [] }
        defer { carrier.close() }
        let devices = try? await client.call(
            Devices.List.self, Devices.List.Input(probe: false), options: CallOptions(timeout: Self.patience))
        return (devices ?? []).map {
            ($0.name, $0.isOnline ? "online" : "seen " + ($0.lastSeen.map { relative($0) } ?? "never"))
        }
    }

    private func names(
        in folder: String, _ prefix: String, on device: String, _ words: [String]
    ) async -> [(name: String, isFolder: Bool)] {
        guard let (client, carrier) = await daemon(words) else { return [] }
        defer { carrier.close() }
        let deadline = ContinuousClock.now + Self.patience
        var found: [(String, Bool)] = []
        var last: Files.Path?
        while found.count < 1_000 {
            let left = deadline - ContinuousClock.now
            guard left > .zero,
                let page = try? await client.call(
                    Files.List.self, Files.List.Input(path: Files.Path(folder.isEmpty ? "~" : folder), after: last),
                    on: device, options: CallOptions(timeout: left))
            else { break }
            for entry in page.entries {
                guard Files.Path.isName(entry.name.bytes),
                    let name = String(bytes: entry.name.bytes, encoding: .utf8), name.hasPrefix(prefix)
                else {
                    continue
                }
                found.append((name, entry.kind == .folder))
            }
            last = page.entries.last?.name
            guard page.hasMore, last != nil else { break }
        }
        return found
    }

    /// The members of a method's input, each with what it is: as declared here, else as the device says that is asked.
    private func members(
        of method: String, on device: String?, _ words: [String]
    ) async -> [(name: String, help: String)] {
        var document = OpenRPC(describing: API.methods.filter { $0.name == method })
        if document.methods.isEmpty {
            guard let (client, carrier) = await daemon(words) else { return [] }
            defer { carrier.close() }
            let found = try? await client.call(
                API.Document.self, .init(method: method), on: device, options: CallOptions(timeout: Self.patience))
            guard let found else { return [] }
            document = found
        }
        let params = document.methods.first { $0.name == method }?.params ?? []
        return params.map { ($0.name, document.words(for: $0.schema) + ($0.required == true ? ", required" : "")) }
    }

    /// Files of this device, for the one shell whose own cannot be mixed with other words.
    private func addLocalNames(to completion: inout Completion, foldersOnly: Bool) {
        let typed = completion.typed
        let folder = typed.lastIndex(of: "/").map { String(typed[...$0]) } ?? ""
        let path = folder.isEmpty ? "." : (folder as NSString).expandingTildeInPath
        // A folder that cannot be read has nothing to offer.
        let names = (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []
        completion.enter(folder)
        completion.add(
            names: names.sorted().map { name in
                var isFolder: ObjCBool = false
                _ = unsafe FileManager.default.fileExists(atPath: path + "/" + name, isDirectory: &isFolder)
                return (name, isFolder.boolValue)
            }, foldersOnly: foldersOnly)
    }
}
