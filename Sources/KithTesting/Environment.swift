#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The value of an environment variable, for tests that take a seed or a count from outside.
public func environment(_ name: String) -> String? {
    unsafe getenv(name).map { unsafe String(cString: $0) }
}
