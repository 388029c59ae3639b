// What a compiled image, the runtime, the driver and the analysis agree on.
//
// An image is a host shared object made from CUDA C++; `cuModuleLoadData` gets it as it is. It
// exports one symbol, `simt_image`. The rest lives in libcuda.so.1: the driver (the CUDA API), the
// runtime (threads of a block, barriers, warps) and the analysis (every memory access seen).
#pragma once
#include <stddef.h>
#include <stdint.h>

#define SIMT_ABI 1
#define SIMT_API extern "C" __attribute__((visibility("default")))

// ---- an image --------------------------------------------------------------------------------

struct SimtKernel {
  const char *name;                 // what cuModuleGetFunction asks for
  void (*call)(void *const *args);  // one CUDA thread's work; args[i] points at argument i
  const uint32_t *arg_sizes;        // bytes
  const uint32_t *arg_offsets;      // in the packed buffer of CU_LAUNCH_PARAM_BUFFER_POINTER
  uint32_t num_args;
  uint32_t max_threads;             // __launch_bounds__; 0: not given
  uint32_t static_shared_bytes;
};

struct SimtGlobal {
  const char *name;  // a __device__ or __constant__ variable
  void *address;
  size_t bytes;
  uint32_t is_constant;
};

struct SimtImage {
  uint32_t abi;  // SIMT_ABI
  uint32_t instrumented;
  const SimtKernel *kernels;
  uint32_t num_kernels;
  const SimtGlobal *globals;
  uint32_t num_globals;
  const char *source_path;
};

// ---- a launch: the driver calls, the runtime runs ----------------------------------------------

struct SimtLaunch {
  const SimtKernel *kernel;
  const SimtImage *image;
  void *const *args;
  uint32_t grid[3], block[3];
  uint32_t dynamic_shared_bytes;
  uint32_t workers;  // operating-system threads; 0: as many as cores
  uint64_t number;   // counts launches from 1
};

struct SimtFault {
  int code;  // a CUresult; 0: none
  uint32_t block[3], thread[3];
  const void *pc;       // in the image; null where unknown
  const void *address;  // that was accessed; null where none
  char message[1024];   // says kernel, file and line, block, thread, what and where
};

// Runs every block; returns 0, or a CUresult with the fault filled in.
SIMT_API int simt_run_grid(const SimtLaunch *launch, SimtFault *fault);
// Asks a running grid to stop (Ctrl-C); simt_run_grid then returns CUDA_ERROR_LAUNCH_FAILED.
SIMT_API void simt_cancel(void);

// ---- where a thread is: the runtime keeps it, images and the analysis read it --------------------

struct SimtThread {
  uint32_t thread_idx[3];
  uint32_t block_idx[3];
  uint32_t linear;  // in its block
  uint32_t lane, warp;
  uint32_t barriers;       // block barriers passed so far: an epoch for the race checks
  uint32_t warp_barriers;  // warp synchronisations passed so far
  uint64_t block_linear;
  const SimtLaunch *launch;
  char *shared;  // the block's dynamic shared memory
  // what the runtime adds follows in its own struct, of which this is the first member
};

// The CUDA thread that runs now on this operating-system thread; null outside kernels.
extern "C" __thread SimtThread *simt_self __attribute__((visibility("default")));

// ---- memory: the driver keeps the table -----------------------------------------------------------

enum SimtMemoryKind { SIMT_DEVICE = 1, SIMT_HOST_PINNED = 2, SIMT_GLOBAL = 3 };

struct SimtAllocation {
  uint64_t base, bytes;
  uint64_t id;  // counts allocations from 1
  uint32_t kind;
  uint32_t is_freed;
};

// The live allocation that holds an address, else the last freed one; 0 where there is neither.
SIMT_API int simt_find_allocation(const void *address, SimtAllocation *found);

// ---- the analysis, called by driver and runtime; each returns at once where it is off ----------------

SIMT_API void simt_analysis_begin_launch(const SimtLaunch *launch);
SIMT_API int simt_analysis_end_launch(const SimtLaunch *launch, SimtFault *fault);  // fault or 0
SIMT_API void simt_analysis_begin_block(void);  // on the worker, before its threads run
SIMT_API void simt_analysis_end_block(void);
SIMT_API void simt_analysis_barrier(const void *pc, int kind, unsigned mask);  // 0 block, 1 warp
SIMT_API void simt_analysis_atomic(const void *pc, void *address, uint32_t bytes);
SIMT_API void simt_analysis_thread_exit(void);
SIMT_API void simt_analysis_allocated(const SimtAllocation *allocation);
SIMT_API void simt_analysis_freed(const SimtAllocation *allocation);
SIMT_API void simt_analysis_host_wrote(const void *address, size_t bytes);  // copies, memsets
