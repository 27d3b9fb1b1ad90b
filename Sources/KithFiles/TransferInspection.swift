package import KithAPI
import KithIO
import KithWire

/// The two ends of a transfer, each with a peer that says what somebody made up: for fuzzers.
package enum TransferInspection {
    /// Lands in a folder of this machine what a sender says, which comes in pieces of `size` bytes.
    ///
    /// - Throws: what the other end would be told.
    package static func land(
        _ bytes: [UInt8], inPiecesOf size: Int, into folder: String, options: Files.ReceiveOptions
    ) throws -> Files.Summary? {
        let receiver = try TreeReceiver(
            try ConfinedPath(ownPath: Files.Path(folder)), options: options, answers: AnswerQueue(),
            active: ActivePartials(),
            progress: TransferProgress()
        ) {}
        _ = try receiver.take(.hello(version: TransferFrame.version, features: .confirmation))
        var parser = TransferParser(takesCompressed: true)
        for start in stride(from: 0, to: bytes.count, by: size) {
            parser.feed(Array(bytes[start..<min(start + size, bytes.count)]))
            while let frame = try parser.next() {
                if try receiver.take(frame) { return receiver.summary }
                // A sender waits for the answer before it sends what is in a file.
                if case .file = frame { try receiver.answer() }
            }
        }
        return nil
    }

    private static let disk = DiskExecutor()

    /// Sends a folder of this machine to a receiver that answers these bytes and then nothing more.
    ///
    /// - Throws: why it ended.
    package static func send(_ folder: String, answered bytes: [UInt8]) async throws -> Files.Summary {
        let pipe = Pipe()
        let source = try TreeSource(try ConfinedPath(ownPath: Files.Path(folder + "/")), recursive: true)
        return try await withThrowingTaskGroup(of: Files.Summary?.self) { group in
            defer { group.cancelAll() }
            group.addTask {
                try await Transfer.send(
                    [source], selection: Files.Selection(), compress: .never, over: pipe.left, on: disk,
                    progress: TransferProgress())
            }
            group.addTask {
                var answers: [UInt8] = []
                try TransferFrame.hello(version: TransferFrame.version, features: []).append(to: &answers)
                try await pipe.right.write(answers + bytes)
                try await pipe.right.finish()
                while try await pipe.right.read(upTo: 256 << 10) != nil {}
                return nil
            }
            while let part = try await group.next() {
                if let summary = part { return summary }
            }
            throw KithError(.closed, "The transfer ended without an acknowledgement.")
        }
    }
}
