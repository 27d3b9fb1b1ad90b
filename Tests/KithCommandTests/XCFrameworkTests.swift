import Foundation
import KithTesting
import Testing

/// `scripts/xcframework` with tools that write down how they were called, and do little else.
@Suite struct XCFrameworkTests {
    private static let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent().path

    /// A library is a text here: a line for each architecture, with its platform.
    private static let tools = [
        "swift": """
        bin=; while [ $# -gt 0 ]; do case $1 in
            --triple) triple=$2 ;; --scratch-path) scratch=$2 ;; --sdk) sdk=$2 ;; --show-bin-path) bin=1 ;;
        esac; shift; done
        mkdir -p "$scratch/release"
        if [ -n "$bin" ]; then echo "$scratch/release"; exit; fi
        [ "$KITH_STATIC" = 1 ] || exit 9
        echo "${triple%%-*} $triple $sdk" > "$scratch/release/libkith-c.a"
        """,
        "xcrun": """
        echo "/sdks/$2"
        """,
        "nm": """
        "$ROOT/scripts/c-names" "$ROOT/Sources/CKith/include/CKith.h" | grep -v "^$MISSING$" | sed 's/^/0000 T _/'
        echo '0000 T _kith_spawn'
        """,
        "lipo": """
        shift; cat=; while [ "$1" != -output ]; do cat="$cat $1"; shift; done
        cat $cat > "$2"
        """,
        // As the real one: named by platform and architectures, and only one of each.
        "xcodebuild": """
        [ "$1" = -create-xcframework ] || exit 9
        shift
        while [ $# -gt 0 ]; do case $1 in
            -library) library=$2 ;;
            -headers) pairs="$pairs $library:$2" ;;
            -output) output=$2 ;;
        esac; shift 2; done
        mkdir -p "$output"
        for pair in $pairs; do
            library=${pair%%:*}
            case $(cut -d' ' -f2 "$library") in
                *-simulator*) platform=ios variant=-simulator ;;
                *-ios*) platform=ios variant= ;;
                *) platform=macos variant= ;;
            esac
            slice=$platform-$(cut -d' ' -f1 "$library" | sort | paste -sd_ -)$variant
            case $seen in *" $platform$variant "*) echo "two libraries for $platform$variant" >&2; exit 70 ;; esac
            seen="$seen $platform$variant "
            mkdir -p "$output/$slice"
            cp "$library" "$output/$slice/"
            cp -R "${pair#*:}" "$output/$slice/Headers"
            echo "<string>$slice</string>" >> "$output/Info.plist"
        done
        """,
    ]

    /// Runs the script on a copy of what it reads.
    ///
    /// What is to be run is written here, and not by this process, whose other children may hold it open for writing.
    private static let script = """
        set -eu
        mkdir -p "$PLACE/bin" "$PLACE/tree/scripts" "$PLACE/tree/Sources/CKith/include"
        for file in Package.swift scripts/xcframework scripts/c-names Sources/CKith/include/CKith.h; do
            cp "$ROOT/$file" "$PLACE/tree/$file"
        done
        for tool in $TOOLS; do
            text=TOOL_$tool
            printf %s "${!text}" > "$PLACE/bin/$tool"
            chmod +x "$PLACE/bin/$tool"
        done
        PATH=$PLACE/bin:$PATH exec bash "$PLACE/tree/scripts/xcframework" "$PLACE/CKith.xcframework"
        """

    private func run(_ place: TemporaryFolder, missing: String = "none") throws -> (status: Int32, error: String) {
        let path = place.path
        let script = Process()
        script.executableURL = URL(filePath: "/bin/bash")
        script.arguments = ["-c", Self.script]
        script.environment = [
            "PATH": "/usr/bin:/bin", "PLACE": path, "ROOT": Self.root, "MISSING": missing,
            "TOOLS": Self.tools.keys.joined(separator: " "),
        ]
        for (name, text) in Self.tools {
            script.environment?["TOOL_\(name)"] = "#!/bin/sh\necho \"\(name) $*\" >> \"$PLACE/calls\"\n\(text)\n"
        }
        let error = Pipe()
        (script.standardOutput, script.standardError) = (FileHandle.nullDevice, error)
        try script.run()
        let text = try error.fileHandleForReading.readToEnd() ?? Data()
        script.waitUntilExit()
        return (script.terminationStatus, String(decoding: text, as: UTF8.self))
    }

    @Test func `an XCFramework has a library for each platform, the simulator's merged, with header and module`() throws
    {
        let place = try TemporaryFolder()
        let (status, error) = try run(place)
        try #require(status == 0, "\(error)")
        let framework = place.path + "/CKith.xcframework"
        let slices = ["ios-arm64", "ios-arm64_x86_64-simulator", "macos-arm64_x86_64"]
        #expect(try FileManager.default.contentsOfDirectory(atPath: framework).sorted() == ["Info.plist"] + slices)
        let header = try Data(contentsOf: URL(filePath: Self.root + "/Sources/CKith/include/CKith.h"))
        for slice in slices {
            let headers = "CKith.xcframework/\(slice)/Headers/CKith"
            #expect(try place.bytes("\(headers)/CKith.h") == Array(header))
            let map = String(decoding: try place.bytes("\(headers)/module.modulemap"), as: UTF8.self)
            #expect(map.hasPrefix("module CKith {\n    header \"CKith.h\"\n"), "\(map)")
        }
        func library(_ slice: String) throws -> String {
            String(decoding: try place.bytes("CKith.xcframework/\(slice)/libkith.a"), as: UTF8.self)
        }
        #expect(try library("ios-arm64") == "arm64 arm64-apple-ios18.0 /sdks/iphoneos\n")
        #expect(
            try library("ios-arm64_x86_64-simulator") == """
                arm64 arm64-apple-ios18.0-simulator /sdks/iphonesimulator
                x86_64 x86_64-apple-ios18.0-simulator /sdks/iphonesimulator

                """)
        #expect(
            try library("macos-arm64_x86_64") == """
                arm64 arm64-apple-macosx15.0 /sdks/macosx
                x86_64 x86_64-apple-macosx15.0 /sdks/macosx

                """)
        let calls = String(decoding: try place.bytes("calls"), as: UTF8.self).split(separator: "\n")
        func count(_ start: String) -> Int { calls.count { $0.hasPrefix(start) } }
        #expect(count("swift build -c release --product kith-c --triple ") == 10)
        #expect(count("lipo -create ") == 3 && count("xcodebuild -create-xcframework ") == 1)
        #expect(calls.last?.hasPrefix("xcodebuild ") == true)
    }

    @Test func `a library without a function of the header is none`() throws {
        let place = try TemporaryFolder()
        let (status, error) = try run(place, missing: "kith_version")
        #expect(status != 0 && error.contains("kith_version"), "\(error)")
        #expect(!FileManager.default.fileExists(atPath: place.path + "/CKith.xcframework"))
    }
}
