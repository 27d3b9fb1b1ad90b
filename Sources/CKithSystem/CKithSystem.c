#include "CKithSystem.h"
