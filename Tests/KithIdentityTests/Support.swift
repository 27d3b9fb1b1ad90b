import KithIdentity

/// A key that is the same in every run.
func key(_ number: UInt8) throws -> DeviceKey { try DeviceKey(seed: [UInt8](repeating: number, count: 32)) }
