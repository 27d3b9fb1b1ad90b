import KithTesting

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

// libFuzzer brings `main` and calls the function below with input after input. One executable holds every target;
// $KITH_FUZZ_TARGET says which. `scripts/fuzz` builds and runs it.

/// The target of this run.
private let target: FuzzTarget = {
    let name = environment("KITH_FUZZ_TARGET") ?? ""
    guard let target = FuzzTarget(rawValue: name) else {
        let names = FuzzTarget.allCases.map(\.rawValue).joined(separator: ", ")
        print("Set KITH_FUZZ_TARGET to one of: \(names)")
        exit(64)
    }
    return target
}()

/// Writes the target's extreme numbers as seeds and ends the process, where a folder for them is named.
///
/// The folder is `$KITH_FUZZ_SEEDS`. libFuzzer calls this before it reads its own arguments.
@c(LLVMFuzzerInitialize)
public func initializeFuzzer(_ count: UnsafeMutablePointer<CInt>?, _ words: UnsafeMutableRawPointer?) -> CInt {
    guard let folder = environment("KITH_FUZZ_SEEDS") else { return 0 }
    for (number, seed) in target.extremes.enumerated() {
        guard let file = unsafe fopen("\(folder)/extreme-\(number)", "wb") else { exit(73) }
        guard unsafe fwrite(seed, 1, seed.count, file) == seed.count, unsafe fclose(file) == 0 else { exit(74) }
    }
    exit(0)
}

/// Gives one input to the target; libFuzzer's entry point.
@c(LLVMFuzzerTestOneInput)
public func fuzzOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    unsafe target.run(UnsafeRawBufferPointer(start: start, count: count))
    return 0
}
