import KithMLS

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// One case of a file.
protocol Vector: Codable, Sendable {
    /// The number of the case's suite, where it has one.
    var suite: UInt16? { get }
    /// Checks the case; `suite` is the engine's for kinds that have one.
    func verify(_ suite: any CipherSuite) throws
}

/// The official test vectors, read and verified.
public enum Vectors {
    /// Verifies one file's content.
    ///
    /// - Throws: an error of the JSON decoder when the file is not of its kind; cases that fail are in the report.
    public static func verify(_ kind: VectorKind, json: [UInt8]) throws -> VectorReport {
        switch kind {
        case .treeMath: try verify(kind, TreeMathVector.self, json)
        case .deserialization: try verify(kind, DeserializationVector.self, json)
        case .messages: try verify(kind, MessagesVector.self, json)
        case .cryptoBasics: try verify(kind, CryptoBasicsVector.self, json)
        case .secretTree: try verify(kind, SecretTreeVector.self, json)
        case .messageProtection: try verify(kind, MessageProtectionVector.self, json)
        case .keySchedule: try verify(kind, KeyScheduleVector.self, json)
        case .pskSecret: try verify(kind, PSKSecretVector.self, json)
        case .transcriptHashes: try verify(kind, TranscriptHashesVector.self, json)
        case .welcome: try verify(kind, WelcomeVector.self, json)
        case .treeOperations: try verify(kind, TreeOperationsVector.self, json)
        case .treeValidation: try verify(kind, TreeValidationVector.self, json)
        case .treeKEM: try verify(kind, TreeKEMVector.self, json)
        case .passiveClientWelcome, .passiveClientHandlingCommit, .passiveClientRandom:
            try verify(kind, PassiveClientVector.self, json)
        }
    }

    private static func verify<Case: Vector>(
        _ kind: VectorKind, _ type: Case.Type, _ json: [UInt8]
    ) throws -> VectorReport {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        var report = VectorReport(kind: kind)
        for (index, vector) in try decoder.decode([Case].self, from: Data(json)).enumerated() {
            let number = vector.suite ?? 0
            guard let suite = CipherSuites[id: CipherSuiteID(rawValue: number == 0 ? 1 : number)] else {
                report.skipped[number, default: 0] += 1
                continue
            }
            do {
                try vector.verify(suite)
                report.passed[number, default: 0] += 1
            } catch MLSError.cipherSuiteNotSupportedByMember {
                report.failures.append(
                    "\(kind.fileName)[\(index)], suite \(number): refused by RFC 9420 §7.2, as a member's leaf does not "
                        + "list the group's cipher suite among its capabilities")
            } catch {
                report.failures.append("\(kind.fileName)[\(index)], suite \(number): \(error)")
            }
        }
        return report
    }
}
