import Foundation
import KithIO
import KithRelayServer
import KithWire

extension RelayCommand {
    /// The time between two looks at the files of a certificate, and after one that could not be used: half of a pair may
    /// have been written.
    private static let (look, soon) = (Duration.seconds(3_600), Duration.seconds(60))

    /// True when SIGHUP has the certificate read again; at a terminal it says that this is gone.
    var readsAgain: Bool { cert != nil && isatty(STDIN_FILENO) == 0 }

    /// Takes the certificate in the files of `--cert` and `--key` whenever it is another, until the task is cancelled.
    func followCertificate(_ server: RelayServer, _ hangUps: AsyncStream<Void>) async {
        // A look when it is time, one at each hang-up.
        let (looks, look) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let timers = TimerQueue()
        await withDiscardingTaskGroup { group in
            group.addTask {
                for await _ in hangUps { look.yield() }
            }
            var ticket = timers.schedule(at: .now + Self.look) { look.yield() }
            for await _ in looks {
                timers.cancel(ticket)
                let isUsed = readCertificate(server)
                ticket = timers.schedule(at: .now + (isUsed ? Self.look : Self.soon)) { look.yield() }
            }
            timers.cancel(ticket)
            group.cancelAll()
        }
    }

    /// Reads the certificate; false when it could not be used.
    private func readCertificate(_ server: RelayServer) -> Bool {
        do throws(KithError) {
            if try server.readCertificate(), !globals.json { note("There is a new certificate in \(cert ?? "").") }
            return true
        } catch {
            note("kith: \(printable(error.message)) The one before stays in use.")
            return false
        }
    }
}
