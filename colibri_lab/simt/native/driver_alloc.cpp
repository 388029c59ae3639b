// Device, managed, pinned and registered memory.
#include <stdlib.h>
#include <sys/mman.h>

#include "driver.h"

namespace driver {
namespace {

constexpr size_t kPitchUnit = 512;
constexpr unsigned kMostHostFlags = 15;  // portable, mapped, write-combined; io, read-only

uint64_t number(const void *pointer) { return reinterpret_cast<uint64_t>(pointer); }

void *allocate_pinned(Context &context, size_t bytes, unsigned flags) {
  if (!bytes) raise(CUDA_ERROR_INVALID_VALUE, "0 bytes asked for");
  if (flags > kMostHostFlags) raise(CUDA_ERROR_INVALID_VALUE, "no such flags: %u", flags);
  void *pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) raise(CUDA_ERROR_OUT_OF_MEMORY, "the host has no memory left");
  size_t span = (bytes + 4095) / 4096 * 4096;
  SimtAllocation allocation = {number(pages), bytes, 0, SIMT_HOST_PINNED, 0};
  add_block({allocation, &context, flags, static_cast<char *>(pages), span});
  return pages;
}

// Pinned or registered memory, by any address in it.
Block pinned_block(const void *address) {
  Block found;
  if (!find_block(number(address), &found) || found.allocation.kind != SIMT_HOST_PINNED)
    raise(CUDA_ERROR_INVALID_VALUE, "the memory is neither pinned nor registered");
  return found;
}

void register_memory(Context &context, void *address, size_t bytes, unsigned flags) {
  Block found;
  if (!address || !bytes) raise(CUDA_ERROR_INVALID_VALUE, "no memory to register");
  if (find_block(number(address), &found) || find_block(number(address) + bytes - 1, &found))
    raise(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  add_block({{number(address), bytes, 0, SIMT_HOST_PINNED, 0}, &context, flags, nullptr, 0});
}

}  // namespace
}  // namespace driver

using namespace driver;

DRIVER_API cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
  return in_context([&](Context &) {
    *total_bytes = gpu->memory_bytes;
    *free_bytes = gpu->memory_bytes - allocated_bytes();
  });
}

DRIVER_API cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  return in_context([&](Context &context) { *address = allocate_device(context, bytes); });
}

DRIVER_API cuMemAllocManaged(uint64_t *address, size_t bytes, unsigned flags) {
  return in_context([&](Context &context) {
    if (flags < 1 || flags > 2) raise(CUDA_ERROR_INVALID_VALUE, "attach to global (1) or host (2)");
    *address = allocate_device(context, bytes);
    wrote(reinterpret_cast<void *>(*address), bytes);  // the host writes there unseen
  });
}

DRIVER_API cuMemAllocPitch_v2(uint64_t *address, size_t *pitch, size_t width, size_t height,
                              unsigned element_bytes) {
  return in_context([&](Context &context) {
    if (element_bytes != 4 && element_bytes != 8 && element_bytes != 16)
      raise(CUDA_ERROR_INVALID_VALUE, "elements of 4, 8 or 16 bytes, not %u", element_bytes);
    *pitch = (width + kPitchUnit - 1) / kPitchUnit * kPitchUnit;
    *address = allocate_device(context, *pitch * height);
  });
}

// Waits for the context's work, as the real one does; frees also after a fault.
DRIVER_API cuMemFree_v2(uint64_t address) {
  return initialized([&] {
    Context &context = current_context();
    if (address) release(address, SIMT_DEVICE);
    refuse_after_fault(context);
  });
}

DRIVER_API cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t address) {
  return in_context([&](Context &) {
    Block found;
    if (!find_block(address, &found))
      raise(CUDA_ERROR_NOT_FOUND, "%#lx is in no allocation", long(address));
    if (base) *base = found.allocation.base;
    if (bytes) *bytes = found.allocation.bytes;
  });
}

DRIVER_API cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
  return in_context(
      [&](Context &context) { *address = allocate_pinned(context, bytes, flags); });
}
DRIVER_API cuMemAllocHost_v2(void **address, size_t bytes) {
  return cuMemHostAlloc(address, bytes, 0);
}

DRIVER_API cuMemFreeHost(void *address) {
  return initialized([&] {
    Context &context = current_context();
    Block found = pinned_block(address);
    if (!found.span)
      raise(CUDA_ERROR_INVALID_VALUE, "registered memory is unregistered, not freed");
    release(found.allocation.base, SIMT_HOST_PINNED);
    refuse_after_fault(context);
  });
}

DRIVER_API cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags) {
  return in_context([&](Context &context) { register_memory(context, address, bytes, flags); });
}

DRIVER_API cuMemHostUnregister(void *address) {
  return initialized([&] {
    Context &context = current_context();
    Block found;
    if (!find_block(number(address), &found) || found.span ||
        found.allocation.kind != SIMT_HOST_PINNED || found.allocation.base != number(address))
      raise(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    release(found.allocation.base, SIMT_HOST_PINNED);
    refuse_after_fault(context);
  });
}

// One address space: the host's pointer is the device's.
DRIVER_API cuMemHostGetDevicePointer_v2(uint64_t *device, void *host, unsigned) {
  return in_context([&](Context &) {
    pinned_block(host);
    *device = number(host);
  });
}

DRIVER_API cuMemHostGetFlags(unsigned *flags, void *host) {
  return in_context([&](Context &) { *flags = pinned_block(host).flags; });
}
