// Launches as they were before CUDA 4: the function remembers its block, arguments and stream.
#include <string.h>

#include "driver.h"

namespace driver {
namespace {

constexpr size_t kMostArgumentBytes = 32764;

void set_argument(Function &function, int offset, const void *value, size_t bytes) {
  if (offset < 0 || size_t(offset) + bytes > kMostArgumentBytes)
    raise(CUDA_ERROR_INVALID_VALUE, "an argument of %zu bytes at offset %d", bytes, offset);
  if (function.arguments.size() < offset + bytes) function.arguments.resize(offset + bytes);
  if (bytes) memcpy(function.arguments.data() + offset, value, bytes);
}

int launch_grid(Function *handle, int width, int height, Stream *stream) {
  return in_context([&](Context &context) {
    Function &function = function_of(handle);
    const SimtKernel &kernel = *function.kernel;
    Shape shape = {{unsigned(width), unsigned(height), 1},
                   {function.block[0], function.block[1], function.block[2]},
                   function.shared_bytes};
    uint32_t last = kernel.num_args ? kernel.num_args - 1 : 0;
    size_t needed = kernel.num_args ? kernel.arg_offsets[last] + kernel.arg_sizes[last] : 0;
    if (function.arguments.size() < needed)
      raise(CUDA_ERROR_INVALID_VALUE, "kernel '%s' takes %zu bytes of arguments, and got %zu",
            kernel.name, needed, function.arguments.size());
    launch(context, function, shape, function.arguments, stream);
  });
}

}  // namespace
}  // namespace driver

using namespace driver;

DRIVER_API cuFuncSetBlockShape(Function *handle, int x, int y, int z) {
  return in_context([&](Context &) {
    Function &function = function_of(handle);
    if (x < 1 || y < 1 || z < 1)
      raise(CUDA_ERROR_INVALID_VALUE, "a block of %d x %d x %d threads", x, y, z);
    unsigned block[3] = {unsigned(x), unsigned(y), unsigned(z)};
    memcpy(function.block, block, sizeof block);
  });
}

DRIVER_API cuFuncSetSharedSize(Function *handle, unsigned bytes) {
  return in_context([&](Context &) { function_of(handle).shared_bytes = bytes; });
}

DRIVER_API cuParamSetSize(Function *handle, unsigned bytes) {
  return in_context([&](Context &) {
    if (bytes > kMostArgumentBytes) raise(CUDA_ERROR_INVALID_VALUE);
    function_of(handle).arguments.resize(bytes);
  });
}
DRIVER_API cuParamSeti(Function *handle, int offset, unsigned value) {
  return in_context(
      [&](Context &) { set_argument(function_of(handle), offset, &value, sizeof value); });
}
DRIVER_API cuParamSetf(Function *handle, int offset, float value) {
  return in_context(
      [&](Context &) { set_argument(function_of(handle), offset, &value, sizeof value); });
}
DRIVER_API cuParamSetv(Function *handle, int offset, void *value, unsigned bytes) {
  return in_context([&](Context &) { set_argument(function_of(handle), offset, value, bytes); });
}

DRIVER_API cuLaunch(Function *handle) { return launch_grid(handle, 1, 1, nullptr); }
DRIVER_API cuLaunchGrid(Function *handle, int width, int height) {
  return launch_grid(handle, width, height, nullptr);
}
DRIVER_API cuLaunchGridAsync(Function *handle, int width, int height, Stream *stream) {
  return launch_grid(handle, width, height, stream);
}
