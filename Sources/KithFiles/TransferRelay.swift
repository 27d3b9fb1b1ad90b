import KithAPI
import KithWire

/// Passes the messages of a transfer from one device to another, and the answer back.
struct TransferRelay: Sendable {
    let from: any ByteStream
    let to: any ByteStream
    let progress: TransferProgress

    /// Runs until both ends are done.
    func run() async throws -> Files.Summary {
        try await withThrowingTaskGroup(of: Files.Summary?.self) { group in
            defer { group.cancelAll() }
            group.addTask {
                try await forward()
                return nil
            }
            group.addTask { try await back() }
            while let part = try await group.next() {
                if let summary = part { return summary }
            }
            throw KithError(.closed, "The transfer ended without an acknowledgement.")
        }
    }

    private func forward() async throws {
        var parser = TransferParser()
        while let bytes = try await from.read(upTo: 256 << 10) {
            parser.feed(bytes)
            var failure: KithError?
            while let frame = try parser.next() {
                switch frame {
                case .data(let data): progress.add(bytes: data.count)
                case .file(let attributes, _): progress.begin([attributes.name])
                case .fileEnd: progress.add(files: 1)
                case .total(let bytes, let files): progress.addTotal(bytes: bytes, files: files)
                case .skipped(let skipped): progress.skip(skipped)
                case .failure(let reason): failure = reason.error
                default: break
                }
            }
            try await to.write(bytes)
            if let failure { throw failure }
        }
        try await to.finish()
    }

    private func back() async throws -> Files.Summary {
        var parser = TransferParser()
        while let bytes = try await to.read(upTo: 256 << 10) {
            try await from.write(bytes)
            parser.feed(bytes)
            while let frame = try parser.next() {
                switch frame {
                case .acknowledgement(let summary):
                    try await from.finish()
                    return summary
                case .failure(let failure): throw failure.error
                default: throw KithError(.invalid, "The other end sent what only a sender sends.")
                }
            }
        }
        throw KithError(.closed, "The other end ended the transfer without an acknowledgement.")
    }
}
