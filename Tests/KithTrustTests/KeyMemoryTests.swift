#if os(Linux)
import Foundation
import KithIdentity
import KithWire
import Testing

@testable import KithTrust

/// Looks for secrets in the memory of this process, without leaving copies of them there.
@safe private final class MemorySearch {
    private static let page = 4_096
    private static let size = 1 << 20
    /// The bytes to look for, one after the other; then room for a part of the memory.
    private let pages: UnsafeMutableRawBufferPointer
    private var count = 0

    init() throws {
        let base = mmap(nil, Self.page + Self.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        try #require(base != MAP_FAILED)
        pages = UnsafeMutableRawBufferPointer(start: base, count: Self.page + Self.size)
    }

    /// Takes one more secret of 32 bytes.
    func add(_ secret: SecretBytes) {
        secret.withUnsafeBytes { pages[(32 * count)...].copyBytes(from: $0) }
        count += 1
    }

    /// The number of secrets that are somewhere in the memory, this search aside.
    var found: Int {
        get throws {
            let own = UInt(bitPattern: pages.baseAddress)..<(UInt(bitPattern: pages.baseAddress) + UInt(pages.count))
            let memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC)
            try #require(memory >= 0)
            defer { close(memory) }
            var found: Set<Int> = []
            let room = try #require(pages.baseAddress) + Self.page
            for line in Self.maps.split(separator: "\n") {
                let fields = line.split(separator: " ", omittingEmptySubsequences: true)
                let ends = fields[0].split(separator: "-").compactMap { UInt($0, radix: 16) }
                guard fields[1].hasPrefix("rw"), ends.count == 2 else { continue }
                // The kernel may have put others' pages beside these.
                for (low, high) in [(ends[0], min(ends[1], own.lowerBound)), (max(ends[0], own.upperBound), ends[1])] {
                    var at = low
                    while at < high {
                        let read = pread(memory, room, Int(min(UInt(Self.size), high - at)), Int(at))
                        guard read > 0 else { break }
                        for index in 0..<count where Self.has(room, read, room - Self.page + 32 * index) {
                            found.insert(index)
                        }
                        // One may lie across the end of this part.
                        at += UInt(read < Self.size ? read : read - 31)
                    }
                }
            }
            return found.count
        }
    }

    /// The parts of the memory; nobody knows the size of this file before its end.
    private static var maps: String {
        let descriptor = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)
        defer { close(descriptor) }
        var text: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 1 << 16)
        while case let count = read(descriptor, &part, part.count), count > 0 { text += part[..<count] }
        return String(decoding: text, as: UTF8.self)
    }

    private static func has(_ memory: UnsafeMutableRawPointer, _ count: Int, _ secret: UnsafeMutableRawPointer) -> Bool
    {
        // Zeros are what there is most of.
        guard let offset = (0..<32).first(where: { secret.load(fromByteOffset: $0, as: UInt8.self) != 0 }) else {
            return false
        }
        let first = Int32(secret.load(fromByteOffset: offset, as: UInt8.self))
        var at = offset
        while at < count, let hit = memchr(memory + at, first, count - at) {
            at = hit - memory + 1
            let start = at - 1 - offset
            if start + 32 <= count, memcmp(memory + start, secret, 32) == 0 { return true }
        }
        return false
    }

    deinit {
        guard let base = pages.baseAddress else { return }
        explicit_bzero(base, pages.count)
        munmap(base, pages.count)
    }
}

@Suite(.timeLimit(.minutes(4))) struct `The memory of keys` {
    /// What a ring is sealed as; `s` and `p` are left out for none.
    private struct Form: Codable, Equatable {
        struct Key: Codable, Equatable {
            var l: KeyLabel
            var k: ByteString
        }
        var v: UInt64
        var g: Int64
        var a: ByteString
        var r: ByteString?
        var n: [Key]
        var s: [Key]?
        var p: [KeyLabel]?
    }

    @Test(arguments: [false, true]) func `is written as any encoder would write it`(isFull: Bool) throws {
        let device = DeviceKey()
        var ring = KeyRing()
        var form = Form(v: 1, g: 1_000, a: ByteString(ring.agreement.scalar), n: [])
        if isFull {
            let root = RootKey()
            try ring.hold(root)
            form.r = ByteString(root.scalar)
            for number in 0..<30 {
                let network = NetworkKey(named: try KeyLabel("home \(number % 7)"))
                try ring.add(network)
                form.n.append(Form.Key(l: network.name, k: ByteString(network.key.scalar)))
            }
            let label = try KeyLabel(String(repeating: "ü", count: 32))
            let key = try ring.ensure(label).withUnsafeBytes { ByteString(Array($0)) }
            form.s = [Form.Key(l: label, k: key)]
            try ring.note(profile: label)
            form.p = [label]
        }
        let sealed = try ring.sealed(by: device, generation: 1_000)
        #expect(try device.unseal(sealed, "kith key ring 1") == CBOREncoder().encode(form))
        // And no two are alike.
        #expect(try ring.sealed(by: device, generation: 1_000) != sealed)
    }

    @Test func `holds them as long as they are needed, and not a copy longer`() async {
        // A process of its own, in which nobody else frees and takes memory.
        await #expect(processExitsWith: .success) {
            let search = try MemorySearch()
            func use() throws -> [UInt8] {
                let device = DeviceKey()
                var ring = KeyRing()
                try ring.hold(RootKey())
                try ring.add(NetworkKey(named: KeyLabel("home")))
                // As many as need more memory again and again while they are written.
                for number in 0..<40 { search.add(try ring.ensure(KeyLabel("backup \(number)"))) }
                let sealed = try ring.sealed(by: device, generation: 1)
                let opened = try KeyRing(sealed, by: device, generation: 1)
                let root = try #require(opened.root)
                let profile = try root.profileKey(KeyLabel("work"))
                let message = try profile.publicKey.seal([1, 2, 3], authenticating: [])
                try #require(try profile.open(message, authenticating: []) == [1, 2, 3])
                for secret in [root.secret, opened.agreement.secret, profile.secret] { search.add(secret) }
                for network in opened.networks { search.add(network.key.secret) }
                let found = try search.found
                #expect(found == 44, "the search found \(found) of 44 that are there")
                return sealed
            }
            let sealed = try use()
            let found = try search.found
            #expect(found == 0, "\(found) of 44 are still there")
            withExtendedLifetime(sealed) {}
        }
    }
}
#endif
