import KithAPI
import KithNet
import KithWire

extension MethodHeader.Traffic {
    /// Gives one end's half of a call the place that it has among all that the connection carries.
    func prioritize(_ stream: any ByteStream, isCaller: Bool) {
        let priority: Int32? =
            switch self {
            case .input: isCaller ? StreamPriority.input : nil
            case .bulk: StreamPriority.bulk
            default: nil
            }
        if let priority { stream.prioritized?.setPriority(priority) }
    }
}
