// What the signatures of this module name, so that `import Kith` is enough to embed a device, to call it and to write a
// service for it.
@_exported public import KithAPI
@_exported public import KithIdentity
@_exported public import KithNet
@_exported public import KithNode
@_exported public import KithRPC
@_exported public import KithWire
@_exported public import Logging
