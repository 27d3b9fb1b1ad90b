// The system's SDL 2, and its SDL_ttf for text: Debian's libsdl2-dev and libsdl2-ttf-dev. kith-viewer alone links them.
#ifndef KITH_CSDL2_H
#define KITH_CSDL2_H

#include <SDL.h>
#include <SDL_ttf.h>

#endif
