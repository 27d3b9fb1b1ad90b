import KithAPI
import Testing

@Suite struct ModeTextTests {
    @Test(arguments: [
        (Files.Kind.file, nil as Files.Special?, 0o644 as UInt32, "-rw-r--r--"), (.folder, nil, 0o1777, "drwxrwxrwt"),
        (.link, nil, 0o777, "lrwxrwxrwx"), (.special, .pipe, 0o600, "prw-------"), (.special, nil, 0, "?---------"),
        (.special, .socket, 0o755, "srwxr-xr-x"), (.special, .characterDevice, 0o620, "crw--w----"),
        (.special, .blockDevice, 0o660, "brw-rw----"), (.file, nil, 0o4755, "-rwsr-xr-x"),
        (.file, nil, 0o4644, "-rwSr--r--"), (.folder, nil, 0o2750, "drwxr-s---"), (.folder, nil, 0o2740, "drwxr-S---"),
        (.folder, nil, 0o1700, "drwx-----T"), (.file, nil, 0o10_0600, "-rw-------"),
    ])
    func `a mode is written as the coreutils write it`(
        kind: Files.Kind, special: Files.Special?, mode: UInt32, text: String
    ) {
        #expect(String(decoding: Files.modeText(kind, special, mode: mode), as: UTF8.self) == text)
    }
}
