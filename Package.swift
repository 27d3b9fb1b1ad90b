// swift-tools-version: 6.3
import PackageDescription

// The floors, from the bottom up (ARCHITECTURE.md). A target may use any lower floor,
// never its own, never a higher one: the check at the end of this file refuses to build otherwise.
let floors: [[Target]] = [
    // 0 Ground, on the system
    [
        .target(name: "CKithSystem"),
        // The files of the page in the browser, as bytes of the program.
        .target(name: "CKithPage", exclude: ["Page"]),
        // One header: all that programs in other languages see.
        .target(name: "CKith"),
        .systemLibrary(name: "CZstd", pkgConfig: "libzstd", providers: [.apt(["libzstd-dev"])]),
        // For kith-extract alone. One that is not installed leaves out what it is for, and fails no build.
        .systemLibrary(name: "CJPEG", pkgConfig: "libjpeg", providers: [.apt(["libjpeg-dev"])]),
        .systemLibrary(name: "CPNG", pkgConfig: "libpng", providers: [.apt(["libpng-dev"])]),
        .systemLibrary(name: "CWebP", pkgConfig: "libwebp", providers: [.apt(["libwebp-dev"])]),
        .systemLibrary(name: "CTIFF", pkgConfig: "libtiff-4", providers: [.apt(["libtiff-dev"])]),
        .systemLibrary(name: "CHEIF", pkgConfig: "libheif", providers: [.apt(["libheif-dev"])]),
        .systemLibrary(name: "CPoppler", pkgConfig: "poppler-cpp", providers: [.apt(["libpoppler-cpp-dev"])]),
        .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
        .systemLibrary(name: "CKithJPEG", pkgConfig: "libturbojpeg", providers: [.apt(["libturbojpeg0-dev"])]),
        .systemLibrary(
            name: "COpenH264", pkgConfig: "openh264", providers: [.apt(["libopenh264-dev"]), .brew(["openh264"])]),
        // For kith-viewer alone.
        .systemLibrary(
            name: "CSDL2", pkgConfig: "SDL2_ttf", providers: [.apt(["libsdl2-dev", "libsdl2-ttf-dev"])]),
        .systemLibrary(
            name: "CXCB", pkgConfig: "xcb-damage",
            providers: [
                .apt([
                    "libxcb1-dev", "libxcb-damage0-dev", "libxcb-randr0-dev", "libxcb-shm0-dev", "libxcb-xfixes0-dev",
                    "libxcb-xinput-dev", "libxcb-xkb-dev", "libxcb-xtest0-dev", "libxkbcommon-dev",
                ])
            ]),
    ],
    [
        .target(name: "KithIO", dependencies: ["CKithSystem"]),
        .target(name: "KithWire"),
        .target(
            name: "CKithMedia", dependencies: ["CJPEG", "CPNG", "CWebP", "CTIFF", "CHEIF", "CPoppler"]),
    ],
    // 1 Terms
    [
        .target(
            name: "KithIdentity",
            dependencies: [
                "KithWire", "CKithSystem",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
            ]),
        .target(name: "KithRPC", dependencies: ["KithWire"]),
        .target(name: "KithCommandLine"),
        .target(name: "CQUICCrypto", dependencies: [.product(name: "NIOSSL", package: "swift-nio-ssl")]),
    ],
    // 2 Engines
    [
        .target(
            name: "KithQUIC",
            dependencies: [
                "KithWire", "CQUICCrypto",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
            ]),
        .target(
            name: "KithReach",
            dependencies: ["KithWire", "KithIdentity", .product(name: "Crypto", package: "swift-crypto")]),
        .target(name: "KithAPI", dependencies: ["KithIO", "KithWire", "KithIdentity", "KithRPC"]),
        .target(name: "KithTerminal", dependencies: ["KithWire", "KithRPC"]),
        .target(
            name: "KithPixels",
            dependencies: ["KithWire", .target(name: "CZstd", condition: .when(platforms: [.linux], traits: ["Zstd"]))]),
        .target(name: "KithRFB", dependencies: ["KithWire", "CZlib"]),
        .target(name: "KithContent", dependencies: ["KithWire"]),
        .target(name: "KithCatalog", dependencies: ["KithWire", "KithCommandLine"]),
        .target(name: "KithMLS", dependencies: [.product(name: "Crypto", package: "swift-crypto")]),
        .target(
            name: "KithTrust",
            dependencies: [
                "KithWire", "KithIdentity",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "X509", package: "swift-certificates"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
            ]),
    ],
    // 3 Drivers
    [
        .target(name: "KithExtractor", dependencies: ["KithIO", "KithWire", "KithContent", "CKithSystem"]),
        // A program of its own: nothing else links what takes hostile files apart.
        .executableTarget(
            name: "KithExtract",
            dependencies: [
                "KithWire", "KithContent", "CKithSystem",
                .target(name: "CKithMedia", condition: .when(platforms: [.linux], traits: ["Media"])),
            ]),
        // What kith and its window's program say to each other, and what the window does by itself.
        .target(name: "KithWindow", dependencies: ["KithWire", "KithAPI", "KithPixels", "CKithSystem"]),
        .target(
            name: "KithRFBCodecs",
            dependencies: [
                "KithRFB", .target(name: "CKithJPEG", condition: .when(platforms: [.linux], traits: ["Screen"])),
            ]),
        .target(
            name: "KithVideo",
            dependencies: [
                "KithPixels", .target(name: "COpenH264", condition: .when(platforms: [.linux], traits: ["Video"])),
            ]),
        .target(name: "KithMLSVectors", dependencies: ["KithWire", "KithMLS"]),
        .target(name: "KithMLSCrypto", dependencies: ["KithMLS"]),
        .target(
            name: "KithMLSX509",
            dependencies: [
                "KithMLS",
                .product(name: "X509", package: "swift-certificates"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
            ]),
        .target(
            name: "KithGroups",
            dependencies: ["KithIO", "KithMLS", .product(name: "Crypto", package: "swift-crypto")]),
        .target(
            name: "KithNet",
            dependencies: [
                "KithIO", "KithWire", "KithIdentity", "KithQUIC", "KithReach", "KithAPI", "CKithSystem",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "X509", package: "swift-certificates"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOWebSocket", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "Logging", package: "swift-log"),
            ]),
        .target(
            name: "KithStore",
            dependencies: [
                "KithWire", "KithIdentity", "KithMLS", "CKithSystem",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
            ]),
        .target(
            name: "KithIndex",
            dependencies: [
                "KithIO", "KithWire", "KithCatalog", "KithContent", "CKithSystem",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
            ]),
        .target(
            name: "KithJobs",
            dependencies: [
                "KithIO", "KithWire", "CKithSystem",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
            ]),
        .target(
            name: "KithSocket",
            dependencies: [
                "KithIO", "KithWire", "KithRPC", "KithAPI", "CKithSystem",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
            ]),
    ],
    // 4 Node
    [
        // A program of its own: no fault of a graphics driver is in a process that has keys.
        .executableTarget(
            name: "KithViewer",
            dependencies: [
                "KithWire", "KithAPI", "KithPixels", "KithWindow",
                .target(name: "CSDL2", condition: .when(platforms: [.linux], traits: ["Viewer"])),
            ]),
        // A program of its own: it lights a screen again when the process that darkened it is gone.
        .executableTarget(
            name: "KithDark",
            dependencies: [.target(name: "CXCB", condition: .when(platforms: [.linux], traits: ["Screen"]))]),
        .target(
            name: "KithNode",
            dependencies: [
                "KithIO", "KithWire", "KithIdentity", "KithRPC", "KithCommandLine", "KithReach", "KithAPI", "KithTrust",
                "KithNet", "KithStore", "CKithSystem",
                .product(name: "Logging", package: "swift-log"),
            ]),
        // Beside the node, and ignorant of it: it calls what a client can call.
        .target(
            name: "KithCompatibility",
            dependencies: [
                "KithIO", "KithWire", "KithIdentity", "KithRPC", "KithAPI", "KithSocket",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
            ]),
        .target(name: "KithClient", dependencies: ["KithWire", "KithIdentity", "KithRPC", "KithAPI", "KithSocket"]),
    ],
    // 5 Services
    [
        .target(
            name: "KithShell",
            dependencies: [
                "KithIO", "KithWire", "KithIdentity", "KithTerminal", "KithAPI", "KithNode", "CKithSystem",
                .product(name: "Logging", package: "swift-log"),
            ]),
        .target(
            name: "KithFiles",
            dependencies: [
                "KithIO", "KithWire", "KithIdentity", "KithCatalog", "KithAPI", "KithIndex", "KithJobs", "KithNode",
                "CKithSystem",
                // Elsewhere it is not part of the system: a build must not fail for want of it.
                .target(name: "CZstd", condition: .when(platforms: [.linux], traits: ["Zstd"])),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
            ]),
        .target(
            name: "KithLibrary",
            dependencies: [
                "KithIO", "KithWire", "KithIdentity", "KithCatalog", "KithAPI", "KithIndex", "KithJobs", "KithNode",
                "KithContent", "KithExtractor", "CKithSystem",
                .product(name: "Logging", package: "swift-log"),
            ]),
        .target(
            name: "KithBrowser",
            dependencies: ["KithWire", "KithCommandLine", "KithAPI", "KithTerminal", "KithContent"]),
        .target(
            name: "KithScreen",
            dependencies: [
                "KithIO", "KithWire", "KithIdentity", "KithPixels", "KithRFB", "KithRFBCodecs", "KithVideo", "KithAPI",
                "KithSocket", "KithWindow", "KithNet", "KithNode", "CKithSystem", "CZlib",
                // Elsewhere a screen is not an X server's.
                .target(name: "CXCB", condition: .when(platforms: [.linux], traits: ["Screen"])),
                .product(name: "Logging", package: "swift-log"),
            ]),
        // Of its own, so that who embeds a device without it builds neither metrics nor tracing.
        .target(
            name: "KithTelemetry",
            dependencies: [
                "KithWire", "KithIdentity", "KithAPI", "KithNet", "KithNode",
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "Tracing", package: "swift-distributed-tracing"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ]),
        .target(
            name: "KithForward",
            dependencies: [
                "KithIO", "KithWire", "KithIdentity", "KithAPI", "KithNode", "CKithSystem",
                .product(name: "Logging", package: "swift-log"),
            ]),
    ],
    // 6 Core
    [
        .target(
            name: "Kith",
            dependencies: [
                "KithIO", "KithWire", "KithIdentity", "KithRPC", "KithReach", "KithAPI", "KithNet", "KithStore",
                "KithSocket", "KithJobs", "KithNode", "KithCompatibility", "KithShell", "KithFiles", "KithForward",
                "KithLibrary", "KithScreen", "KithExtractor",
                .product(name: "Logging", package: "swift-log"),
            ])
    ],
    // 7 Doors
    [
        .target(name: "KithC", dependencies: ["CKith", "Kith", "KithIO", "KithWire", "KithRPC", "KithAPI"]),
        // The page in the browser.
        .target(
            name: "KithWeb",
            dependencies: [
                "Kith", "KithIO", "KithWire", "KithIdentity", "KithRPC", "KithAPI", "KithNet", "KithStore", "KithNode",
                "CKithPage", "CZlib",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOWebSocket", package: "swift-nio"),
                .product(name: "Logging", package: "swift-log"),
            ]),
        // What a server for other devices runs: no device links it.
        .target(
            name: "KithRelayServer",
            dependencies: [
                "KithWire", "KithIdentity", "KithCommandLine", "KithQUIC", "KithReach", "KithNet", "CKithSystem",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "X509", package: "swift-certificates"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOWebSocket", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
            ]),
    ],
    // 8 Command
    [
        .executableTarget(
            name: "KithCommand",
            dependencies: [
                "KithIO", "Kith", "KithWire", "KithIdentity", "KithRPC", "KithAPI", "KithSocket", "KithShell",
                "KithFiles",
                "KithForward", "KithBrowser", "KithScreen", "KithWindow", "KithPixels", "KithCatalog", "KithIndex",
                "KithCommandLine",
                "KithTerminal", "KithMLS", "KithMLSVectors", "KithContent", "KithExtractor",
                "KithTrust",
                "KithGroups", "KithReach", "KithRelayServer", "KithStore", "KithTelemetry", "CKithSystem",
                .target(name: "KithWeb", condition: .when(traits: ["Web"])),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
                .product(name: "Logging", package: "swift-log"),
            ])
    ],
]

// Beside the floors: what tests use and no product links.
let testing: [Target] = [
    .target(
        name: "KithTesting",
        dependencies: [
            "KithIO", "KithWire", "KithIdentity", "KithRPC", "KithCommandLine", "KithQUIC", "KithReach", "KithAPI",
            "KithTerminal", "KithPixels", "KithVideo", "KithRFB", "KithCatalog", "KithBrowser", "KithMLS",
            "KithMLSX509", "KithTrust",
            "KithGroups", "KithNode", "KithCompatibility", "KithShell",
            "KithFiles",
            "KithForward", "KithNet", "KithRelayServer", "KithWeb",
            "KithJobs", "KithContent",
            .product(name: "Logging", package: "swift-log"),
            .product(name: "NIOCore", package: "swift-nio"),
            .product(name: "NIOEmbedded", package: "swift-nio"),
            .product(name: "NIOWebSocket", package: "swift-nio"),
        ],
        path: "Sources/KithTesting")
]

func test(_ target: String, _ more: Target.Dependency...) -> Target {
    .testTarget(
        name: "\(target)Tests",
        dependencies: [.target(name: target)] + (target == "KithWire" ? [] : ["KithWire"]) + more)
}
let crypto = Target.Dependency.product(name: "Crypto", package: "swift-crypto")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let tests: [Target] = [
    .testTarget(name: "KithIOTests", dependencies: ["KithIO", "KithTesting", "CKithSystem"]),
    test("KithWire", "KithTesting"),
    test("KithIdentity", "KithTesting", crypto),
    test(
        "KithTrust", "KithTesting", "KithIdentity", crypto, .product(name: "X509", package: "swift-certificates"),
        .product(name: "SwiftASN1", package: "swift-asn1")),
    test("KithRPC"),
    test("KithQUIC", "KithTesting", crypto),
    test("KithReach", "KithTesting", "KithIdentity", crypto),
    .testTarget(
        name: "KithAPITests", dependencies: ["KithAPI", "KithIdentity", "KithRPC", "KithTesting", "KithWire"],
        exclude: ["Golden"]),
    test("KithTerminal", "KithTesting"),
    test("KithCatalog", "KithTesting"),
    test("KithPixels", "KithTesting"),
    test("KithRFB", "KithTesting", "KithRFBCodecs"),
    test("KithWindow", "KithTesting", "KithAPI", "KithPixels", "CKithSystem"),
    // The confined programs are Linux's.
    test("KithExtractor", "KithTesting", "KithContent", "KithIO", "CKithSystem", "KithExtract"),
    .testTarget(
        name: "KithMLSTests", dependencies: ["KithMLS", "KithWire", "KithMLSVectors"], exclude: ["Golden"]),
    .testTarget(name: "KithMLSCryptoTests", dependencies: ["KithMLSCrypto"]),
    .testTarget(
        name: "KithMLSX509Tests",
        dependencies: [
            "KithMLSX509", "KithMLS", crypto, .product(name: "X509", package: "swift-certificates"),
            .product(name: "SwiftASN1", package: "swift-asn1"),
        ]),
    test(
        "KithNet", "KithIO", "KithTesting", "KithQUIC", "KithReach", "KithRelayServer", "KithIdentity", "KithAPI",
        crypto, logging,
        .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOPosix", package: "swift-nio")),
    test("KithStore", "KithIdentity", "KithMLS", "KithTesting", logging, .product(name: "GRDB", package: "GRDB.swift")),
    test(
        "KithIndex", "KithIO", "KithTesting", "KithCatalog", "KithContent", "CKithSystem", logging,
        .product(name: "GRDB", package: "GRDB.swift")),
    test("KithJobs", "KithIO", "KithTesting", logging),
    test("KithSocket", "KithTesting", "KithRPC", "KithAPI", logging),
    test("KithCompatibility", "KithTesting", "KithIdentity", "KithRPC", "KithAPI", "KithSocket", logging),
    test(
        "KithNode", "KithIO", "KithTesting", "KithIdentity", "KithAPI", "KithTrust", "KithNet", "KithStore", crypto,
        logging),
    test("Kith", "KithTesting", "KithSocket", "KithAPI", "KithRPC"),
    test(
        "KithShell", "KithTesting", "KithIdentity", "KithRPC", "KithAPI", "KithNode", "KithTerminal", "CKithSystem",
        logging),
    test(
        "KithFiles", "CKithSystem", "KithIO", "KithIdentity", "KithCatalog", "KithAPI", "KithIndex", "KithJobs",
        "KithNode", "KithTesting",
        crypto, logging),
    test(
        "KithLibrary", "KithIO", "KithIdentity", "KithAPI", "KithIndex", "KithJobs", "KithNode", "KithTesting", logging,
        .product(name: "GRDB", package: "GRDB.swift")),
    test(
        "KithScreen", "KithTesting", "KithPixels", "KithVideo", "KithRFB", "KithWindow", "CKithSystem", "KithIO",
        "KithIdentity", "KithAPI", "KithNode", logging,
        .target(name: "CXCB", condition: .when(platforms: [.linux], traits: ["Screen"]))),
    test(
        "KithTelemetry", "Kith", "KithTesting",
        .product(name: "InMemoryTracing", package: "swift-distributed-tracing"),
        .product(name: "Tracing", package: "swift-distributed-tracing"),
        .product(name: "CoreMetrics", package: "swift-metrics"), logging),
    test("KithGroups", "KithMLS", "KithIdentity", "KithStore", "KithTesting", crypto),
    test("KithBrowser", "KithAPI", "KithContent", "KithTerminal", "KithTesting"),
    test("KithForward", "KithIO", "KithIdentity", "KithAPI", "KithNode", "KithTesting", logging),
    test(
        "KithRelayServer", "KithReach", "KithIdentity", "KithNet", "KithTesting", crypto, logging,
        .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOPosix", package: "swift-nio"),
        .product(name: "NIOEmbedded", package: "swift-nio"), .product(name: "NIOWebSocket", package: "swift-nio"),
        .product(name: "GRDB", package: "GRDB.swift")),
    .testTarget(
        name: "KithWebTests",
        dependencies: [
            "KithWeb", "Kith", "KithWire", "KithIO", "KithIdentity", "KithRPC", "KithAPI", "KithStore", "KithSocket",
            "KithTesting", "CKithPage", crypto, logging,
            .product(name: "NIOCore", package: "swift-nio"),
        ],
        exclude: ["Browser"]),
    .testTarget(name: "KithCommandLineTests", dependencies: ["KithCommandLine"]),
    .testTarget(
        name: "KithCommandTests",
        dependencies: [
            "KithCommand", "KithCommandLine", "KithBrowser", "KithContent", "KithTesting", "KithWire", "KithIdentity",
            "KithAPI", "KithNet",
            "KithReach", "CKithSystem", "KithExtract", "KithViewer", "KithDark", logging,
            .target(name: "CXCB", condition: .when(platforms: [.linux], traits: ["Screen"])),
        ]),
]

// A link between two network namespaces, and networks with NATs, for tests and benchmarks; those are Linux's (Tools).
#if os(Linux)
let linkTools: [Target] = [
    .executableTarget(
        name: "kith-directory-load",
        dependencies: [
            "KithWire", "KithIdentity", "KithReach",
            .product(name: "ArgumentParser", package: "swift-argument-parser"),
            .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOPosix", package: "swift-nio"),
            .product(name: "NIOHTTP1", package: "swift-nio"),
        ],
        path: "Tools/DirectoryLoad"),
    .executableTarget(
        name: "kith-pixel-bench",
        dependencies: ["KithPixels", .target(name: "CZstd", condition: .when(platforms: [.linux], traits: ["Zstd"]))],
        path: "Tools/PixelBench"),
    .executableTarget(
        name: "kith-rfb-bench", dependencies: ["KithRFB", "KithRFBCodecs", "CZlib"], path: "Tools/RFBBench"),
    .executableTarget(
        name: "kith-screen-bench",
        dependencies: [
            "Kith", "KithAPI", "KithIdentity", "KithPixels", "KithRFB", "KithRFBCodecs", "KithScreen", "KithTesting",
            "KithWire", .target(name: "CXCB", condition: .when(platforms: [.linux], traits: ["Screen"])),
        ],
        path: "Tools/ScreenBench"),
    .executableTarget(name: "kith-link", path: "Tools/Link"),
    .executableTarget(name: "kith-confined", dependencies: ["CKithSystem"], path: "Tools/Confined"),
    .executableTarget(
        name: "kith-lab", dependencies: [.product(name: "ArgumentParser", package: "swift-argument-parser")],
        path: "Tools/Lab"),
    .executableTarget(
        name: "kith-relay-load",
        dependencies: [
            "KithIdentity", "KithNet", "KithReach",
            .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOPosix", package: "swift-nio"),
            .product(name: "NIOSSL", package: "swift-nio-ssl"),
            .product(name: "ArgumentParser", package: "swift-argument-parser"),
        ], path: "Tools/RelayLoad"),
]
let linkTests: [Target] = [
    .testTarget(
        name: "KithLinkTests",
        dependencies: [
            "kith-link", "kith-lab", "KithCommand", "KithIO", "KithTesting", "KithNet", "KithQUIC", "KithReach",
            "KithWire", "KithIdentity", "KithAPI",
            crypto, logging,
        ])
]
#else
let linkTools: [Target] = []
let linkTests: [Target] = []
#endif

// MARK: - The checks

/// Refuses a target that reaches sideways or up.
@MainActor func checkFloors() {
    var floorOf: [String: Int] = [:]
    for (floor, targets) in floors.enumerated() {
        for target in targets { floorOf[target.name] = floor }
    }
    for (floor, targets) in floors.enumerated() {
        for target in targets {
            for dependency in target.dependencies {
                let name: String
                switch dependency {
                case .targetItem(let item, _): name = item
                case .byNameItem(let item, _): name = item
                default: continue
                }
                guard let below = floorOf[name] else {
                    fatalError("\(target.name) uses \(name), which is on no floor.")
                }
                guard below < floor else {
                    fatalError(
                        "\(target.name) (floor \(floor)) may not use \(name) (floor \(below)): only lower floors.")
                }
            }
        }
    }
}
checkFloors()

let strict: [SwiftSetting] =
    [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
        .enableUpcomingFeature("InferIsolatedConformances"),
        .enableExperimentalFeature("Lifetimes"),
        .treatAllWarnings(as: .error),
    ]
let house = floors.flatMap { $0 } + testing
for target in house where !target.name.hasPrefix("C") {
    target.swiftSettings = strict + [.strictMemorySafety()]
}
for target in tests + linkTests {
    target.swiftSettings = strict
}

// The fuzzers have no main of their own without libFuzzer, so they are built only by scripts/fuzz.
let isFuzzing = Context.environment["KITH_FUZZ"] == "1"
let fuzzers: [Target] =
    isFuzzing
    ? [
        .executableTarget(
            name: "kith-fuzz", dependencies: ["KithTesting"], path: "Fuzz", exclude: ["Corpus", "Found", "Crashes"],
            sources: ["Fuzzer.swift"])
    ] : []

let package = Package(
    name: "kith",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [
        .library(name: "Kith", targets: ["Kith"]),
        .library(name: "KithTrust", targets: ["KithTrust"]),
        .library(name: "KithClient", targets: ["KithClient"]),
        .library(name: "KithNode", targets: ["KithNode"]),
        .library(name: "KithTelemetry", targets: ["KithTelemetry"]),
        .library(name: "KithNet", targets: ["KithNet"]),
        .library(name: "KithStore", targets: ["KithStore"]),
        .library(name: "KithQUIC", targets: ["KithQUIC"]),
        .library(name: "KithReach", targets: ["KithReach"]),
        .library(name: "KithMLS", targets: ["KithMLS"]),
        .library(name: "KithGroups", targets: ["KithGroups"]),
        .library(name: "KithMLSCrypto", targets: ["KithMLSCrypto"]),
        .library(name: "KithMLSX509", targets: ["KithMLSX509"]),
        // Links as libkith.so by scripts/lib, and is part of an XCFramework by scripts/xcframework.
        .library(
            name: "kith-c", type: Context.environment["KITH_STATIC"] == "1" ? .static : .dynamic,
            targets: ["KithC"]),
        .executable(name: "kith", targets: ["KithCommand"]),
        // Beside kith, which starts it to read what is in files.
        .executable(name: "kith-extract", targets: ["KithExtract"]),
        // Beside kith, which starts it to show another device's screen in a window.
        .executable(name: "kith-viewer", targets: ["KithViewer"]),
        // Beside kith, which starts it to keep its screen dark for whoever is in front of it.
        .executable(name: "kith-dark", targets: ["KithDark"]),
    ],
    traits: [
        .trait(name: "Zstd", description: "On Linux, copies compress what they send, with the system's libzstd."),
        .trait(
            name: "Media",
            description:
                "On Linux, kith-extract reads images and PDF, with those of the system's libraries that are installed."),
        .trait(
            name: "Screen", description: "On Linux, a device shows the screen of its X server, with the system's XCB."),
        .trait(
            name: "Viewer", description: "On Linux, kith-viewer shows another device's screen, with the system's SDL 2."
        ),
        .trait(
            name: "Video", description: "On Linux, what moves on a screen travels as video, with the system's OpenH264."
        ),
        .trait(name: "Web", description: "kith web: the page in the browser."),
        .default(enabledTraits: ["Zstd", "Media", "Screen", "Viewer", "Video", "Web"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        // Earlier releases lack raw public keys, and C names change inside the series.
        .package(url: "https://github.com/apple/swift-nio-ssl", exact: "2.37.6"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-certificates", from: "1.21.1"),
        .package(url: "https://github.com/apple/swift-asn1", from: "1.7.4"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.3"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: house + tests + linkTools + linkTests + fuzzers,
    swiftLanguageModes: [.v6],
    cxxLanguageStandard: .cxx17
)
