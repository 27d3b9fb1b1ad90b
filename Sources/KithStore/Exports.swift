// What the signatures of this module name.
@_exported public import KithIdentity
@_exported public import KithMLS
@_exported public import KithWire
@_exported public import Logging
