import ArgumentParser
import Foundation
import KithAPI

#if canImport(Glibc)
import Glibc
#endif

/// The width in columns of the terminal behind a descriptor; 80 when unknown.
func terminalColumns(_ descriptor: Int32) -> Int { terminalSize(descriptor)?.columns ?? 80 }

/// The size of a terminal; `nil` for anything else.
func terminalSize(_ descriptor: Int32) -> (columns: Int, rows: Int)? {
    var size = winsize()
    guard unsafe ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else { return nil }
    return (Int(size.ws_col), Int(size.ws_row))
}
