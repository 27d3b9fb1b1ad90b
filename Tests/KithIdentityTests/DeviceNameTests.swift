import KithIdentity
import Testing

@Suite struct DeviceNameTests {
    private let id = DeviceKey().id
    private let other = DeviceKey().id

    @Test(arguments: [
        ("laptop", "Laptop"), ("laptop", "l\u{430}ptop"), ("laptop", "1aptop"), ("laptop", "Iaptop"),
        ("laptop", "lapt0p"), ("laptop", "lap\u{200B}top"), ("laptop", "lap\u{AD}top"), ("laptop", "láptop"),
        ("laptop", "ｌａｐｔｏｐ"), ("laptop", "lapto\u{3C1}"), ("modem", "rnodem"), ("window", "vvindow"),
        ("phone", "рһоոе"), ("HOME", "ΗΟΜΕ"), ("HOME", "НОМЕ"), ("nas", "ոаѕ"), ("straße", "strasse"),
        ("cafe", "cafe\u{301}"), ("desk", "ᏧᎬᏚᏦ"), ("laptop", "laptop."), ("laptop", "_laptop-"),
        ("\u{5D0}", "\u{2135}"),
    ])
    func `names that look alike are one`(name: String, lookalike: String) {
        #expect(DeviceName.skeleton(name) == DeviceName.skeleton(lookalike))
        #expect(
            DeviceName.conflict(
                of: DeviceName.Look(name: lookalike, id: id), among: [DeviceName.Look(name: name, id: other)])
                == .looksLike(name: name, id: other))
    }

    @Test(arguments: [("laptop", "laptop2"), ("büro", "burg"), ("水", "火"), ("kitchen", "chicken"), ("a", "b")])
    func `names that do not are two`(name: String, other: String) {
        #expect(DeviceName.skeleton(name) != DeviceName.skeleton(other))
    }

    @Test func `a name is not a word of the command line`() {
        for name in ["this", "THIS", "th1s", "this-device", "localhost", "\u{430}ll", id.description] {
            #expect(DeviceName.conflict(of: DeviceName.Look(name: name, id: id), among: []) == .reserved, "\(name)")
        }
        for name in ["-x", "--help", ".", "a:b", "a/b", "a@b", "a b", "a\u{202E}b", "*", "~", "$HOME"] {
            let plain = DeviceName.plain(name)
            #expect(
                plain.allSatisfy { $0.isLetter || "-_.".contains($0) } && !plain.hasPrefix("-"), "\(name): \(plain)")
        }
        // Letters that nobody sees.
        #expect(DeviceName.plain("lap\u{3164}\u{115F}top") == "laptop")
        #expect(DeviceName.plain("\u{3164}") == "device")
    }

    @Test func `a name does not begin like another device's id`() {
        let text = other.description
        let letters = text.filter { $0 != "-" }
        let folded = String(letters.prefix(7)).replacing("l", with: "1").replacing("o", with: "0")
        var names: [String] = [text, letters, String(text.prefix(11)), String(letters.prefix(10)), folded]
        names.append(String(letters.prefix(3)).uppercased())
        names.append("\(letters.prefix(5))99999")
        names.append("\(letters.prefix(6))-server")
        for name in names {
            let found = DeviceName.conflict(
                of: DeviceName.Look(name: name, id: id), among: [DeviceName.Look(name: "tv", id: other)])
            #expect(found == .looksLikeID(of: other) || found == .reserved, "\(name)")
            let ours = DeviceName.conflict(of: DeviceName.Look(name: name, id: id), among: [], ownID: other)
            let isShort = name.count < 5
            #expect(isShort ? ours == nil : ours == .looksLikeID(of: other) || ours == .reserved, "\(name)")
            // Its own id is not another's.
            let own = DeviceName.conflict(
                of: DeviceName.Look(name: name, id: other), among: [DeviceName.Look(name: "tv", id: other)])
            #expect(own == nil || own == .reserved)
        }
    }

    @Test func `this device's own name is taken`() {
        #expect(
            DeviceName.conflict(of: DeviceName.Look(name: "De5k", id: id), among: [], own: "desk") == nil)
        #expect(
            DeviceName.conflict(of: DeviceName.Look(name: "DESK", id: id), among: [], own: "desk")
                == .looksLike(name: "desk", id: nil))
    }
}
