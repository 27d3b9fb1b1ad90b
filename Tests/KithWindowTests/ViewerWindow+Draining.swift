import KithPixels

@testable import KithWindow

extension ViewerWindow {
    /// A window of 800×600 for the laptop's screen, with letters of 8×16.
    static func sample(_ options: WindowOptions = WindowOptions(device: "laptop")) -> ViewerWindow {
        let font = WindowFont(scale: 1, height: 16) { $0.count * 8 }
        return ViewerWindow(options, size: PixelSize(width: 800, height: 600), font: font)
    }

    /// All that is to be done, in order.
    mutating func drain() -> [Action] {
        var actions: [Action] = []
        while let action = nextAction() { actions.append(action) }
        return actions
    }
}
