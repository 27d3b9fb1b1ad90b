// Calls to the device that runs on a data directory, by a program that is not a device: the table of methods, a client,
// and the socket between. Nothing of the network, and nothing of X.509, is linked.
@_exported public import KithAPI
@_exported public import KithIdentity
@_exported public import KithSocket
@_exported public import KithRPC
@_exported public import KithWire
