#ifndef KITH_ARGUMENTS_H
#define KITH_ARGUMENTS_H

/// Overwrites, in the arguments that the system shows of this process, what follows `mark` in either case.
///
/// Nothing where the arguments are not known (neither glibc nor Darwin). Copies made before keep what they hold.
void kith_hide_arguments(const char *mark);

#endif
