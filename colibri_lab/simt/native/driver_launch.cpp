// Launches: what a GPU would refuse is refused, then the grid is queued. Function attributes.
#include <string.h>

#include <algorithm>

#include "driver.h"

namespace driver {
namespace {

size_t argument_bytes(const SimtKernel &kernel) {
  if (!kernel.num_args) return 0;
  uint32_t last = kernel.num_args - 1;
  return kernel.arg_offsets[last] + kernel.arg_sizes[last];
}

unsigned most_threads(const SimtKernel &kernel) {
  auto most = unsigned(attribute(MAX_THREADS_PER_BLOCK));
  return kernel.max_threads ? std::min(most, kernel.max_threads) : most;
}

void check_axes(const unsigned *sizes, int first_attribute, const char *what) {
  for (int i = 0; i < 3; i++) {
    auto most = unsigned(attribute(first_attribute + i));
    if (!sizes[i] || sizes[i] > most)
      raise(CUDA_ERROR_INVALID_VALUE, "the %s's %c is %u; it must be 1 to %u on %s", what,
            'x' + i, sizes[i], most, gpu->name.c_str());
  }
}

void check_threads(const SimtKernel &kernel, const Shape &shape) {
  uint64_t threads = uint64_t(shape.block[0]) * shape.block[1] * shape.block[2];
  auto most = uint64_t(attribute(MAX_THREADS_PER_BLOCK));
  if (threads > most)
    raise(CUDA_ERROR_INVALID_VALUE, "a block of %u x %u x %u = %llu threads; %s has at most %llu",
          shape.block[0], shape.block[1], shape.block[2], (unsigned long long)threads,
          gpu->name.c_str(), (unsigned long long)most);
  if (kernel.max_threads && threads > kernel.max_threads)
    raise(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
          "a block of %llu threads; kernel '%s' declares __launch_bounds__(%u)",
          (unsigned long long)threads, kernel.name, kernel.max_threads);
}

void check_shared(const Function &function, const Shape &shape) {
  size_t fixed = function.kernel->static_shared_bytes;
  auto plain = size_t(attribute(MAX_SHARED_MEMORY_PER_BLOCK));
  size_t allowed = std::max(plain, fixed + function.max_dynamic_shared_bytes);
  if (fixed > plain)
    raise(CUDA_ERROR_INVALID_VALUE, "kernel '%s' declares %zu bytes of shared memory; %zu at most",
          function.kernel->name, fixed, plain);
  if (fixed + shape.dynamic_bytes > allowed)
    raise(CUDA_ERROR_INVALID_VALUE,
          "%zu bytes of static and %zu of dynamic shared memory; a block of kernel '%s' may have "
          "%zu%s", fixed, shape.dynamic_bytes, function.kernel->name, allowed,
          attribute(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) > int(allowed)
              ? " (more after MAX_DYNAMIC_SHARED_SIZE_BYTES was set)" : "");
}

void check_launch(const Function &function, const Shape &shape) {
  check_axes(shape.grid, MAX_GRID_DIM_X, "grid");
  check_axes(shape.block, MAX_BLOCK_DIM_X, "block");
  check_threads(*function.kernel, shape);
  check_shared(function, shape);
}

// The arguments, each at its offset in one aligned buffer, from an array of pointers.
std::vector<char> gather(const SimtKernel &kernel, void **pointers) {
  std::vector<char> packed(argument_bytes(kernel));
  for (uint32_t i = 0; i < kernel.num_args; i++)
    memcpy(packed.data() + kernel.arg_offsets[i], pointers[i], kernel.arg_sizes[i]);
  return packed;
}

// The same from the packed buffer of `extra`: (1, buffer), (2, pointer to its size), 0.
std::vector<char> unpack(const SimtKernel &kernel, void **extra) {
  const char *buffer = nullptr;
  size_t bytes = 0, needed = argument_bytes(kernel);
  for (void **at = extra; at && *at; at += 2) {
    if (*at == reinterpret_cast<void *>(1)) buffer = static_cast<const char *>(at[1]);
    if (*at == reinterpret_cast<void *>(2)) bytes = *static_cast<size_t *>(at[1]);
  }
  if (bytes < needed)
    raise(CUDA_ERROR_INVALID_VALUE, "kernel '%s' takes %u arguments in %zu bytes, and got %zu",
          kernel.name, kernel.num_args, needed, bytes);
  return buffer ? std::vector<char>(buffer, buffer + needed) : std::vector<char>();
}

struct Queued {
  SimtLaunch launch;
  std::vector<max_align_t> storage;  // of the arguments, aligned for any of them
  std::vector<void *> pointers;
};

void run(Queued &queued, Context &context) {
  SimtFault fault = {};
  SimtLaunch &launch = queued.launch;
  static uint64_t num_launches = 0;
  launch.number = ++num_launches;
  simt_analysis_begin_launch(&launch);
  int code = 0;
  bool is_complete = run_interruptibly(launch, &fault, &code);
  SimtFault found = fault;
  int finding = simt_analysis_end_launch(&launch, &found);
  if (!is_complete) return drop_pending(context);
  if (!code && finding) code = finding, fault = found;
  if (!code) return;
  fault.code = code;
  record_fault(context, fault);
}

int constant_bytes(const SimtImage &image) {
  size_t bytes = 0;
  for (uint32_t i = 0; i < image.num_globals; i++)
    if (image.globals[i].is_constant) bytes += image.globals[i].bytes;
  return int(bytes);
}

int function_attribute(const Function &function, int id) {
  int capability = 10 * attribute(COMPUTE_CAPABILITY_MAJOR) + attribute(COMPUTE_CAPABILITY_MINOR);
  size_t fixed = function.kernel->static_shared_bytes;
  auto plain = size_t(attribute(MAX_SHARED_MEMORY_PER_BLOCK));
  switch (id) {
    case FUNC_MAX_THREADS_PER_BLOCK: return int(most_threads(*function.kernel));
    case FUNC_SHARED_SIZE_BYTES: return int(fixed);
    case FUNC_CONST_SIZE_BYTES: return constant_bytes(*function.image);
    case FUNC_NUM_REGS: return 0;         // only the GPU's compiler knows: 0 says "unknown"
    case FUNC_LOCAL_SIZE_BYTES: return 0;  // the same
    case FUNC_PTX_VERSION: case FUNC_BINARY_VERSION: return capability;
    case FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return int(std::max(function.max_dynamic_shared_bytes, plain > fixed ? plain - fixed : 0));
  }
  if (id < 0 || id > LAST_FUNC_ATTRIBUTE) raise(CUDA_ERROR_INVALID_VALUE);
  return 0;
}

// Blocks that fit on a multiprocessor by threads, shared memory and number; registers are unknown.
int blocks_per_multiprocessor(const Function &function, int threads, size_t dynamic_bytes) {
  if (threads <= 0) raise(CUDA_ERROR_INVALID_VALUE, "a block of %d threads", threads);
  int rounded = (threads + 31) / 32 * 32;
  int blocks = attribute(MAX_THREADS_PER_MULTIPROCESSOR) / rounded;
  blocks = std::min(blocks, attribute(MAX_BLOCKS_PER_MULTIPROCESSOR));
  size_t shared = function.kernel->static_shared_bytes + dynamic_bytes;
  shared += size_t(attribute(RESERVED_SHARED_MEMORY_PER_BLOCK));
  auto all = size_t(attribute(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));
  if (shared) blocks = std::min(blocks, int(all / shared));
  return threads > int(most_threads(*function.kernel)) ? 0 : blocks;
}

}  // namespace

void launch(Context &current, const Function &function, const Shape &shape,
            const std::vector<char> &arguments, Stream *handle) {
  check_launch(function, shape);
  auto queued = std::make_shared<Queued>();
  const SimtKernel &kernel = *function.kernel;
  queued->storage.resize(arguments.size() / sizeof(max_align_t) + 2);
  char *base = reinterpret_cast<char *>(queued->storage.data());
  if (!arguments.empty()) memcpy(base, arguments.data(), arguments.size());
  for (uint32_t i = 0; i < kernel.num_args; i++)
    queued->pointers.push_back(base + kernel.arg_offsets[i]);
  SimtLaunch &made = queued->launch;
  made = {};
  made.kernel = &kernel;
  made.image = function.image;
  made.args = queued->pointers.data();
  memcpy(made.grid, shape.grid, sizeof made.grid);
  memcpy(made.block, shape.block, sizeof made.block);
  made.dynamic_shared_bytes = uint32_t(shape.dynamic_bytes);
  Stream &stream = stream_of(current, handle);
  Context *context = stream.context;
  enqueue(stream, [queued, context] { run(*queued, *context); });
}

}  // namespace driver

using namespace driver;

DRIVER_API cuLaunchKernel(Function *handle, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z,
                          unsigned shared_bytes, Stream *stream, void **arguments, void **extra) {
  return in_context([&](Context &context) {
    Function &function = function_of(handle);
    const SimtKernel &kernel = *function.kernel;
    if (arguments && extra) raise(CUDA_ERROR_INVALID_VALUE, "arguments in two ways");
    Shape shape = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
    launch(context, function, shape,
           arguments ? gather(kernel, arguments) : unpack(kernel, extra), stream);
  });
}

// Blocks of such a grid may wait for each other: on a GPU all of them must fit at once.
DRIVER_API cuLaunchCooperativeKernel(Function *handle, unsigned grid_x, unsigned grid_y,
                                     unsigned grid_z, unsigned block_x, unsigned block_y,
                                     unsigned block_z, unsigned shared_bytes, Stream *stream,
                                     void **arguments) {
  return in_context([&](Context &context) {
    Function &function = function_of(handle);
    Shape shape = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
    check_launch(function, shape);
    int fit = blocks_per_multiprocessor(function, int(block_x * block_y * block_z), shared_bytes) *
              attribute(MULTIPROCESSOR_COUNT);
    uint64_t blocks = uint64_t(grid_x) * grid_y * grid_z;
    if (blocks > uint64_t(fit))
      raise(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "%llu blocks; at most %d run at once",
            (unsigned long long)blocks, fit);
    launch(context, function, shape, gather(*function.kernel, arguments), stream);
  });
}

DRIVER_API cuFuncGetAttribute(int *value, int id, Function *handle) {
  return in_context([&](Context &) { *value = function_attribute(function_of(handle), id); });
}

DRIVER_API cuFuncSetAttribute(Function *handle, int id, int value) {
  return in_context([&](Context &) {
    Function &function = function_of(handle);
    if (id < FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES || id > LAST_FUNC_ATTRIBUTE)
      raise(CUDA_ERROR_INVALID_VALUE, "function attribute %d cannot be set", id);
    if (id != FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES) return;
    int most = std::max(attribute(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
                        attribute(MAX_SHARED_MEMORY_PER_BLOCK)) -
               int(function.kernel->static_shared_bytes);
    if (value < 0 || value > most)
      raise(CUDA_ERROR_INVALID_VALUE, "%d bytes of dynamic shared memory; kernel '%s' may have %d",
            value, function.kernel->name, most);
    function.max_dynamic_shared_bytes = size_t(value);
  });
}

DRIVER_API cuFuncSetCacheConfig(Function *handle, int) {
  return in_context([&](Context &) { function_of(handle); });
}
DRIVER_API cuFuncSetSharedMemConfig(Function *handle, int) {
  return in_context([&](Context &) { function_of(handle); });
}

DRIVER_API cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Function *handle, int threads,
                                                       size_t dynamic_bytes) {
  return in_context([&](Context &) {
    *blocks = blocks_per_multiprocessor(function_of(handle), threads, dynamic_bytes);
  });
}
