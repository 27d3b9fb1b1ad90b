internal import Dispatch
internal import KithAPI
internal import KithIdentity
internal import KithQUIC
internal import KithRelayServer
internal import KithWeb
internal import KithWire

/// A parser of bytes from unknown peers, and what must hold for whatever they send.
///
/// `scripts/fuzz` feeds these from libFuzzer; the test suite replays the inputs kept in `Fuzz/`.
/// A broken promise is a trap, because that is what a fuzzer notices.
public enum FuzzTarget: String, CaseIterable, Sendable {
    /// A UDP datagram, before and after the removal of header protection with keys anybody can derive.
    case packet
    /// The frames of a decrypted packet.
    case frame
    /// Transport parameters, a client's and a server's.
    case parameters
    /// An established connection whose peer sends authentic packets with anything in them.
    case connection
    /// A whole conversation over a wire that loses, repeats, delays and damages what it carries.
    case conversation
    /// A ticket and an invitation, binary and as text.
    case ticket
    /// A datagram that was sent to the group of a local network.
    case announcement
    /// A CBOR value, and the types that cross between devices in it.
    case cbor
    /// The head of a request and of a response on a stream.
    case header
    /// The output of a remote program to the person's terminal.
    case terminal
    /// The output of a remote program on a terminal that is drawn elsewhere, by differences.
    case difference
    /// Messages, trees and commits of secure groups.
    case mls
    /// The bytes a terminal sends for keys, the mouse and pastes.
    case input
    /// The beginning of a file on another device, or all of an image, as the browser previews it.
    case preview
    /// The messages of a sender, received into a folder.
    case transfer
    /// The answers of a receiver to the sender.
    case answers
    /// The messages of a device to the caller of a shell, and a caller's acknowledgements.
    case shell
    /// Datagrams on a stream.
    case datagram
    /// The messages of a program to a proxy: SOCKS and HTTP.
    case proxy
    /// Inputs, outputs and messages of every method.
    case method
    /// Lines of JSON-RPC.
    case rpc
    /// A recording of a terminal.
    case recording
    /// Patterns of names, and settings.
    case pattern
    /// A query of the library, and the name of a file, which is the last line.
    case query
    /// The messages of a shell's caller to the device that hosts it.
    case caller
    /// A chain of X.509 certificates, as a member of a group shows it.
    case credential
    /// A certificate of a device or a root, a request for one, a revocation list.
    case certificate
    /// An envelope, a message to one key, a labelled member, or the inside of a key ring.
    case envelope
    /// Records of a groups' delivery service.
    case delivery
    /// A file of settings, and a command line it is for.
    case settings
    /// A JSON Schema, and a value that is checked by it.
    case schema
    /// A datagram of STUN, from a client or a server.
    case stun
    /// The stream on which a device says how it is reached.
    case control
    /// A DNS message.
    case dns
    /// A device's signed record, as a directory is told it.
    case record
    /// The bytes of a VNC viewer to the adapter for them.
    case vncviewer
    /// The bytes of a VNC server to the device whose screen it is.
    case vncserver
    /// The messages with the picture of a screen, from its host.
    case tiles
    /// The messages with the pointer of a screen, from its host.
    case pointer
    /// Frames of what moves on a screen, from its host.
    case video
    /// A datagram of a router: PCP, NAT-PMP, or an answer to a search by UPnP.
    case gateway
    /// An answer of a router by HTTP, with a description or SOAP inside.
    case upnp
    /// A message between a relay and its client.
    case relay
    /// What a relay and its clients send each other by TCP, before and after a key is proven: frames of WebSocket.
    case websocket
    /// Requests of anybody to the page in the browser, and what a page says to sign in.
    case web
    /// Answers of etcd to a directory, and to a relay.
    case etcd
    /// Datagrams of multicast DNS.
    case mdns
    /// What the system passes on of router advertisements.
    case advertisement
    /// A first line in the envelope of the reference, or, in two lines, a name of its operations and the parameters.
    case reference
    /// A file that is read for the library: an image, a film, sound, a document.
    case document
    /// What the process that reads files answers.
    case extraction

    /// Gives `bytes` to the parser.
    ///
    /// Blocks the thread; ``run(_:)-([UInt8])`` is for tasks.
    public func run(_ bytes: UnsafeRawBufferPointer) {
        switch self {
        case .answers, .shell, .caller, .reference:
            let (copy, done) = unsafe (Array(bytes), DispatchSemaphore(value: 0))
            Task(name: "kith fuzz") {
                await run(copy)
                done.signal()
            }
            done.wait()
        case .packet: unsafe Self.packet(bytes)
        case .frame: unsafe Self.frame(bytes)
        case .parameters: unsafe Self.parameters(bytes)
        case .conversation: unsafe FuzzedConversation.run(bytes)
        case .connection: unsafe FuzzedConnection.run(bytes)
        case .ticket: unsafe Self.ticket(Array(bytes))
        case .announcement: unsafe Self.announcement(Array(bytes))
        case .cbor: unsafe Self.cbor(Array(bytes))
        case .header: unsafe Self.header(Array(bytes))
        case .terminal: unsafe FuzzedTerminal.run(Array(bytes))
        case .difference: unsafe FuzzedDifference.run(Array(bytes))
        case .mls: unsafe FuzzedMLS.run(Array(bytes))
        case .input: unsafe FuzzedBrowser.input(Array(bytes))
        case .preview: unsafe FuzzedBrowser.preview(Array(bytes))
        case .transfer: unsafe FuzzedTransfer.land(Array(bytes))
        case .datagram: unsafe FuzzedText.datagram(Array(bytes))
        case .proxy: unsafe FuzzedText.proxy(Array(bytes))
        case .method: unsafe FuzzedMethods.run(Array(bytes))
        case .rpc: unsafe FuzzedText.rpc(Array(bytes))
        case .recording: unsafe FuzzedText.recording(Array(bytes))
        case .pattern: unsafe FuzzedText.pattern(Array(bytes))
        case .query: unsafe FuzzedText.query(Array(bytes))
        case .credential: unsafe FuzzedCredential.credential(Array(bytes))
        case .certificate: unsafe FuzzedTrust.run(Array(bytes))
        case .envelope: unsafe FuzzedEnvelopes.run(Array(bytes))
        case .delivery: unsafe FuzzedCredential.delivery(Array(bytes))
        case .settings: unsafe FuzzedSettings.run(Array(bytes))
        case .schema: unsafe FuzzedText.schema(Array(bytes))
        case .stun: unsafe FuzzedReach.stun(Array(bytes))
        case .control: unsafe FuzzedReach.control(Array(bytes))
        case .dns: unsafe FuzzedRecords.dns(Array(bytes))
        case .record: unsafe FuzzedRecords.record(Array(bytes))
        case .gateway: unsafe FuzzedPortMapping.gateway(Array(bytes))
        case .upnp: unsafe FuzzedPortMapping.upnp(Array(bytes))
        case .relay: unsafe FuzzedRelay.run(Array(bytes))
        case .websocket: unsafe FuzzedWebSocket.run(Array(bytes))
        case .web: unsafe WebInspection.feed(Array(bytes))
        case .etcd: unsafe EtcdInspection.feed(Array(bytes))
        case .mdns: unsafe FuzzedMDNS.run(Array(bytes))
        case .vncviewer: unsafe FuzzedScreen.viewer(Array(bytes))
        case .vncserver: unsafe FuzzedScreen.server(Array(bytes))
        case .tiles: unsafe FuzzedScreen.tiles(Array(bytes))
        case .pointer: unsafe FuzzedScreen.pointer(Array(bytes))
        case .video: unsafe FuzzedVideo.frames(Array(bytes))
        case .advertisement: unsafe FuzzedReach.advertisement(Array(bytes))
        case .document: unsafe FuzzedContent.document(Array(bytes))
        case .extraction: unsafe FuzzedContent.answer(Array(bytes))
        }
    }

    /// Gives `bytes` to the parser.
    public func run(_ bytes: [UInt8]) async {
        switch self {
        case .answers: await FuzzedTransfer.answer(bytes)
        case .shell: await FuzzedShell.run(bytes)
        case .caller: await FuzzedShell.host(bytes)
        case .reference: await FuzzedReference.run(bytes)
        default: unsafe bytes.withUnsafeBytes { unsafe run($0) }
        }
    }

    // MARK: - KithQUIC

    private static let keys = PacketKeys.initial(destination: [1, 2, 3, 4, 5, 6, 7, 8], isClient: false).read

    private static func packet(_ bytes: UnsafeRawBufferPointer) {
        _ = unsafe DatagramHeader(bytes)
        precondition(unsafe PacketInspection.packets(in: bytes) <= bytes.count, "A packet has a byte at least")
        guard let first = unsafe bytes.first else { return }
        // The first byte says where the packet number is taken to begin; any place must be safe.
        var packet = unsafe Array(bytes)
        unsafe packet.withUnsafeMutableBytes { packet in
            let offset = Int(first)
            guard let header = unsafe keys.unmask(packet, packetNumberOffset: offset) else { return }
            let opened = unsafe keys.open(
                packet, headerLength: offset + header.packetNumberLength, packetNumber: 7)
            precondition(opened == nil, "Nobody forges AES-GCM by chance")
        }
    }

    private static func frame(_ bytes: UnsafeRawBufferPointer) {
        // A refusal is an answer.
        if let count = unsafe try? PacketInspection.frames(in: bytes) {
            precondition(count <= bytes.count, "A frame has a byte at least")
        }
    }

    private static func parameters(_ bytes: UnsafeRawBufferPointer) {
        for fromServer in [false, true] {
            let survive = unsafe try? PacketInspection.transportParametersSurvive(Array(bytes), fromServer: fromServer)
            precondition(survive != false, "Transport parameters mean the same when written again")
        }
    }

    // MARK: - KithIdentity

    private static func ticket(_ bytes: [UInt8]) {
        if let ticket = try? Ticket(bytes: bytes) {
            precondition((try? Ticket(bytes: ticket.bytes)) == ticket, "A ticket survives its binary form")
            precondition((try? Ticket(text: ticket.text)) == ticket, "A ticket survives its text form")
        }
        if let invitation = try? Invitation(bytes: bytes) {
            precondition(
                (try? Invitation(text: invitation.text)) == invitation, "An invitation survives its text form")
        }
        if let ticket = SessionTicket(bytes) {
            precondition(SessionTicket(ticket.encoded) == ticket, "A session's ticket survives")
        }
        let text = String(decoding: bytes, as: UTF8.self)
        _ = try? Ticket(text: text)
        _ = try? Ticket(text: "kith1" + text)
        _ = try? Invitation(text: "kith-invite1" + text)
        if let id = DeviceID(text) { precondition(DeviceID(id.description) == id, "An id survives its text form") }
        if let grant = Grant(text) {
            precondition(Grant(grant.description) == grant, "A grant survives its text form")
            precondition(grant.covers(grant), "A grant covers itself")
        }
        if let address = NetworkAddress(text) {
            precondition(NetworkAddress(address.description) == address, "An address survives its text form")
        }
    }

    private static func announcement(_ bytes: [UInt8]) {
        guard let received = try? ReceivedAnnouncement(bytes) else { return }
        let claim = received.claim
        precondition(
            ReceivedAnnouncement.device(named: bytes) == claim.id || !bytes.starts(with: [0xA4]),
            "The key lies where it is looked for")
        precondition(bytes.count <= LocalAnnouncement.maxBytes, "A long announcement is refused")
        precondition(claim.addresses.count <= LocalAnnouncement.maxAddresses, "No more addresses than there may be")
        precondition(claim.lifetime <= LocalAnnouncement.maxLifetime, "No longer than it may hold")
        // The seeds are of a key that is written here; whoever fuzzes could sign by it, and does not.
        _ = received.isGenuine
    }

    // MARK: - KithWire

    private static func cbor(_ bytes: [UInt8]) {
        if let value = try? CBORDecoder().decode(AnyValue.self, from: bytes) {
            guard let written = try? CBOREncoder().encode(value) else {
                preconditionFailure("What was read can be written")
            }
            // The encoding is deterministic, so it has one form; a number may change its type, once.
            guard let again = try? CBORDecoder().decode(AnyValue.self, from: written) else {
                preconditionFailure("What was written can be read")
            }
            precondition((try? CBOREncoder().encode(again)) == written, "The second writing is the first")
        }
        _ = try? CBORDecoder().decode(DeviceID.self, from: bytes)
        _ = try? CBORDecoder().decode(Grant.self, from: bytes)
        _ = try? CBORDecoder().decode([NetworkAddress].self, from: bytes)
    }

    // MARK: - KithAPI

    private static func header(_ bytes: [UInt8]) {
        if let (header, count) = try? StreamHeader.parse(bytes) {
            precondition(count <= bytes.count, "A header ends within its bytes")
            guard let written = try? header.encoded(), let again = try? StreamHeader.parse(written) else {
                preconditionFailure("What was read can be written and read")
            }
            precondition(again.header == header && again.count == written.count, "A request survives")
        }
        if let (head, count) = try? ResponseHead.parse(bytes) {
            precondition(count <= bytes.count, "A head ends within its bytes")
            // An error message longer than the limit is cut when written; the code stays.
            guard let written = try? head.encoded(), let again = try? ResponseHead.parse(written) else {
                preconditionFailure("What was read can be written and read")
            }
            precondition(again.count == written.count, "A response survives")
        }
    }
}
