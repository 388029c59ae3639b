// Types of the driver API that sources with host code name.
#pragma once
#include "cuda_runtime.h"
#define CUDA_VERSION 13000
typedef unsigned long long CUdeviceptr;
typedef int CUdevice;
typedef int CUresult;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef cudaStream_t CUstream;
typedef cudaEvent_t CUevent;
