// What the signatures of this module name, so that `import Kith` is enough to embed a device, to call it and to write a
// service for it; and the clients of forwarding and of shells, which take more than a call.
@_exported public import KithAPI
@_exported public import KithForward
@_exported public import KithIdentity
@_exported public import KithNet
@_exported public import KithNode
@_exported public import KithRPC
@_exported public import KithReach
@_exported public import KithShell
@_exported public import KithWire
@_exported public import Logging
