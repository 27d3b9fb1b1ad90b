import Foundation
import KithMLS
import Testing

/// The documentation's example, which is compiled and run here.
@Suite struct DocumentationTests {
    @Test func `the example of the documentation is that of this file`() throws {
        func lines(_ text: some StringProtocol) -> [String] {
            text.split(separator: "\n").map { String($0.drop { $0 == " " }) }
        }
        let own = lines(try String(contentsOfFile: #filePath, encoding: .utf8))
        let page = URL(filePath: #filePath).appending(path: "../../../Sources/KithMLS/KithMLS.docc/KithMLS.md")
            .standardized
        let parts = try String(contentsOf: page, encoding: .utf8).components(separatedBy: "```swift\n").dropFirst()
        for part in parts {
            let example = lines(part.components(separatedBy: "```")[0])
            #expect(own.indices.contains { own[$0...].starts(with: example) }, "\(example.first ?? "")")
        }
        #expect(parts.count == 1)
    }

    @Test func `two clients meet in a group and talk`() throws {
        let (anna, ben, now) = (profile("anna"), profile("ben"), noon)
        let lifetime = Lifetime(notBefore: noon - 60, notAfter: noon + 86_400)
        let (annaKey, benKey) = (cipherSuite().generateSignatureKey(), cipherSuite().generateSignatureKey())
        let myAuthentication = TrustingAuthenticationService()
        var printed: [[UInt8]] = []
        func print(_ data: [UInt8]) { printed.append(data) }

        func example() throws {
            let suite = CipherSuites.all[0]
            let configuration = GroupConfiguration(authentication: myAuthentication)

            // Ben publishes a key package and keeps its bundle.
            let bundle = try KeyPackageBundle(suite, profile: ben, signatureKey: benKey, lifetime: lifetime)

            // Anna makes a group and adds him.
            var group = try Group(
                suite, profile: anna, signatureKey: annaKey, lifetime: lifetime, configuration: configuration)
            let output = try group.stageCommit(CommitOptions([.add(bundle.keyPackage)]), at: now)
            // … the delivery service accepts output.commit …
            _ = try group.confirmPendingCommit(at: now)
            // … only now output.welcome goes to Ben …

            // Ben joins, and both talk.
            guard case .welcome(let welcome)? = output.welcome else { return }
            var his = try Group(joining: welcome, with: bundle, configuration: configuration)
            let message = try group.encrypt(Array("hello".utf8))
            if case .application(let received) = try his.process(message) { print(received.data) }
        }
        try example()
        #expect(printed == [Array("hello".utf8)])
    }
}
