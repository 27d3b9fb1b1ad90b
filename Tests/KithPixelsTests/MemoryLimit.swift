#if os(Linux)
#if canImport(Glibc)
import Glibc
#else
import Musl
#endif

/// Lets this process have only so much writable memory more than it has.
func limitMemory(more: Int) {
    guard let file = fopen("/proc/self/statm", "r") else { fatalError("no statm") }
    var line = [CChar](repeating: 0, count: 200)
    fgets(&line, 200, file)
    fclose(file)
    let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    let pages = Int(text.split(separator: " ")[5]) ?? 0
    var limit = rlimit(rlim_cur: rlim_t(pages * 4096 + more), rlim_max: rlim_t(pages * 4096 + more))
    precondition(setrlimit(__rlimit_resource_t(2), &limit) == 0, "RLIMIT_DATA is set")
}
#endif
