import KithWire

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Makes `Data` base64 in JSON and a byte string in CBOR, rather than a list of numbers.
extension Data: CBORByteString {
    package init(cborBytes: [UInt8]) { self.init(cborBytes) }
    package var cborBytes: [UInt8] { [UInt8](self) }
}
