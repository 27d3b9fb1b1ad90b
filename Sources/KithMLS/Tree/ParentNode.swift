/// A node above leaves: a key that everybody below it holds (RFC 9420 §7.1).
public struct ParentNode: Hashable, Sendable {
    /// The node's public key.
    public var encryptionKey: HPKEPublicKey
    /// The hash of the next node above that was set at the same time (§7.9).
    public var parentHash: [UInt8]
    /// The leaves below that do not hold the key, in rising order.
    public var unmergedLeaves: [UInt32]
}

extension ParentNode: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        encryptionKey = try reader.opaque()
        parentHash = try reader.opaque()
        unmergedLeaves = try reader.list()
        for (lower, higher) in zip(unmergedLeaves, unmergedLeaves.dropFirst()) where lower >= higher {
            throw .unsortedUnmergedLeaves
        }
    }

    package func encode(into writer: inout TLSWriter) {
        writer.opaque(encryptionKey)
        writer.opaque(parentHash)
        writer.list(unmergedLeaves)
    }
}

extension RandomAccessCollection<UInt32> where Index == Int {
    /// The index of the first element that is not below `value`, in a list in rising order.
    func lowerBound(_ value: UInt32) -> Int {
        var low = startIndex
        var high = endIndex
        while low < high {
            let middle = (low + high) / 2
            if self[middle] < value { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Tells whether `value` is in a list in rising order.
    func containsSorted(_ value: UInt32) -> Bool {
        let index = lowerBound(value)
        return index < endIndex && self[index] == value
    }

    /// The part of a list in rising order that lies in a range.
    func within(_ range: Range<UInt32>) -> SubSequence {
        self[lowerBound(range.lowerBound)..<lowerBound(range.upperBound)]
    }
}
