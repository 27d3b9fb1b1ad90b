/// The identifiers of the elements that are written, with the RFC's names (RFC 9559 §5, RFC 8794 §11.2).
enum MatroskaElement: UInt32 {
    // The head of every file.
    case ebml = 0x1A45_DFA3
    case ebmlVersion = 0x4286
    case ebmlReadVersion = 0x42F7
    case ebmlMaxIDLength = 0x42F2
    case ebmlMaxSizeLength = 0x42F3
    case docType = 0x4282
    case docTypeVersion = 0x4287
    case docTypeReadVersion = 0x4285
    // The Segment, and where its parts are.
    case segment = 0x1853_8067
    case void = 0xEC
    case seekHead = 0x114D_9B74
    case seek = 0x4DBB
    case seekID = 0x53AB
    case seekPosition = 0x53AC
    // The whole of it.
    case info = 0x1549_A966
    case timestampScale = 0x2A_D7B1
    case duration = 0x4489
    case dateUTC = 0x4461
    case title = 0x7BA9
    case muxingApp = 0x4D80
    case writingApp = 0x5741
    // The track.
    case tracks = 0x1654_AE6B
    case trackEntry = 0xAE
    case trackNumber = 0xD7
    case trackUID = 0x73C5
    case trackType = 0x83
    case flagLacing = 0x9C
    case defaultDuration = 0x23_E383
    case language = 0x22_B59C
    case codecID = 0x86
    case codecPrivate = 0x63A2
    case video = 0xE0
    case flagInterlaced = 0x9A
    case pixelWidth = 0xB0
    case pixelHeight = 0xBA
    case pixelCropBottom = 0x54AA
    case pixelCropRight = 0x54DD
    case colour = 0x55B0
    case matrixCoefficients = 0x55B1
    case bitsPerChannel = 0x55B2
    case range = 0x55B9
    case transferCharacteristics = 0x55BA
    case primaries = 0x55BB
    // Frames.
    case cluster = 0x1F43_B675
    case timestamp = 0xE7
    case simpleBlock = 0xA3
    // Places to jump to.
    case cues = 0x1C53_BB6B
    case cuePoint = 0xBB
    case cueTime = 0xB3
    case cueTrackPositions = 0xB7
    case cueTrack = 0xF7
    case cueClusterPosition = 0xF1
}
