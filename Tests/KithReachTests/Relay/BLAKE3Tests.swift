import KithReach
import KithWire
import Testing

@Suite("BLAKE3") struct BLAKE3Tests {
    /// Of PyPI's blake3 1.0.11, for the input 0, 1, … 250, 0, … of each length: the hash, and the key of ``context``.
    @Test(arguments: [
        (
            0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
            "2cc39783c223154fea8dfb7c1b1660f2ac2dcbd1c1de8277b0b0dd39b7e50d7d"
        ),
        (
            1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213",
            "b3e2e340a117a499c6cf2398a19ee0d29cca2bb7404c73063382693bf66cb06c"
        ),
        (
            16, "a6a492965517a830cb75fdb713465aa465f2f098233896fea44c1d98268bf9e3",
            "2e1ad92496a1b229d732e18e74f5474bdfb92dc90736ed19bb9960fc27d962ca"
        ),
        (
            63, "e9bc37a594daad83be9470df7f7b3798297c3d834ce80ba85d6e207627b7db7b",
            "b6451e30b953c206e34644c6803724e9d2725e0893039cfc49584f991f451af3"
        ),
        (
            64, "4eed7141ea4a5cd4b788606bd23f46e212af9cacebacdc7d1f4c6dc7f2511b98",
            "a5c4a7053fa86b64746d4bb688d06ad1f02a18fce9afd3e818fefaa7126bf73e"
        ),
        (
            65, "de1e5fa0be70df6d2be8fffd0e99ceaa8eb6e8c93a63f2d8d1c30ecb6b263dee",
            "51fd05c3c1cfbc8ed67d139ad76f5cf8236cd2acd26627a30c104dfd9d3ff8a8"
        ),
        (
            128, "f17e570564b26578c33bb7f44643f539624b05df1a76c81f30acd548c44b45ef",
            "81720f34452f58a0120a58b6b4608384b5c51d11f39ce97161a0c0e442ca0225"
        ),
        (
            1023, "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11",
            "74a16c1c3d44368a86e1ca6df64be6a2f64cce8f09220787450722d85725dea5"
        ),
        (
            1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7",
            "7356cd7720d5b66b6d0697eb3177d9f8d73a4a5c5e968896eb6a689684302706"
        ),
    ])
    func `hashes and derived keys are those of another implementation`(length: Int, hash: String, key: String) {
        let input = (0..<length).map { UInt8($0 % 251) }
        #expect(Hex.encode(BLAKE3.hash(input)) == hash)
        let context = "BLAKE3 2019-12-27 16:29:52 test vectors context"
        #expect(Hex.encode(BLAKE3.derivedKey(context: context, material: input)) == key)
    }
}
