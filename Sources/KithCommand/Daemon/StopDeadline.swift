import Foundation
import Logging

/// Ends the process when the device does not stop, because something in it waits for a disk that does not answer.
///
/// What is stored is stored as if the process had been killed, which it has to bear at any moment.
enum StopDeadline {
    /// The time that a device has to stop: its calls a few seconds, then its jobs and its libraries.
    static let patience = Duration.seconds(30)

    /// Begins to count; on a thread of its own, as all others may be waiting.
    static func begin(logger: Logger) {
        Thread.detachNewThread {
            Thread.sleep(forTimeInterval: patience / .seconds(1))
            logger.error("Something does not end: it may wait for a disk that does not answer. It is left as it is.")
            _exit(EXIT_FAILURE)
        }
    }
}
