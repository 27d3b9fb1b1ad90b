internal import KithAPI
internal import KithFiles
internal import KithWire

/// The two ends of a copy, each with a hostile peer, in a folder of their own.
enum FuzzedTransfer {
    /// Receives what a sender sends: the first byte chooses the options, the second the pieces in which the rest comes.
    static func land(_ bytes: [UInt8]) {
        guard bytes.count > 2 else { return }
        guard let folder = try? TemporaryFolder() else { preconditionFailure("A folder can be made") }
        var options = Files.ReceiveOptions()
        // Comparing what is there reads it, however large a hole it is: that takes time and finds nothing here.
        options.wholeFile = true
        options.dryRun = bytes[0] & 1 != 0
        options.delete = bytes[0] & 2 != 0
        options.exact = bytes[0] & 4 != 0
        options.report = bytes[0] & 8 != 0
        options.preserve = bytes[0] & 16 == 0
        options.overwrite = bytes[0] & 32 == 0
        options.update = bytes[0] & 64 != 0
        // A refusal is an answer.
        _ = try? TransferInspection.land(
            Array(bytes.dropFirst(2)), inPiecesOf: Int(bytes[1]) + 1, into: folder.path, options: options)
    }

    /// Three files: a small one, one of several blocks, an empty one.
    private static let source: TemporaryFolder? = {
        guard let folder = try? TemporaryFolder(),
            (try? folder.write([1, 2, 3], to: "a")) != nil,
            (try? folder.write((0..<70_000).map { UInt8(truncatingIfNeeded: $0 >> 3) }, to: "b")) != nil,
            (try? folder.write([], to: "c")) != nil
        else { return nil }
        return folder
    }()

    /// A receiver's answers to whoever sends three files.
    static func answer(_ bytes: [UInt8]) async {
        guard let source else { preconditionFailure("A folder can be made") }
        // A refusal is an answer.
        _ = try? await TransferInspection.send(source.path, answered: bytes)
    }
}
