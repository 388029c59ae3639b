// What PyCUDA's extension binds and nothing here does: textures and surfaces (which CUDA 12 dropped
// in this form too), and sharing memory between processes.
#include "driver.h"

using namespace driver;

#define NOT_EMULATED(NAME)                                                                   \
  DRIVER_API NAME() {                                                                        \
    return guarded([] { raise(CUDA_ERROR_NOT_SUPPORTED, #NAME " is not emulated"); });       \
  }

NOT_EMULATED(cuIpcCloseMemHandle)
NOT_EMULATED(cuIpcGetEventHandle)
NOT_EMULATED(cuIpcGetMemHandle)
NOT_EMULATED(cuIpcOpenEventHandle)
NOT_EMULATED(cuIpcOpenMemHandle_v2)
NOT_EMULATED(cuModuleGetSurfRef)
NOT_EMULATED(cuModuleGetTexRef)
NOT_EMULATED(cuParamSetTexRef)
NOT_EMULATED(cuSurfRefGetArray)
NOT_EMULATED(cuSurfRefSetArray)
NOT_EMULATED(cuTexRefCreate)
NOT_EMULATED(cuTexRefDestroy)
NOT_EMULATED(cuTexRefGetAddressMode)
NOT_EMULATED(cuTexRefGetAddress_v2)
NOT_EMULATED(cuTexRefGetArray)
NOT_EMULATED(cuTexRefGetFilterMode)
NOT_EMULATED(cuTexRefGetFlags)
NOT_EMULATED(cuTexRefGetFormat)
NOT_EMULATED(cuTexRefSetAddress2D_v3)
NOT_EMULATED(cuTexRefSetAddressMode)
NOT_EMULATED(cuTexRefSetAddress_v2)
NOT_EMULATED(cuTexRefSetArray)
NOT_EMULATED(cuTexRefSetFilterMode)
NOT_EMULATED(cuTexRefSetFlags)
NOT_EMULATED(cuTexRefSetFormat)
