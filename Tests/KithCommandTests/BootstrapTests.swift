import Foundation
import KithTesting
import Testing

/// `scripts/bootstrap` on a machine without Swift, with a key, a swiftly and a download of the test's own.
@Suite struct BootstrapTests {
    /// The signature that came first: by the key that the script trusts, by another, of another file, or missing.
    enum Signature: String, CaseIterable { case right, foreign, other, none }

    private static let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent().path

    private static let script = """
        set -eu
        export HOME=$PLACE/home GNUPGHOME=$PLACE/ring
        mkdir -p "$HOME" "$PLACE/bin" "$PLACE/net" "$PLACE/tree/scripts"
        mkdir -m 700 "$GNUPGHOME"
        trap 'gpgconf --kill all' EXIT
        # A swiftly that installs a Swift of its own.
        cat > "$PLACE/net/swiftly" <<'END'
        #!/bin/bash
        bin=$HOME/.local/share/swiftly/bin
        case $1 in
        init) mkdir -p "$bin"; cp "$0" "$bin/swiftly"; echo "export PATH=$bin:\\$PATH" > "$bin/../env.sh" ;;
        install)
            [[ " $* " == *" --verify "* ]] || exit 9
            printf '#!/bin/sh\\necho "Swift version 6.3"\\n' > "$bin/swift"; chmod +x "$bin/swift" ;;
        esac
        END
        chmod +x "$PLACE/net/swiftly"
        cd "$PLACE/net"
        archive=swiftly-$(uname -m).tar.gz
        tar czf "$archive" swiftly
        key() {
            gpg --batch --quiet --passphrase '' --quick-generate-key "$1" ed25519 sign never 2>/dev/null
            gpg --with-colons --list-keys "$1" | sed -n 's/^fpr:*\\([0-9A-F]*\\):$/\\1/p' | head -1
        }
        ours=$(key ours@example.org)
        theirs=$(key theirs@example.org)
        gpg --armor --export > all-keys.asc
        sign() { gpg --batch --quiet --local-user "$1" --output "$archive.sig" --detach-sign "$2"; }
        case $SIGNATURE in
        right) sign "$ours" "$archive" ;;
        foreign) sign "$theirs" "$archive" ;;
        other) echo else > other; sign "$ours" other ;;
        none) ;;
        esac
        # The network, and a Debian with everything installed.
        printf '#!/bin/sh\\nfor word; do url=$word; done\\ncp "$PLACE/net/${url##*/}" .\\n' > "$PLACE/bin/curl"
        printf '#!/bin/sh\\necho "install ok installed"\\n' > "$PLACE/bin/dpkg-query"
        printf '#!/bin/sh\\n' > "$PLACE/bin/apt-get"
        chmod +x "$PLACE"/bin/*
        sed "s/^swift_keys=.*/swift_keys=$ours/" "$ROOT/scripts/bootstrap" > "$PLACE/tree/scripts/bootstrap"
        PATH=$PLACE/bin:/usr/bin:/bin
        # The Swift of the tests is not this machine's.
        ! command -v swift || { echo "skipped: a swift is in /usr/bin"; exit 0; }
        bash "$PLACE/tree/scripts/bootstrap"
        cp "$ROOT/Makefile" "$PLACE/tree"
        printf 'show:\\n\\t@swift --version\\n' >> "$PLACE/tree/Makefile"
        make -s -C "$PLACE/tree" show
        """

    @Test(arguments: Signature.allCases)
    func `a toolchain that Swift has not signed is not run, and one that it has is gone on with`(signature: Signature)
        throws
    {
        #if os(Linux)
        for program in ["/usr/bin/gpg", "/usr/bin/make"] where !FileManager.default.isExecutableFile(atPath: program) {
            print("skipped: \(program) is not installed")
            return
        }
        let folder = try TemporaryFolder()
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/bash")
        process.arguments = ["-c", Self.script]
        process.environment = [
            "PATH": "/usr/bin:/bin", "PLACE": folder.path, "ROOT": Self.root, "SIGNATURE": signature.rawValue,
        ]
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        process.standardInput = FileHandle.nullDevice
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        let isInstalled = FileManager.default.fileExists(atPath: folder.path + "/home/.local/share/swiftly/bin/swift")
        if text.contains("skipped:") { return print(text) }
        if signature == .right {
            #expect(process.terminationStatus == 0 && isInstalled && text.hasSuffix("Swift version 6.3\n"), "\(text)")
        } else {
            #expect(process.terminationStatus != 0 && !isInstalled, "\(text)")
            #expect(text.contains(signature == .none ? "could not be downloaded" : "not signed"), "\(text)")
        }
        #endif
    }
}
