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
  uint32_t static_shared_bytes;     // what CUDA would report
  uint32_t static_window_bytes;     // what a block's static shared memory spans here (>= the above)
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
  char *shared;         // the block's dynamic shared memory
  char *static_shared;  // static_window_bytes, then (16-byte aligned) the dynamic shared memory
  char *stack_low, *stack_high;  // this thread's own stack: what lies there is local memory
  void *analysis;  // the analysis' state of this thread; the runtime nulls it as the thread starts
  // what the runtime adds follows in its own struct, of which this is the first member
};

// The CUDA thread that runs now on this operating-system thread; null outside kernels.
// Initial-exec puts all thread-local data of libcuda.so.1 into the static TLS block, which has little
// room: keep thread-local variables to pointers.
extern "C" __thread SimtThread *simt_self
    __attribute__((visibility("default"), tls_model("initial-exec")));

// Lets the block's other threads run on; returns later. Spin loops call it, and so do the hooks of
// the analysis when a thread's record is full (they are plain calls from compiled kernel code).
SIMT_API void simt_yield(void);
// Ends the launch with this fault as a bad access would; does not return to the kernel.
SIMT_API __attribute__((noreturn)) void simt_raise(const SimtFault *fault);

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
//
// Instrumented images are compiled with analysis_flags.py's flags and call __tsan_* at each access
// and __sanitizer_cov_trace_pc at each basic block; `pc` below is a return address in the image
// (__builtin_return_address(0) of a function that the image calls). Image functions which are the
// host headers' own business (reading threadIdx, unpacking arguments) should touch no memory that
// the compiler sees: call a function of libcuda.so.1 (const where it may be) or use asm.

SIMT_API void simt_analysis_begin_launch(const SimtLaunch *launch);
SIMT_API int simt_analysis_end_launch(const SimtLaunch *launch, SimtFault *fault);  // fault or 0
SIMT_API void simt_analysis_begin_block(void);  // on the worker, before its threads run
SIMT_API void simt_analysis_end_block(void);
// Each thread calls it as it arrives, before it waits.
enum SimtBarrierKind {
  SIMT_BLOCK_BARRIER = 0,  // __syncthreads and its kin
  SIMT_WARP_BARRIER = 1,   // __syncwarp: lanes of the mask meet, and memory is ordered
  SIMT_WARP_EXCHANGE = 2   // shuffles, votes: lanes of the mask meet, memory is not ordered
};
SIMT_API void simt_analysis_barrier(const void *pc, int kind, unsigned mask);
// An atomic that a runtime function does for the image (what the image does itself with __atomic_*
// is seen as __tsan_atomic*), and a fence: scope 0 block, 1 device, 2 system.
SIMT_API void simt_analysis_atomic(const void *pc, void *address, uint32_t bytes);
SIMT_API void simt_analysis_fence(const void *pc, int scope);
SIMT_API void simt_analysis_thread_exit(void);
SIMT_API void simt_analysis_allocated(const SimtAllocation *allocation);
SIMT_API void simt_analysis_freed(const SimtAllocation *allocation);
SIMT_API void simt_analysis_host_wrote(const void *address, size_t bytes);  // copies, memsets
// File and line of a place in an image: 1 where known. The line is the user's own, not a header's.
SIMT_API int simt_source_line(const void *pc, char *file, size_t file_bytes, uint32_t *line);
// Which checks are on (bits below; what the environment's COLIBRI_SIMT_ANALYSIS names at first).
enum SimtAnalysisMode { SIMT_COUNTERS = 1, SIMT_MEMORY = 2, SIMT_RACES = 4 };
SIMT_API void simt_analysis_set(unsigned mode);
SIMT_API unsigned simt_analysis_mode(void);
