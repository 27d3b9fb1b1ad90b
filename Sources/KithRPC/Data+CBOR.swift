import KithWire

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// In JSON base64, in CBOR a byte string: as long as it is, not as a list of numbers.
extension Data: CBORByteString {
    package init(cborBytes: [UInt8]) { self.init(cborBytes) }
    package var cborBytes: [UInt8] { [UInt8](self) }
}
