// The part of the runtime API that .cu files with host code name. Host code never runs in an image:
// these let it compile, and answer "not supported" should anything call them.
#pragma once
#include <stddef.h>

#include "../vector_types.h"

extern "C++" {
enum cudaError_t {
  cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2,
  cudaErrorNotReady = 600, cudaErrorAssert = 710, cudaErrorNotSupported = 801
};
enum {
  cudaStreamDefault = 0, cudaStreamNonBlocking = 1, cudaEventDefault = 0,
  cudaEventDisableTiming = 2, cudaHostAllocDefault = 0, cudaHostAllocPortable = 1,
  cudaHostAllocMapped = 2
};
enum cudaLimit { cudaLimitStackSize, cudaLimitPrintfFifoSize, cudaLimitMallocHeapSize };
typedef cudaError_t cudaError;
enum cudaMemcpyKind {
  cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrClockRate = 13,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrComputeMode = 20,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
enum cudaFuncCache { cudaFuncCachePreferNone, cudaFuncCachePreferShared, cudaFuncCachePreferL1 };
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerMultiprocessor;
  int multiProcessorCount, maxThreadsPerMultiProcessor, warpSize, l2CacheSize, major, minor;
};
#define SIMT_HOST_ONLY(name) \
  template <class... A> inline cudaError_t name(A &&...) { return cudaErrorNotSupported; }
SIMT_HOST_ONLY(cudaMalloc)
SIMT_HOST_ONLY(cudaMallocManaged)
SIMT_HOST_ONLY(cudaMallocHost)
SIMT_HOST_ONLY(cudaMallocAsync)
SIMT_HOST_ONLY(cudaFree)
SIMT_HOST_ONLY(cudaFreeHost)
SIMT_HOST_ONLY(cudaFreeAsync)
SIMT_HOST_ONLY(cudaMemcpy)
SIMT_HOST_ONLY(cudaMemcpyAsync)
SIMT_HOST_ONLY(cudaMemcpyToSymbol)
SIMT_HOST_ONLY(cudaMemcpyFromSymbol)
SIMT_HOST_ONLY(cudaMemset)
SIMT_HOST_ONLY(cudaMemsetAsync)
SIMT_HOST_ONLY(cudaDeviceSynchronize)
SIMT_HOST_ONLY(cudaStreamCreate)
SIMT_HOST_ONLY(cudaStreamDestroy)
SIMT_HOST_ONLY(cudaStreamSynchronize)
SIMT_HOST_ONLY(cudaEventCreate)
SIMT_HOST_ONLY(cudaEventDestroy)
SIMT_HOST_ONLY(cudaEventRecord)
SIMT_HOST_ONLY(cudaEventSynchronize)
SIMT_HOST_ONLY(cudaEventElapsedTime)
SIMT_HOST_ONLY(cudaGetDevice)
SIMT_HOST_ONLY(cudaSetDevice)
SIMT_HOST_ONLY(cudaGetDeviceCount)
SIMT_HOST_ONLY(cudaGetDeviceProperties)
SIMT_HOST_ONLY(cudaFuncSetAttribute)
SIMT_HOST_ONLY(cudaOccupancyMaxActiveBlocksPerMultiprocessor)
SIMT_HOST_ONLY(cudaGetLastError)
SIMT_HOST_ONLY(cudaPeekAtLastError)
SIMT_HOST_ONLY(cudaLaunchKernel)
SIMT_HOST_ONLY(cudaMemcpy2D)
SIMT_HOST_ONLY(cudaMemcpy2DAsync)
SIMT_HOST_ONLY(cudaDeviceGetAttribute)
SIMT_HOST_ONLY(cudaFuncSetCacheConfig)
SIMT_HOST_ONLY(cudaHostAlloc)
SIMT_HOST_ONLY(cudaHostRegister)
SIMT_HOST_ONLY(cudaDeviceReset)
SIMT_HOST_ONLY(cudaStreamCreateWithFlags)
SIMT_HOST_ONLY(cudaStreamWaitEvent)
SIMT_HOST_ONLY(cudaProfilerStart)
SIMT_HOST_ONLY(cudaProfilerStop)
SIMT_HOST_ONLY(cudaLaunchCooperativeKernel)
SIMT_HOST_ONLY(cudaFuncGetAttributes)
SIMT_HOST_ONLY(cudaMemGetInfo)
SIMT_HOST_ONLY(cudaEventCreateWithFlags)
SIMT_HOST_ONLY(cudaEventQuery)
SIMT_HOST_ONLY(cudaOccupancyMaxPotentialBlockSize)
SIMT_HOST_ONLY(cudaHostGetDevicePointer)
SIMT_HOST_ONLY(cudaDeviceCanAccessPeer)
SIMT_HOST_ONLY(cudaDeviceGetStreamPriorityRange)
SIMT_HOST_ONLY(cudaStreamCreateWithPriority)
SIMT_HOST_ONLY(cudaStreamQuery)
SIMT_HOST_ONLY(cudaDeviceSetLimit)
SIMT_HOST_ONLY(cudaHostUnregister)
SIMT_HOST_ONLY(cudaGetSymbolAddress)
#undef SIMT_HOST_ONLY
inline const char *cudaGetErrorString(cudaError_t) { return "host code does not run here"; }
inline const char *cudaGetErrorName(cudaError_t) { return "cudaErrorNotSupported"; }
}
