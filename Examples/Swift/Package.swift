// swift-tools-version: 6.3
import PackageDescription

// What an application does with Kith, from outside: only products, only what is public. `scripts/examples` builds and runs
// them all.
let package = Package(
    name: "examples",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "kith", path: "../.."),
        .package(url: "https://github.com/apple/swift-asn1", from: "1.7.4"),
        .package(url: "https://github.com/apple/swift-certificates", from: "1.21.1"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
    ],
    targets: [
        .executableTarget(name: "ListFiles", dependencies: [.product(name: "Kith", package: "kith")]),
        // The snippets of README, word for word; only built.
        .executableTarget(name: "Readme", dependencies: [.product(name: "Kith", package: "kith")]),
        // Those of the documentation comments, likewise.
        .target(
            name: "Comments",
            dependencies: [
                .product(name: "Kith", package: "kith"), .product(name: "KithClient", package: "kith"),
                .product(name: "KithNode", package: "kith"), .product(name: "KithTelemetry", package: "kith"),
                .product(name: "KithGroups", package: "kith"), .product(name: "KithMLS", package: "kith"),
                .product(name: "KithStore", package: "kith"), .product(name: "KithTrust", package: "kith"),
            ]),
        // What the next four begin with.
        .target(name: "TwoDevices", dependencies: [.product(name: "Kith", package: "kith")]),
        .executableTarget(name: "MathService", dependencies: ["TwoDevices", .product(name: "Kith", package: "kith")]),
        .executableTarget(name: "Chat", dependencies: ["TwoDevices", .product(name: "Kith", package: "kith")]),
        .executableTarget(
            name: "Sensor",
            dependencies: [
                "TwoDevices", .product(name: "Kith", package: "kith"), .product(name: "KithTrust", package: "kith"),
            ]),
        .executableTarget(name: "Enrolment", dependencies: ["TwoDevices", .product(name: "Kith", package: "kith")]),
        .executableTarget(name: "QUICEcho", dependencies: [.product(name: "KithNet", package: "kith")]),
        .executableTarget(
            name: "MLSChat",
            dependencies: [
                .product(name: "KithGroups", package: "kith"), .product(name: "KithStore", package: "kith"),
            ]),
        .executableTarget(
            name: "X509Member",
            dependencies: [
                .product(name: "KithGroups", package: "kith"), .product(name: "KithMLSX509", package: "kith"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ]),
    ],
    swiftLanguageModes: [.v6]
)
