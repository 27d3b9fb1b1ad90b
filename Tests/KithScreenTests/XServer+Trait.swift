import KithTesting
import Testing

extension Trait where Self == ConditionTrait {
    /// Leaves a test out where there is no X server for it.
    static var needsX11: Self { .enabled("no X server is installed") { XServer.isInstalled } }
}
