/// How much one connection may take.
package struct RFBLimits: Hashable, Sendable {
    /// The most pixels of the picture.
    package var pixels = RFBFrameBuffer.pixelLimit
    /// The most bytes that arrived and wait to be read.
    package var input = 64 << 20
    /// While more bytes than these wait to be sent, no further message is read.
    package var output = 1 << 20
    /// The most bytes of a clipboard, all its formats together.
    package var clipboard = 10 << 20
    /// The most bytes of a name or a reason.
    package var text = 4096
    /// A server: the messages of a viewer that pass in a second, and at once.
    package var messagesPerSecond = 2000.0
    package var messageBurst = 4000.0
    /// A server: the time in which a handshake, and a message that was begun, have to end.
    package var handshakeTime = Duration.seconds(30)
    package var messageTime = Duration.seconds(30)
    /// A server: the most encodings that a viewer may list.
    package var encodings = 1024
    /// The most monitors.
    package var screens = 64

    package init() {}
}
