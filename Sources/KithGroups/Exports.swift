// Messages, members and credentials of groups.
@_exported public import KithMLS
