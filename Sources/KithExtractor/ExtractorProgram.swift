/// Where `kith-extract` is, the program that reads files for a library.
package enum ExtractorProgram {
    /// Beside the program that runs, or below its prefix; `nil` when it is in neither place.
    package static var path: String? { HelperProgram.path(of: "kith-extract") }
}
