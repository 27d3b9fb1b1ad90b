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

/// Gives one input to the target; libFuzzer's entry point.
@c(LLVMFuzzerTestOneInput)
public func fuzzOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    unsafe target.run(UnsafeRawBufferPointer(start: start, count: count))
    return 0
}
