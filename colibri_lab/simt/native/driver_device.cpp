// The one emulated device: which GPU it takes after is told from outside.
#include <stdio.h>
#include <string.h>

#include <algorithm>

#include "driver.h"

namespace driver {

Gpu *gpu = nullptr;
bool is_initialized = false;

namespace {
constexpr int kDriverVersion = 13000;
constexpr const char *kBusId = "0000:00:00.0";
bool has_contexts = false;
}  // namespace

int attribute(int id) {
  auto found = gpu->attributes.find(id);
  return found == gpu->attributes.end() ? 0 : found->second;
}

void need_device(int device) {
  has_contexts = true;
  if (device != 0) raise(CUDA_ERROR_INVALID_DEVICE, "there is one device, 0, not %d", device);
}

}  // namespace driver

using namespace driver;

// Says which GPU to take after: `attributes` are pairs of a CUdevice_attribute and its value.
// Refused (with 1) once a program has looked at the device.
SIMT_API int simt_driver_configure(const char *name, uint64_t memory_bytes,
                                   const int32_t *attributes, uint32_t num_attributes,
                                   uint64_t seed) {
  std::lock_guard<std::recursive_mutex> hold(driver_lock());
  if (gpu && has_contexts) return 1;
  auto made = std::make_unique<Gpu>();
  made->name = name;
  made->memory_bytes = memory_bytes;
  made->seed = seed;
  for (uint32_t i = 0; i < num_attributes; i++)
    made->attributes[attributes[2 * i]] = attributes[2 * i + 1];
  delete gpu;
  gpu = made.release();
  return 0;
}

// The order of work may be changed at any time.
SIMT_API void simt_driver_seed(uint64_t seed) {
  std::lock_guard<std::recursive_mutex> hold(driver_lock());
  if (gpu) gpu->seed = seed;
}

DRIVER_API cuInit(unsigned flags) {
  return guarded([&] {
    if (flags) raise(CUDA_ERROR_INVALID_VALUE, "the flags of cuInit must be 0");
    if (!gpu) raise(CUDA_ERROR_NO_DEVICE, "call colibri_lab.simt.enable() first");
    is_initialized = true;
  });
}

DRIVER_API cuDriverGetVersion(int *version) {
  *version = kDriverVersion;
  return CUDA_SUCCESS;
}

DRIVER_API cuDeviceGetCount(int *count) {
  return initialized([&] { *count = 1; });
}

DRIVER_API cuDeviceGet(int *device, int ordinal) {
  return initialized([&] {
    need_device(ordinal);
    *device = ordinal;
  });
}

DRIVER_API cuDeviceGetName(char *name, int bytes, int device) {
  return initialized([&] {
    need_device(device);
    if (!name || bytes <= 0) raise(CUDA_ERROR_INVALID_VALUE);
    snprintf(name, bytes, "%s", gpu->name.c_str());
  });
}

DRIVER_API cuDeviceTotalMem_v2(size_t *bytes, int device) {
  return initialized([&] {
    need_device(device);
    *bytes = gpu->memory_bytes;
  });
}

DRIVER_API cuDeviceComputeCapability(int *major, int *minor, int device) {
  return initialized([&] {
    need_device(device);
    *major = attribute(COMPUTE_CAPABILITY_MAJOR);
    *minor = attribute(COMPUTE_CAPABILITY_MINOR);
  });
}

DRIVER_API cuDeviceGetAttribute(int *value, int id, int device) {
  return initialized([&] {
    need_device(device);
    if (id < 1 || id > LAST_DEVICE_ATTRIBUTE)
      raise(CUDA_ERROR_INVALID_VALUE, "no device attribute %d", id);
    *value = attribute(id);
  });
}

DRIVER_API cuDeviceGetPCIBusId(char *id, int bytes, int device) {
  return initialized([&] {
    need_device(device);
    if (!id || bytes <= 0) raise(CUDA_ERROR_INVALID_VALUE);
    snprintf(id, bytes, "%s", kBusId);
  });
}

DRIVER_API cuDeviceGetByPCIBusId(int *device, const char *id) {
  return initialized([&] {
    if (!id) raise(CUDA_ERROR_INVALID_VALUE);
    // "domain:bus:device.function", where domain and function may be left out
    std::string full(kBusId), asked(id);
    if (std::count(asked.begin(), asked.end(), ':') == 1) asked = "0000:" + asked;
    if (asked.find('.') == std::string::npos) asked += ".0";
    if (asked != full) raise(CUDA_ERROR_INVALID_DEVICE, "the device's bus is %s", kBusId);
    *device = 0;
  });
}

DRIVER_API cuDeviceCanAccessPeer(int *can, int device, int peer) {
  return initialized([&] {
    need_device(device);
    need_device(peer);
    *can = 0;
  });
}

DRIVER_API cuProfilerInitialize(const char *, const char *, int) {
  return guarded([] { raise(CUDA_ERROR_NOT_SUPPORTED, "CUDA 12 dropped cuProfilerInitialize"); });
}
DRIVER_API cuProfilerStart() {
  return in_context([](Context &) {});
}
DRIVER_API cuProfilerStop() {
  return in_context([](Context &) {});
}
