extension RFBClient {
    /// Reads one part of the handshake (RFC 6143 §7.1, §7.3); false when it is not whole.
    mutating func stepHandshake() throws(RFBError) -> Bool {
        switch phase {
        case .version: try readVersion()
        case .securityType: try readSecurityType()
        case .securityTypes: try readSecurityTypes()
        case .challenge: try readChallenge()
        case .result: try readResult()
        case .reason(let isAuthentication): try readReason(isAuthentication)
        case .serverInit: try readServerInit()
        case .running: true
        }
    }

    private mutating func readVersion() throws(RFBError) -> Bool {
        guard let offered = try ProtocolVersion.read(&input) else { return false }
        version = min(offered, options.version >= 8 ? 8 : options.version == 7 ? 7 : 3)
        output += Array("RFB 003.00\(version)\n".utf8)
        phase = version == 3 ? .securityType : .securityTypes
        return true
    }

    /// Version 3.3: the server decides.
    private mutating func readSecurityType() throws(RFBError) -> Bool {
        guard input.count >= 4 else { return false }
        let type = input.u32(at: 0)
        input.skip(4)
        switch type {
        case 0: phase = .reason(isAuthentication: false)
        case 1: try sendClientInit()
        case 2: try awaitChallenge()
        default: throw .unsupportedSecurity([UInt8(clamping: type)])
        }
        return true
    }

    private mutating func readSecurityTypes() throws(RFBError) -> Bool {
        guard input.count >= 1 else { return false }
        let count = Int(input[0])
        guard count > 0 else {
            input.skip(1)
            phase = .reason(isAuthentication: false)
            return true
        }
        guard input.count >= 1 + count else { return false }
        input.skip(1)
        let types = input.take(count)
        if types.contains(2), options.password != nil || !types.contains(1) {
            guard options.password != nil else { throw .passwordNeeded }
            output.append(2)
            try awaitChallenge()
        } else if types.contains(1) {
            output.append(1)
            // Only from 3.8 on is there a result where no password was asked for (§7.1.3).
            if version == 8 { phase = .result } else { try sendClientInit() }
        } else {
            throw .unsupportedSecurity(types)
        }
        return true
    }

    private mutating func awaitChallenge() throws(RFBError) {
        guard options.password != nil else { throw .passwordNeeded }
        phase = .challenge
    }

    private mutating func readChallenge() throws(RFBError) -> Bool {
        guard input.count >= 16 else { return false }
        output += DES.response(to: input.take(16), password: options.password ?? [])
        phase = .result
        return true
    }

    private mutating func readResult() throws(RFBError) -> Bool {
        guard input.count >= 4 else { return false }
        let result = input.u32(at: 0)
        input.skip(4)
        if result == 0 {
            try sendClientInit()
        } else if version == 8 {
            phase = .reason(isAuthentication: true)
        } else {
            throw .authenticationFailed(reason: result == 2 ? "too many attempts" : "wrong password")
        }
        return true
    }

    private mutating func readReason(_ isAuthentication: Bool) throws(RFBError) -> Bool {
        guard let reason = try readText(at: 0, field: "reason") else { return false }
        throw isAuthentication ? .authenticationFailed(reason: reason) : .refused(reason: reason)
    }

    private mutating func sendClientInit() throws(RFBError) {
        output.append(options.isShared ? 1 : 0)
        phase = .serverInit
    }

    private mutating func readServerInit() throws(RFBError) -> Bool {
        guard input.count >= 24 else { return false }
        let (width, height) = (input.u16(at: 0), input.u16(at: 2))
        // Refused before more of it is awaited. The server's own format is of no use: another is asked for.
        let frame = try RFBFrameBuffer(width: width, height: height, limit: options.limits.pixels)
        guard let name = try readText(at: 20, field: "desktop's name") else { return false }
        frameBuffer = frame
        self.name = name
        phase = .running
        events.append(.connected(name: name))
        sendPixelFormat()
        sendEncodings()
        if options.requestsUpdates { requestUpdate(of: frameBuffer.bounds, isIncremental: false) }
        return true
    }

    /// Takes what is before `offset`, a length and a text of that length; `nil` when it is not whole.
    mutating func readText(at offset: Int, field: String) throws(RFBError) -> String? {
        guard input.count >= offset + 4 else { return nil }
        let length = Int(input.u32(at: offset))
        guard length <= options.limits.text else {
            throw .tooLong(field: field, limit: options.limits.text, actual: length)
        }
        guard input.count >= offset + 4 + length else { return nil }
        input.skip(offset + 4)
        return String(decoding: input.take(length), as: UTF8.self)
    }

    private mutating func sendPixelFormat() {
        output += [0, 0, 0, 0]
        options.pixelFormat.append(to: &output)
    }

    private mutating func sendEncodings() {
        var encodings = options.encodings
        if let quality = options.quality, hasJPEG { encodings.append(.quality(min(max(quality, 0), 9))) }
        if let compression = options.compression { encodings.append(.compression(min(max(compression, 0), 9))) }
        if options.wantsCursor { encodings += [.cursor, .xCursor] }
        encodings += [
            .desktopSize, .extendedDesktopSize, .lastRect, .desktopName, .extendedKeyEvents, .extendedMouseButtons,
            .fence, .extendedClipboard,
        ]
        if options.wantsContinuousUpdates { encodings.append(.continuousUpdates) }
        // A server may send what needs it from here on.
        clipboard.allowsExtension = true
        output += [2, 0]
        output.appendInteger(UInt16(encodings.count))
        for encoding in encodings { output.appendInteger(encoding.rawValue) }
    }
}
