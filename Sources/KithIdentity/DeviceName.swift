import Foundation

/// The name of a device: text for people, chosen by whoever sets the device up, and so worth nothing as a proof.
///
/// Two names that look the same are the same, whatever they are written with; and no name looks like a ``DeviceID``.
public enum DeviceName {
    /// The most bytes of UTF-8 a name may have.
    public static let longest = 63

    /// Names that are words of the command line, or say which device they are without being one's name.
    private static let reservedSkeletons = Set(
        ["this", "this-device", "here", "self", "local", "localhost", "all", "any", "none"]
            .map(skeleton))

    /// The number of letters of a DeviceID that identify it to a person: ``DeviceID/short``, without its hyphen.
    public static let shortIDLetters = 10

    /// The number of letters from which a name is too like the beginning of another device's id.
    private static let likeness = 5

    /// A name as it may be stored: letters, digits, `-`, `_` and `.` in their plainest form (NFKC); others become `-`, and
    /// what is not to be seen goes.
    ///
    /// Names come from other devices and are typed in shells: nothing in them needs quoting.
    public static func plain(_ name: String) -> String {
        var plain = String.UnicodeScalarView()
        // Enough of it: a peer's name may be long.
        let composed = String(name.prefix(256)).precomposedStringWithCompatibilityMapping
        for scalar in composed.unicodeScalars where !isHidden(scalar) {
            let isPlain =
                scalar.properties.isAlphabetic || ("0"..."9").contains(scalar)
                || "-_.".unicodeScalars.contains(scalar)
            plain.append(isPlain ? scalar : "-")
        }
        var text = String(plain)
        while text.utf8.count > longest { text.removeLast() }
        while let first = text.first, first == "-" || first == "." { text.removeFirst() }
        return text.isEmpty ? "device" : text
    }

    /// Reduces a name to what it shares with any that a person may take it for (the idea is that of UTS #39).
    ///
    /// Case, accents and invisible characters are left out; letters of other scripts that look like one of ASCII become
    /// it; `0` is `o`, and `1`, `I` and `l` are one. Dots, hyphens, underscores and blanks at the ends do not count.
    public static func skeleton(_ name: String) -> String {
        folded(name).trimmingCharacters(in: CharacterSet(charactersIn: ".-_ "))
            .replacing("rn", with: "m").replacing("vv", with: "w")
    }

    /// A ``skeleton(_:)`` without what stands between letters: `lap-top`, `lap.top` and `lap top` are `laptop`.
    ///
    /// Such names may stand side by side, and are marked as alike.
    private static func bareSkeleton(_ name: String) -> String {
        String(skeleton(folded(name).filter { $0.isLetter || $0.isNumber }))
    }

    /// Why a device may not have a name.
    @nonexhaustive
    public enum Conflict: Hashable, Sendable {
        /// It is a word of the command line.
        case reserved
        /// It looks like the name of another device.
        case looksLike(name: String, id: DeviceID?)
        /// It is, or begins like, the id of another device.
        case looksLikeID(of: DeviceID)
    }

    /// A device's name and id as they look, worked out once.
    public struct Look: Sendable {
        /// The name of the device.
        public let name: String
        /// Its key.
        public let id: DeviceID
        fileprivate let skeleton: String
        fileprivate let bareSkeleton: String
        fileprivate let letters: String
        fileprivate let idLetters: String

        /// Works out how a device looks.
        public init(name: String, id: DeviceID) {
            self.name = name
            self.id = id
            skeleton = DeviceName.skeleton(name)
            bareSkeleton = DeviceName.bareSkeleton(name)
            letters = DeviceName.folded(DeviceName.idLetters(name).filter { $0 != "_" && $0 != "." })
            idLetters = DeviceName.folded(DeviceName.idLetters(id.description))
        }

        fileprivate func looksLikeID(of other: Look) -> Bool {
            other.idLetters.hasPrefix(letters) || beginsLike(other)
        }

        fileprivate func beginsLike(_ other: Look) -> Bool {
            zip(letters, other.idLetters).prefix { $0 == $1 }.count >= DeviceName.likeness
        }
    }

    /// Finds what is wrong with a device's name where the `others` are known and this device calls itself `own` and
    /// has the key `ownID`.
    public static func conflict(
        of look: Look, among others: [Look], own: String? = nil, ownID: DeviceID? = nil
    ) -> Conflict? {
        if reservedSkeletons.contains(look.skeleton) || DeviceID(look.name) != nil { return .reserved }
        if let own, skeleton(own) == look.skeleton { return .looksLike(name: own, id: nil) }
        // Fewer letters of it never mean this device.
        if let ownID, look.beginsLike(Look(name: "", id: ownID)) { return .looksLikeID(of: ownID) }
        for other in others where other.id != look.id {
            if other.skeleton == look.skeleton { return .looksLike(name: other.name, id: other.id) }
            if look.looksLikeID(of: other) { return .looksLikeID(of: other.id) }
        }
        return nil
    }

    /// The names among the `others`, or this device's `own`, that a name differs from in nothing but what stands between
    /// its letters.
    public static func resemblances(of look: Look, among others: [Look], own: String? = nil) -> [Conflict] {
        guard !look.bareSkeleton.isEmpty else { return [] }
        var found: [Conflict] = []
        if let own, bareSkeleton(own) == look.bareSkeleton { found.append(.looksLike(name: own, id: nil)) }
        for other in others where other.id != look.id && other.bareSkeleton == look.bareSkeleton {
            found.append(.looksLike(name: other.name, id: other.id))
        }
        return found
    }

    /// The letters of a text that is to be an id, or the beginning of one: hyphens, blanks and case do not matter.
    public static func idLetters(_ text: String) -> String {
        text.lowercased().filter { $0 != "-" && $0 != " " }
    }

    private static func isHidden(_ scalar: Unicode.Scalar) -> Bool {
        scalar.properties.isDefaultIgnorableCodePoint || scalar.properties.generalCategory == .format
    }

    private static func folded(_ name: String) -> String {
        var folded = ""
        for scalar in name.decomposedStringWithCompatibilityMapping.unicodeScalars where !isHidden(scalar) {
            switch scalar.properties.generalCategory {
            case .nonspacingMark, .enclosingMark: continue
            default: break
            }
            let small = alike[scalar] ?? alike[lowercase(scalar)] ?? scalar.properties.lowercaseMapping
            for character in small {
                switch character {
                case "0": folded.append("o")
                case "1", "i", "|": folded.append("l")
                default: folded.append(character)
                }
            }
        }
        return folded
    }

    private static func lowercase(_ scalar: Unicode.Scalar) -> Unicode.Scalar {
        let mapping = scalar.properties.lowercaseMapping.unicodeScalars
        return mapping.count == 1 ? mapping.first ?? scalar : scalar
    }

    /// Letters that look like others of ASCII, capitals only where they look like another letter than the small one.
    private static let alike: [Unicode.Scalar: String] = {
        var table: [Unicode.Scalar: String] = [:]
        for (letters, ascii) in zip(lookalikes.map(\.0), lookalikes.map(\.1)) {
            for scalar in letters.unicodeScalars { table[scalar] = ascii }
        }
        return table
    }()

    /// Cyrillic, Greek, Armenian, Cherokee, Coptic, Lisu, and the Latin letters beyond ASCII that have no decomposition.
    private static let lookalikes: [(String, String)] = [
        ("аɑαᴀꓮᎪ", "a"), ("вьƅвβʙБꓐᏴᏏ", "b"), ("сϲᴄⲥꓚᏟ", "c"), ("ԁđɗᴅꓓᎠᏧ", "d"), ("еєҽεɛəᴇꓰᎬ", "e"),
        ("ϝꞙꓝ", "f"), ("ɡցԍɢꓖᏀᏳ", "g"), ("һհħнΗʜⲏꓧᎻ", "h"), ("іӏıɩΙιɪǀꓡꓲᎥłᏞʟ", "l"), ("јϳյȷᴊꓙᎫ", "j"),
        ("кκҡқᴋⲕꓗᏦ", "k"), ("мΜϻᴍⲙꓟᎷ", "m"), ("пηոռΝɴⲛꓠ", "n"), ("оοσօөѳøᴏⲟꓳ", "o"), ("рρᴘⲣꓑᏢ", "p"),
        ("ԛզ", "q"), ("гґᴦʀꓣᏒᎡ", "r"), ("ѕꜱꓢᏚᏕ", "s"), ("тτŧᴛⲧꓔᎢ", "t"), ("υսʋᴜꓴμ", "u"), ("νѵᴠꓦᏙ", "v"),
        ("ԝшωѡաᴡꓪᎳᏔ", "w"), ("хχⲭꓫ", "x"), ("уүұγΥʏⲩꓬᎩᎽ", "y"), ("ζΖᴢꓜᏃ", "z"), ("зЗӡ", "3"), ("ч", "4"),
        ("б", "6"), ("æӕ", "ae"), ("œ", "oe"), ("ß", "ss"), ("ς", "o"),
    ]
}
