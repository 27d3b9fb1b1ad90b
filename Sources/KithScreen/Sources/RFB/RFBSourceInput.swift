import KithAPI
import KithRFB
import KithWindow

/// Turns inputs into the messages of a viewer, and keeps what is held.
struct RFBSourceInput: Sendable {
    /// The hundred and twentieth parts of a notch that add up to one.
    private static let notch: Int32 = 120
    /// More keys than a person has fingers are not held.
    private static let keyLimit = 64

    private var keys: [ScreenInput.Key] = []
    private var buttons: RFBButtons = []
    private(set) var x = 0
    private(set) var y = 0
    private var scrolled: (x: Int32, y: Int32) = (0, 0)

    /// Sends an input; returns true when the pointer has another place.
    mutating func perform(_ input: ScreenInput, by client: inout RFBClient) -> Bool {
        switch input {
        case .move(let x, let y):
            self.x = min(max(Int(x), 0), max(0, client.frameBuffer.width - 1))
            self.y = min(max(Int(y), 0), max(0, client.frameBuffer.height - 1))
            client.sendPointer(x: self.x, y: self.y, buttons: buttons)
            return true
        case .button(let button, let isDown):
            if isDown { buttons.insert(RFBButtons(button)) } else { buttons.remove(RFBButtons(button)) }
            client.sendPointer(x: x, y: y, buttons: buttons)
        case .scroll(let x, let y):
            scrolled = (
                scroll(scrolled.x + x, .scrollRight, .scrollLeft, by: &client),
                scroll(scrolled.y + y, .scrollDown, .scrollUp, by: &client)
            )
        case .key(let key, let isDown): press(key, isDown: isDown, by: &client)
        case .text(let text):
            for scalar in text.unicodeScalars {
                let symbol = KeyNames.symbol(of: scalar)
                client.sendKey(symbol, isDown: true)
                client.sendKey(symbol, isDown: false)
            }
        case .release: releaseAll(by: &client)
        }
        return false
    }

    /// Lets go of every key and button, the last pressed first.
    mutating func releaseAll(by client: inout RFBClient) {
        for key in keys.reversed() { Self.send(key, isDown: false, by: &client) }
        keys = []
        guard !buttons.isEmpty else { return }
        buttons = []
        client.sendPointer(x: x, y: y, buttons: [])
    }

    private mutating func press(_ key: ScreenInput.Key, isDown: Bool, by client: inout RFBClient) {
        let index = keys.firstIndex { key.code != nil ? $0.code == key.code : $0 == key }
        if isDown {
            if index == nil {
                guard keys.count < Self.keyLimit else { return }
                keys.append(key)
            }
            Self.send(key, isDown: true, by: &client)
        } else {
            // What it stood for when it went down: a modifier may have changed since.
            let held = index.map { keys.remove(at: $0) } ?? key
            Self.send(held, isDown: false, by: &client)
        }
    }

    private static func send(_ key: ScreenInput.Key, isDown: Bool, by client: inout RFBClient) {
        client.sendKey(key.symbol, code: key.code.flatMap(RFBKeyCodes.xtCode), isDown: isDown)
    }

    /// Turns the wheel by whole notches; returns what is left for the next time.
    private func scroll(
        _ distance: Int32, _ positive: RFBButtons, _ negative: RFBButtons, by client: inout RFBClient
    ) -> Int32 {
        for _ in 0..<abs(distance / Self.notch) {
            client.sendPointer(x: x, y: y, buttons: buttons.union(distance > 0 ? positive : negative))
            client.sendPointer(x: x, y: y, buttons: buttons)
        }
        return distance % Self.notch
    }
}

extension RFBButtons {
    init(_ button: ScreenInput.Button) {
        switch button {
        case .left: self = .left
        case .middle: self = .middle
        case .right: self = .right
        case .back: self = .back
        case .forward: self = .forward
        }
    }
}
