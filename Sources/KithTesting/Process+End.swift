public import Foundation

extension Process {
    /// Ends the program whether it wants to or not.
    ///
    /// On Linux a program starts with the signal mask of the thread that starts it, and the threads that run tasks block
    /// nearly every signal: `terminate()` would stay pending for ever, and whoever waits for the end of what the program
    /// prints (`swift test` does) would wait with it.
    public func end() {
        if isRunning { kill(processIdentifier, SIGKILL) }
    }
}
