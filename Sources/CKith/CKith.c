#include "CKith.h"
