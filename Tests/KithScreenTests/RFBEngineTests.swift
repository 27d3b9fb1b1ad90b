import KithAPI
import KithRFB
import KithWire
import Testing

@testable import KithScreen

/// What decides, without sockets.
@Suite struct RFBEngineTests {
    @Test(arguments: [
        ("vnc://localhost:5901", "vnc localhost:5901", true), ("vnc://127.0.0.1", "vnc 127.0.0.1:5900", true),
        ("vnc://[::1]:5902/", "vnc [::1]:5902", true), ("vnc://desk.lan:5901", "vnc desk.lan:5901", false),
        ("vnc://192.0.2.7", "vnc 192.0.2.7:5900", false),
    ])
    func `a server is read as it is typed, and one elsewhere is warned of`(
        text: String, name: String, isLoopback: Bool
    ) throws {
        guard case .vnc(let address) = try ScreenOrigin(parsing: text) else {
            Issue.record("\(text) is no server")
            return
        }
        #expect(address.description == name && address.isLoopback == isLoopback)
        #expect((ScreenOrigin.vnc(address).warning == nil) == isLoopback)
    }

    @Test(arguments: [
        "vnc://", "vnc:localhost", "vnc://me:secret@localhost", "vnc://localhost:0", "vnc://localhost:70000",
        "vnc://a:1:2", "vnc://[::1", "vnc://a/b", "vnc://a b",
    ])
    func `what is not a server is refused`(text: String) {
        #expect(throws: KithError.self) { try ScreenOrigin(parsing: text) }
    }

    @Test func `a key's place is the same after the way there and back`() {
        var known = 0
        for code in UInt16(1)...255 {
            guard let xt = RFBKeyCodes.xtCode(ofLinux: code) else { continue }
            known += 1
            #expect(RFBKeyCodes.linuxCode(ofXT: xt) == code)
        }
        #expect(known > 110)
        // From the list of QEMU's keys: Enter of the number block, right Control, the left logo key.
        #expect(RFBKeyCodes.linuxCode(ofXT: 0x9C) == 96 && RFBKeyCodes.linuxCode(ofXT: 0x9D) == 97)
        #expect(RFBKeyCodes.linuxCode(ofXT: 0xDB) == 125 && RFBKeyCodes.linuxCode(ofXT: 0xFFFF) == nil)
    }

    @Test func `a pointer's events become moves, buttons and notches`() {
        var input = RFBViewerInput()
        #expect(input.inputs(for: .pointer(x: 3, y: 4, buttons: [])) == [.move(x: 3, y: 4)])
        #expect(input.inputs(for: .pointer(x: 3, y: 4, buttons: .left)) == [.button(.left, isDown: true)])
        #expect(
            input.inputs(for: .pointer(x: 5, y: 4, buttons: [.left, .scrollUp])) == [
                .move(x: 5, y: 4), .scroll(x: 0, y: -120),
            ])
        #expect(input.inputs(for: .pointer(x: 5, y: 4, buttons: [.left])) == [])
        #expect(
            input.inputs(for: .pointer(x: 5, y: 4, buttons: [.back])) == [
                .button(.left, isDown: false), .button(.back, isDown: true),
            ])
    }

    @Test func `wrong passwords begin a pause that grows, and a right one ends the count`() {
        var admission = RFBAdmission()
        var now = ContinuousClock.now
        func fail() {
            #expect(admission.arrived(at: now) == nil)
            admission.failed(at: now)
        }
        for _ in 1..<RFBAdmission.patience { fail() }
        #expect(admission.arrived(at: now) == nil)
        admission.admitted()
        admission.left(wasAdmitted: true)
        for pause in [10.0, 20, 40, 80, 160, 300, 300] {
            for _ in 0..<RFBAdmission.patience { fail() }
            #expect(admission.arrived(at: now) != nil)
            now += .seconds(pause) - .milliseconds(1)
            #expect(admission.arrived(at: now) != nil)
            now += .milliseconds(1)
        }
    }

    @Test func `those that wait and those that are in are counted apart`() {
        var admission = RFBAdmission()
        let now = ContinuousClock.now
        for _ in 0..<RFBAdmission.limit { #expect(admission.arrived(at: now) == nil) }
        #expect(admission.arrived(at: now) != nil)
        admission.admitted()
        #expect(admission.arrived(at: now) == nil)
        admission.left(wasAdmitted: false)
        for _ in 1..<RFBAdmission.limit { admission.admitted() }
        #expect(admission.arrived(at: now) == "Too many viewers are connected.")
        admission.left(wasAdmitted: true)
        #expect(admission.arrived(at: now) == nil)
    }
}
