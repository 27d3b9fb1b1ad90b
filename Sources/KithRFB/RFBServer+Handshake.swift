extension RFBServer {
    /// Reads one part of the handshake (RFC 6143 §7.1 to §7.3); false when it is not whole.
    mutating func stepHandshake() throws(RFBError) -> Bool {
        switch phase {
        case .version: try readVersion()
        case .securityType: try readSecurityType()
        case .response: try readResponse()
        case .clientInit: try readClientInit()
        case .running: true
        }
    }

    private mutating func readVersion() throws(RFBError) -> Bool {
        guard let spoken = try ProtocolVersion.read(&input) else { return false }
        version = spoken
        let type: UInt8 = options.password == nil ? 1 : 2
        if version == 3 {
            output.appendInteger(UInt32(type))
            begin(type)
        } else {
            output += [1, type]
            phase = .securityType
        }
        return true
    }

    private mutating func readSecurityType() throws(RFBError) -> Bool {
        guard input.count >= 1 else { return false }
        let type = input.take(1)[0]
        guard type == (options.password == nil ? 1 : 2) else {
            throw .malformed("a security type is one of those offered")
        }
        begin(type)
        // Only from 3.8 on is there a result where no password was asked for (§7.1.3).
        if type == 1, version == 8 { output.appendInteger(UInt32(0)) }
        return true
    }

    private mutating func begin(_ type: UInt8) {
        if type == 2 {
            output += challenge
            phase = .response
        } else {
            phase = .clientInit
        }
    }

    private mutating func readResponse() throws(RFBError) -> Bool {
        guard input.count >= 16 else { return false }
        let response = input.take(16)
        let expected = DES.response(to: challenge, password: options.password ?? [])
        // Takes as long for every wrong answer.
        let difference = zip(response, expected).reduce(UInt8(0)) { $0 | $1.0 ^ $1.1 }
        guard difference == 0 else {
            let reason = "The password is wrong."
            output.appendInteger(UInt32(1))
            if version == 8 {
                output.appendInteger(UInt32(reason.utf8.count))
                output += Array(reason.utf8)
            }
            throw .authenticationFailed(reason: reason)
        }
        output.appendInteger(UInt32(0))
        phase = .clientInit
        return true
    }

    private mutating func readClientInit() throws(RFBError) -> Bool {
        guard input.count >= 1 else { return false }
        let isShared = input.take(1)[0] != 0
        viewerBounds = bounds
        output.appendInteger(UInt16(bounds.width))
        output.appendInteger(UInt16(bounds.height))
        RFBPixelFormat.xrgb.append(to: &output)
        let name = Array(options.name.utf8.prefix(options.limits.text))
        output.appendInteger(UInt32(name.count))
        output += name
        phase = .running
        damage = RFBRegion(bounds)
        events.append(.connected(isShared: isShared))
        return true
    }
}
