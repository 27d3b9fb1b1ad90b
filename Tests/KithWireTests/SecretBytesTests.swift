import Foundation
import KithWire
import Testing

@Suite struct SecretBytesTests {
    @Test func `what is moved is there, and no longer where it was`() {
        var bytes = [UInt8](1...200)
        let secret = SecretBytes.lasting(moving: &bytes)
        #expect(bytes == [UInt8](repeating: 0, count: 200))
        #expect(secret.count == 200 && secret.withUnsafeBytes { Array($0) } == [UInt8](1...200))
        #expect(secret.prefix(3).withUnsafeBytes { Array($0) } == [1, 2, 3])
        #expect("\(secret)" == "200 secret bytes" && Mirror(reflecting: secret).children.isEmpty)
        var nothing: [UInt8] = []
        #expect(SecretBytes.lasting(moving: &nothing).count == 0)
        // One too large for pages of its own is a secret all the same.
        #expect(SecretBytes.lasting(count: 2 << 20) { $0[5] = 1 }.withUnsafeBytes { $0[5] } == 1)
    }

    @Test func `pages of secrets are locked, in no dump, and not a child's`() throws {
        #if os(Linux)
        let unlocked = SecretBytes.unlockedCount
        let secret = SecretBytes.lasting(count: 32) { $0[0] = 1 }
        let address = secret.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) }
        let flags = try #require(Self.flags(of: address))
        // Don't dump, wipe on fork; locked, unless the limit of locked memory is reached, which is counted.
        #expect(flags.contains("dd") && flags.contains("wf"), "\(flags)")
        #expect(flags.contains("lo") || SecretBytes.unlockedCount > unlocked, "\(flags)")
        withExtendedLifetime(secret) {}
        #endif
    }

    /// The flags of the pages at an address, as /proc/self/smaps has them.
    private static func flags(of address: UInt) -> [Substring]? {
        var isThere = false
        for line in procText("/proc/self/smaps").split(separator: "\n") {
            let ends = line.prefix { $0 != " " }.split(separator: "-").compactMap { UInt($0, radix: 16) }
            if ends.count == 2 { isThere = ends[0] <= address && address < ends[1] }
            if isThere, line.hasPrefix("VmFlags:") { return line.dropFirst(8).split(separator: " ") }
        }
        return nil
    }
}

/// The text of a file of /proc, whose size nobody knows before its end.
private func procText(_ path: String) -> String {
    let descriptor = open(path, O_RDONLY)
    defer { close(descriptor) }
    var text: [UInt8] = []
    var part = [UInt8](repeating: 0, count: 1 << 16)
    while case let count = read(descriptor, &part, part.count), count > 0 { text += part[..<count] }
    return String(decoding: text, as: UTF8.self)
}
