#ifndef CKITHSYSTEM_H
#define CKITHSYSTEM_H

// The operating system's parts that Swift cannot call itself, one header each.
#include "KithArguments.h"
#include "KithConfinedOpen.h"
#include "KithProtection.h"
#include "KithFileContents.h"
#include "KithFolderWatch.h"
#include "KithVolumes.h"
#include "KithUDP.h"
#include "KithNetwork.h"
#include "KithSpawn.h"
#include "KithTerminal.h"
#include "KithMemory.h"
#include "KithSockets.h"
#include "KithReactor.h"
#include "KithSandbox.h"
#include "KithSharedMemory.h"
#include "KithSecretService.h"

#endif
