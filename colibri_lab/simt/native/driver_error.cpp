// Errors: names, texts, and what was wrong in particular.
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "driver.h"

namespace driver {
namespace {

struct Known {
  int code;
  const char *name, *text;
};

constexpr Known kKnown[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {215, "CUDA_ERROR_UNSUPPORTED_LIMIT", "limit is not supported on this architecture"},
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "peer access is not supported between these two devices"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {300, "CUDA_ERROR_INVALID_SOURCE", "device kernel image is invalid"},
    {301, "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
    {302, "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND", "shared object symbol not found"},
    {303, "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED", "shared object initialization failed"},
    {304, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled"},
    {708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE",
     "cannot set while device is active in this process"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {710, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {714, "CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error"},
    {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {717, "CUDA_ERROR_INVALID_ADDRESS_SPACE",
     "operation not supported on global/shared address space"},
    {718, "CUDA_ERROR_INVALID_PC", "invalid program counter"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const Known *known(int code) {
  for (const Known &entry : kKnown)
    if (entry.code == code) return &entry;
  return nullptr;
}

// What the last failing call of a thread said. Two texts, so that the pointer which one call to
// cuGetErrorString gave outlives the next failure.
struct LastError {
  int code = 0;
  std::string texts[2];
  int turn = 0;
};

LastError &last_error() {
  static pthread_key_t key = [] {
    pthread_key_t made;
    pthread_key_create(&made, [](void *old) { delete static_cast<LastError *>(old); });
    return made;
  }();
  auto *mine = static_cast<LastError *>(pthread_getspecific(key));
  if (!mine) pthread_setspecific(key, mine = new LastError);
  return *mine;
}

}  // namespace

const char *standard_text(int code) {
  const Known *entry = known(code);
  return entry ? entry->text : "unrecognized error code";
}

void raise(int code) { throw Failure{code, ""}; }

void raise(int code, const char *format, ...) {
  char text[1400];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  throw Failure{code, text};
}

int remember(const Failure &failure) {
  if (failure.code == CUDA_SUCCESS) return CUDA_SUCCESS;
  LastError &last = last_error();
  last.code = failure.code;
  last.turn ^= 1;
  last.texts[last.turn] = failure.detail.empty()
                              ? ""
                              : std::string(standard_text(failure.code)) + ": " + failure.detail;
  return failure.code;
}

}  // namespace driver

using namespace driver;

// PyCUDA asks for the text at once, on the thread of the failing call: so it can say more than the
// code does.
DRIVER_API cuGetErrorString(int code, const char **text) {
  const LastError &last = last_error();
  const Known *entry = known(code);
  bool has_detail = last.code == code && !last.texts[last.turn].empty();
  *text = has_detail ? last.texts[last.turn].c_str() : standard_text(code);
  return entry ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

DRIVER_API cuGetErrorName(int code, const char **name) {
  const Known *entry = known(code);
  *name = entry ? entry->name : nullptr;
  return entry ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
