import KithIdentity
import Testing

@Suite struct SealingTests {
    @Test func `what a device seals opens for it alone, unchanged, and for the same purpose`() {
        let (key, other) = (DeviceKey(), DeviceKey())
        let sealed = key.seal([1, 2, 3], "a")
        #expect(sealed.count == 3 + 28 && sealed != key.seal([1, 2, 3], "a"))
        #expect(key.unseal(sealed, "a") == [1, 2, 3])
        #expect(key.unseal(key.seal([], "a"), "a") == [])
        #expect(key.unseal(sealed, "b") == nil && other.unseal(sealed, "a") == nil)
        for index in sealed.indices {
            var changed = sealed
            changed[index] ^= 1
            #expect(key.unseal(changed, "a") == nil)
        }
        for count in 0..<sealed.count { #expect(key.unseal(Array(sealed[..<count]), "a") == nil) }
    }
}
