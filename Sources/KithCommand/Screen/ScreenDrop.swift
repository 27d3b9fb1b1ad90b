import KithAPI
import KithCommandLine
import KithWire

/// Files and folders that were put on the window with another device's screen, to be copied there.
struct ScreenDrop {
    typealias Report = @Sendable (String) async throws -> Void

    let device: String
    private let paths: [Files.Path]
    private var done = Files.Summary()
    /// What could not be copied: the first sentence about it, and how many there are.
    private var problems: (first: String, count: Int)?

    init(_ paths: [Files.Path], to device: String) {
        self.paths = paths
        self.device = device
    }

    /// Copies them into the home folder there, or into the one folder that is granted instead, and reports how far that
    /// is; returns what to say about it.
    ///
    /// What cannot be read keeps nothing else from being copied.
    mutating func copy(_ client: Client, _ report: Report) async throws -> String {
        try await report("Copying \(Self.name(of: paths)) to \(device)…")
        do {
            let folder = try await self.folder(client)
            for (index, path) in paths.enumerated() {
                do {
                    try await copy(path, index + 1, to: folder, client, report)
                } catch let error as KithError where !error.endsAll {
                    note(error.message)
                }
            }
            return outcome(in: folder)
        } catch let error as KithError {
            return printable(error.message)
        }
    }

    /// The folder there: the path of the home folder stands for the one that is granted instead, too.
    private func folder(_ client: Client) async throws -> Files.Path {
        do {
            let home = try await client.call(Files.Stat.self, .init(path: "~", followsLinks: true), on: device)
            return home.absolute ?? "~"
        } catch let error as KithError where error.code == .denied {
            // To write there is refused with the grant that is missing for that.
            return "~"
        }
    }

    private mutating func copy(
        _ path: Files.Path, _ number: Int, to folder: Files.Path, _ client: Client, _ report: Report
    ) async throws {
        let stream = try await client.open(
            Files.Copy.self,
            Files.Copy.Input(
                sources: [Files.Location(device: nil, path: path)],
                destination: Files.Location(device: device, path: folder), recursive: true,
                receiving: Files.ReceiveOptions(intoFolder: true))
        ).stream
        var (line, shown) = (ProgressLine(isShown: true, peer: device), "")
        let start = paths.count == 1 ? "Copying" : "Copying \(number) of \(paths.count): "
        for try await progress in stream.messages {
            for skipped in progress.skipped {
                note("Left out \(skipped.path): \(reason(skipped.failure.message, of: skipped.path))")
            }
            if let failure = progress.failure { throw failure.error }
            if let summary = progress.summary {
                done = done + summary
                return
            }
            let text = line.text(progress, at: .now, width: 80)
            if text != shown { try await report("\(start) \(text)") }
            shown = text
        }
        throw KithError(.closed, "The copy of \(Self.name(of: [path])) ended before it was whole. Put it here again.")
    }

    private mutating func note(_ problem: String) {
        problems = (problems?.first ?? printable(problem), (problems?.count ?? 0) + 1)
    }

    private func outcome(in folder: Files.Path) -> String {
        let place = "in \(printable(folder.description)) on \(device): \(Wording.size(done.bytes))."
        guard let (first, count) = problems else {
            return "\(Self.name(of: paths)) \(paths.count == 1 ? "is" : "are") \(place)"
        }
        let others = count > 1 ? " \(count - 1) more could not be copied." : ""
        let hasAny = done.files + done.unchanged + done.folders + done.links > 0
        return first + others + (hasAny ? " The rest is \(place)" : " Nothing was copied.")
    }

    /// What a person put on the window, in a few words.
    private static func name(of paths: [Files.Path]) -> String {
        guard paths.count == 1, let last = paths.first?.bytes.split(separator: UInt8(ascii: "/")).last else {
            return "\(paths.count) things"
        }
        return printable(String(decoding: last, as: UTF8.self))
    }
}

extension KithError {
    /// True when what would be copied next has no better prospects.
    fileprivate var endsAll: Bool { [.unreachable, .timedOut, .closed, .cancelled, .exhausted].contains(code) }
}
