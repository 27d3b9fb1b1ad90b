public import KithMLS

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

extension Vectors {
    /// Makes a file of vectors with fresh values, for other implementations to check this one by.
    ///
    /// A seed repeats the choices: sizes, orders, labels, plain bytes. Keys, nonces and signatures come from the
    /// system's source and are new each time.
    ///
    /// `count` is the number of cases for each suite, of kinds without suites in all; nil for the kind's usual number.
    public static func generate(
        _ kind: VectorKind, suites: [any CipherSuite] = CipherSuites.all, count: Int? = nil, seed: UInt64
    ) throws -> [UInt8] {
        let count = count ?? kind.usualCount
        var draw = Draw(seed: seed)
        func cases<Case: Vector>(
            _ make: (any CipherSuite, Int, inout Draw) throws -> Case
        ) throws -> [UInt8] {
            var cases: [Case] = []
            for suite in kind.hasSuites ? suites : Array(suites.prefix(1)) {
                for index in 0..<count { cases.append(try make(suite, index, &draw)) }
            }
            let encoder = JSONEncoder()
            encoder.keyEncodingStrategy = .convertToSnakeCase
            encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
            return [UInt8](try encoder.encode(cases))
        }
        return switch kind {
        case .treeMath: try cases { _, index, _ in TreeMathVector.make(index) }
        case .deserialization: try cases { _, index, draw in DeserializationVector.make(index, &draw) }
        case .messages: try cases { suite, _, draw in try MessagesVector.make(suite, &draw) }
        case .cryptoBasics: try cases { suite, _, draw in try CryptoBasicsVector.make(suite, &draw) }
        case .secretTree: try cases { suite, index, draw in try SecretTreeVector.make(suite, index, &draw) }
        case .messageProtection: try cases { suite, _, draw in try MessageProtectionVector.make(suite, &draw) }
        case .keySchedule: try cases { suite, _, draw in try KeyScheduleVector.make(suite, &draw) }
        case .pskSecret: try cases { suite, index, draw in try PSKSecretVector.make(suite, index, &draw) }
        case .transcriptHashes: try cases { suite, _, draw in try TranscriptHashesVector.make(suite, &draw) }
        case .welcome: try cases { suite, _, draw in try WelcomeVector.make(suite, &draw) }
        case .treeOperations: try cases { suite, index, draw in try TreeOperationsVector.make(suite, index, &draw) }
        case .treeValidation: try cases { suite, index, draw in try TreeValidationVector.make(suite, index, &draw) }
        case .treeKEM: try cases { suite, index, draw in try TreeKEMVector.make(suite, index, &draw) }
        case .passiveClientWelcome:
            try cases { suite, index, draw in try PassiveClientVector.make(suite, index, epochs: 0, &draw) }
        case .passiveClientHandlingCommit:
            try cases { suite, index, draw in try PassiveClientVector.make(suite, index, epochs: 2, &draw) }
        case .passiveClientRandom:
            try cases { suite, index, draw in try PassiveClientVector.make(suite, index, epochs: 40, &draw) }
        }
    }
}

extension VectorKind {
    /// True when there are cases for each cipher suite.
    var hasSuites: Bool { self != .treeMath && self != .deserialization }

    /// The default number of cases for each suite.
    var usualCount: Int {
        switch self {
        case .cryptoBasics, .keySchedule, .messageProtection, .transcriptHashes, .welcome, .passiveClientRandom: 1
        case .secretTree: 3
        case .messages, .treeOperations: 5
        case .treeKEM, .treeValidation, .passiveClientWelcome, .passiveClientHandlingCommit: 8
        case .treeMath: 10
        case .pskSecret: 11
        case .deserialization: 14
        }
    }

    /// The most cases that can be asked for; trees of a math case double with each.
    public var largestCount: Int { self == .treeMath ? 16 : 1_000 }
}
