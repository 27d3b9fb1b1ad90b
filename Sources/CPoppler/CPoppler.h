// poppler's interface for C++ (Debian's libpoppler-cpp-dev), where it is installed. Included from C++ only.
#if defined(__cplusplus) && __has_include(<poppler-document.h>)
#include <poppler-document.h>
#include <poppler-page.h>
#define KITH_HAS_POPPLER 1
#endif
