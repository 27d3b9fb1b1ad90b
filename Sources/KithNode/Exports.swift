// What is named by a service and by who serves it.
@_exported public import KithAPI
@_exported public import KithIdentity
@_exported public import KithRPC
@_exported public import KithWire
