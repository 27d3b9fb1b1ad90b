// What `import Kith` alone brings.

import Kith

func openAtRelay() async throws {
    guard let relay = RelayAddress("https://relay.example.org"), let nas = HostAndPort("nas.example.org:4433") else {
        return
    }
    var options = Device.Options()
    options.relays = [relay]
    options.peerHosts = ["nas": [nas]]
    options.proxy = .none
    let device = try await Device.open(directory: "/var/lib/ana", options: options)
    print(device.id)
}

// MARK: - Services of ours

func forward(by client: Client) async throws {
    let forwards = ForwardSet([try Forward.Rule(.local, parsing: "8080:localhost:80")])
    try await forwards.whileUp(to: "laptop", client: client) { running in
        print(running.rules.flatMap(\.listening))
    }
}

func run(by client: Client) async throws {
    let session = try await ShellSession.open(.init(commandLine: "make test"), on: "laptop", client: client)
    try await session.endInput()
    for try await event in session.events {
        switch event {
        case .output(let bytes), .errorOutput(let bytes): print(String(decoding: bytes, as: UTF8.self))
        case .exited(let exit): print(exit.shellStatus)
        default: break
        }
    }
}
