/// H.264 as files hold it: the parameter sets apart from the frames, whose units are each behind their length
/// (ISO/IEC 14496-15 §5.3.3).
struct AVCTrack: Equatable {
    /// The two parameter sets as a decoder's configuration (AVCDecoderConfigurationRecord).
    let configuration: [UInt8]

    /// Takes the parameter sets from a key frame; `nil` when it does not begin with one of each kind.
    init?(keyFrame: [UInt8]) {
        guard let units = try? H264Frame.units(of: keyFrame), units.count > 2 else { return nil }
        let (sequence, picture) = (keyFrame[units[0]], keyFrame[units[1]])
        guard Self.kind(sequence) == 7, Self.kind(picture) == 8, sequence.count >= 4 else { return nil }
        var bytes: [UInt8] = [1]
        // Profile, constraints and level, as the sequence parameter set says them.
        bytes += sequence.dropFirst().prefix(3)
        // Lengths of four bytes; one parameter set of each kind.
        bytes.append(0b1111_1100 | 3)
        bytes.append(0b1110_0000 | 1)
        bytes += Self.counted(sequence, width: 2)
        bytes.append(1)
        bytes += Self.counted(picture, width: 2)
        configuration = bytes
    }

    /// A frame's units but the parameter sets, each behind its length in four bytes; `nil` for what is not a frame.
    static func sample(_ frame: [UInt8]) -> [UInt8]? {
        guard let units = try? H264Frame.units(of: frame) else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(frame.count + 4 * units.count)
        for unit in units.map({ frame[$0] }) where kind(unit) != 7 && kind(unit) != 8 {
            bytes += counted(unit, width: 4)
        }
        return bytes.isEmpty ? nil : bytes
    }

    private static func kind(_ unit: ArraySlice<UInt8>) -> UInt8 { (unit.first ?? 0) & 0x1F }

    private static func counted(_ unit: ArraySlice<UInt8>, width: Int) -> [UInt8] {
        (0..<width).reversed().map { UInt8(truncatingIfNeeded: unit.count >> (8 * $0)) } + unit
    }
}
