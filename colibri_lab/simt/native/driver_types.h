// The CUDA driver API's numbers and structures, as far as they are used here.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace driver {

enum Result {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_UNSUPPORTED_LIMIT = 215,
  CUDA_ERROR_INVALID_PTX = 218,
  CUDA_ERROR_FILE_NOT_FOUND = 301,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
  CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
  CUDA_ERROR_PEER_ACCESS_NOT_ENABLED = 705,
  CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
  CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
  CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
  CUDA_ERROR_LAUNCH_FAILED = 719,
  CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE = 720,
  CUDA_ERROR_NOT_SUPPORTED = 801,
};

enum DeviceAttribute {
  MAX_THREADS_PER_BLOCK = 1,
  MAX_BLOCK_DIM_X = 2,
  MAX_GRID_DIM_X = 5,
  MAX_SHARED_MEMORY_PER_BLOCK = 8,
  WARP_SIZE = 10,
  MULTIPROCESSOR_COUNT = 16,
  MAX_THREADS_PER_MULTIPROCESSOR = 39,
  COMPUTE_CAPABILITY_MAJOR = 75,
  COMPUTE_CAPABILITY_MINOR = 76,
  MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
  MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
  MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
  RESERVED_SHARED_MEMORY_PER_BLOCK = 111,
  LAST_DEVICE_ATTRIBUTE = 161,
};

enum FunctionAttribute {
  FUNC_MAX_THREADS_PER_BLOCK = 0,
  FUNC_SHARED_SIZE_BYTES = 1,
  FUNC_CONST_SIZE_BYTES = 2,
  FUNC_LOCAL_SIZE_BYTES = 3,
  FUNC_NUM_REGS = 4,
  FUNC_PTX_VERSION = 5,
  FUNC_BINARY_VERSION = 6,
  FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  LAST_FUNC_ATTRIBUTE = 17,
};

enum MemoryType { HOST = 1, DEVICE = 2, ARRAY = 3, UNIFIED = 4 };

constexpr unsigned STREAM_NON_BLOCKING = 1;
constexpr unsigned EVENT_DISABLE_TIMING = 2;

struct Array;

// One side of a CUDA_MEMCPY2D; width and height of the copy follow the two sides.
struct Side2D {
  size_t x_bytes, y;
  int type;
  void *host;
  uint64_t device;
  Array *array;
  size_t pitch;
};
struct Copy2D {
  Side2D from, to;
  size_t width_bytes, height;
};

// One side of a CUDA_MEMCPY3D, and of a CUDA_MEMCPY3D_PEER (whose `context` is reserved there).
struct Side3D {
  size_t x_bytes, y, z, lod;
  int type;
  void *host;
  uint64_t device;
  Array *array;
  void *context;
  size_t pitch, height;
};
struct Copy3D {
  Side3D from, to;
  size_t width_bytes, height, depth;
};

struct ArrayDescriptor {
  size_t width, height;
  int format;
  unsigned channels;
};
struct Array3DDescriptor {
  size_t width, height, depth;
  int format;
  unsigned channels, flags;
};

}  // namespace driver
