import CountingAllocator

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

#if canImport(Glibc)
private let processSelf = RUSAGE_SELF.rawValue
#else
private let processSelf = RUSAGE_SELF
#endif

/// What a stretch of work cost this process: time, processor time, allocations.
struct Meter {
    private let began = ContinuousClock.now
    private let processor = Meter.processorSeconds()
    private let allocations = counting_allocator_count()
    private let live = counting_allocator_live()

    /// Seconds since the meter was made.
    var seconds: Double { (ContinuousClock.now - began).inSeconds }
    /// Seconds of processor time, all threads, both modes.
    var processorSeconds: Double { Self.processorSeconds() - processor }
    /// Allocations, all threads.
    var allocationCount: Int { Int(counting_allocator_count() - allocations) }

    /// Bytes allocated now that were not when the meter was made.
    var liveBytes: Int { Int(counting_allocator_live() - live) }

    private static func processorSeconds() -> Double {
        var usage = rusage()
        getrusage(processSelf, &usage)
        func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }
        return seconds(usage.ru_utime) + seconds(usage.ru_stime)
    }
}

extension Duration {
    /// The duration in seconds.
    var inSeconds: Double { Double(components.seconds) + Double(components.attoseconds) / 1e18 }
}

/// The value below which `share` of the samples lie.
func percentile(_ share: Double, of samples: [Double]) -> Double {
    let sorted = samples.sorted()
    return sorted[min(sorted.count - 1, Int(Double(sorted.count) * share))]
}
