import NIOCore
import NIOPosix

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The words for what a socket failed with.
package enum NetworkFailure {
    /// The reason for a person: the middle of a sentence, without the system's numbers.
    package static func words(_ error: any Error) -> String {
        switch error {
        case let error as NIOConnectionError where error.dnsAError != nil && error.connectionErrors.isEmpty:
            "its name has no address"
        case let error as NIOConnectionError:
            error.connectionErrors.first.map { words($0.error) } ?? "no address answers"
        case ChannelError.connectTimeout: "it did not answer in time"
        case ChannelError.eof, ChannelError.ioOnClosedChannel, ChannelError.alreadyClosed: "the connection ended"
        case let error as IOError: words(error.errnoCode)
        default: "\(error)"
        }
    }

    private static func words(_ number: CInt) -> String {
        switch number {
        case ECONNREFUSED: "nothing listens there"
        case ENETUNREACH, EHOSTUNREACH, EADDRNOTAVAIL: "there is no way from here to there"
        case ENETDOWN: "this device is on no network"
        case ETIMEDOUT: "it did not answer in time"
        case ECONNRESET, ECONNABORTED, EPIPE: "the connection was broken off"
        case EADDRINUSE: "another program listens there"
        case EACCES, EPERM: "the system does not allow it"
        case EMFILE, ENFILE: "too many files and connections are open"
        default: unsafe String(cString: strerror(number))
        }
    }
}
