// Copies of one dimension, and memsets.
//
// A call without "Async" belongs to the legacy default stream. Those with the host on one side
// return when it is done; those within the device do not wait. An asynchronous copy to memory that
// is not pinned waits, one from such memory takes it along at once: as CUDA documents it.
#include <string.h>

#include "driver.h"

namespace driver {
namespace {

void *pointer(uint64_t address) { return reinterpret_cast<void *>(address); }

void move(void *to, const void *from, size_t bytes) {
  if (!bytes) return;
  memmove(to, from, bytes);
  wrote(to, bytes);
}

void settle(const WorkRef &work) {
  Context &context = *work->stream->context;
  finish(work);
  refuse_after_fault(context);
}

void host_to_device(Stream &stream, uint64_t to, const void *from, size_t bytes, bool is_async) {
  need_range(to, bytes, "the copy's destination");
  if (bytes && !from) raise(CUDA_ERROR_INVALID_VALUE, "the copy's source is null");
  if (is_async && is_pageable(from)) {
    auto *begin = static_cast<const char *>(from);
    auto taken = std::make_shared<std::vector<char>>(begin, begin + bytes);
    enqueue(stream, [=] { move(pointer(to), taken->data(), bytes); });
    return;
  }
  WorkRef work = enqueue(stream, [=] { move(pointer(to), from, bytes); });
  if (!is_async) settle(work);
}

void device_to_host(Stream &stream, void *to, uint64_t from, size_t bytes, bool is_async) {
  need_range(from, bytes, "the copy's source");
  if (bytes && !to) raise(CUDA_ERROR_INVALID_VALUE, "the copy's destination is null");
  WorkRef work = enqueue(stream, [=] { move(to, pointer(from), bytes); });
  if (!is_async || is_pageable(to)) settle(work);
}

void within_device(Stream &stream, uint64_t to, uint64_t from, size_t bytes) {
  need_range(to, bytes, "the copy's destination");
  need_range(from, bytes, "the copy's source");
  enqueue(stream, [=] { move(pointer(to), pointer(from), bytes); });
}

// Any side may be host memory: the address tells.
void anywhere(Stream &stream, uint64_t to, uint64_t from, size_t bytes, bool is_async) {
  Block found;
  if (!find_block(to, &found)) return device_to_host(stream, pointer(to), from, bytes, is_async);
  if (!find_block(from, &found)) return host_to_device(stream, to, pointer(from), bytes, is_async);
  within_device(stream, to, from, bytes);
}

template <class T>
void fill_rows(uint64_t to, size_t pitch, T value, size_t width, size_t height) {
  for (size_t row = 0; row < height; row++) {
    auto *at = static_cast<T *>(pointer(to + row * pitch));
    for (size_t i = 0; i < width; i++) at[i] = value;
    wrote(at, width * sizeof(T));
  }
}

template <class T>
int set_rows(uint64_t to, size_t pitch, T value, size_t width, size_t height, Stream *stream) {
  return in_context([&](Context &context) {
    if (to % sizeof(T) || (height > 1 && pitch % sizeof(T)))
      raise(CUDA_ERROR_INVALID_VALUE, "values of %zu bytes must be aligned to them", sizeof(T));
    if (height > 1 && pitch < width * sizeof(T))
      raise(CUDA_ERROR_INVALID_VALUE, "rows of %zu bytes at a pitch of %zu", width * sizeof(T),
            pitch);
    if (!width || !height) return;
    need_range(to, (height - 1) * pitch + width * sizeof(T), "what the memset writes");
    enqueue(stream_of(context, stream), [=] { fill_rows(to, pitch, value, width, height); });
  });
}

}  // namespace
}  // namespace driver

using namespace driver;
using Device = uint64_t;

DRIVER_API cuMemcpyHtoD_v2(Device to, const void *from, size_t bytes) {
  return in_context([&](Context &c) { host_to_device(c.legacy(), to, from, bytes, false); });
}
DRIVER_API cuMemcpyHtoDAsync_v2(Device to, const void *from, size_t bytes, Stream *stream) {
  return in_context(
      [&](Context &c) { host_to_device(stream_of(c, stream), to, from, bytes, true); });
}
DRIVER_API cuMemcpyDtoH_v2(void *to, Device from, size_t bytes) {
  return in_context([&](Context &c) { device_to_host(c.legacy(), to, from, bytes, false); });
}
DRIVER_API cuMemcpyDtoHAsync_v2(void *to, Device from, size_t bytes, Stream *stream) {
  return in_context(
      [&](Context &c) { device_to_host(stream_of(c, stream), to, from, bytes, true); });
}
DRIVER_API cuMemcpyDtoD_v2(Device to, Device from, size_t bytes) {
  return in_context([&](Context &c) { within_device(c.legacy(), to, from, bytes); });
}
DRIVER_API cuMemcpyDtoDAsync_v2(Device to, Device from, size_t bytes, Stream *stream) {
  return in_context([&](Context &c) { within_device(stream_of(c, stream), to, from, bytes); });
}
DRIVER_API cuMemcpy(Device to, Device from, size_t bytes) {
  return in_context([&](Context &c) { anywhere(c.legacy(), to, from, bytes, false); });
}
DRIVER_API cuMemcpyAsync(Device to, Device from, size_t bytes, Stream *stream) {
  return in_context([&](Context &c) { anywhere(stream_of(c, stream), to, from, bytes, true); });
}
DRIVER_API cuMemcpyPeer(Device to, Context *to_context, Device from, Context *from_context,
                        size_t bytes) {
  return in_context([&](Context &c) {
    synchronize(checked(from_context));
    synchronize(checked(to_context));
    within_device(c.legacy(), to, from, bytes);
  });
}
DRIVER_API cuMemcpyPeerAsync(Device to, Context *to_context, Device from, Context *from_context,
                             size_t bytes, Stream *stream) {
  return in_context([&](Context &c) {
    checked(from_context);
    checked(to_context);
    within_device(stream_of(c, stream), to, from, bytes);
  });
}

DRIVER_API cuMemsetD8_v2(Device to, uint8_t value, size_t count) {
  return set_rows(to, 0, value, count, 1, nullptr);
}
DRIVER_API cuMemsetD16_v2(Device to, uint16_t value, size_t count) {
  return set_rows(to, 0, value, count, 1, nullptr);
}
DRIVER_API cuMemsetD32_v2(Device to, uint32_t value, size_t count) {
  return set_rows(to, 0, value, count, 1, nullptr);
}
DRIVER_API cuMemsetD8Async(Device to, uint8_t value, size_t count, Stream *stream) {
  return set_rows(to, 0, value, count, 1, stream);
}
DRIVER_API cuMemsetD16Async(Device to, uint16_t value, size_t count, Stream *stream) {
  return set_rows(to, 0, value, count, 1, stream);
}
DRIVER_API cuMemsetD32Async(Device to, uint32_t value, size_t count, Stream *stream) {
  return set_rows(to, 0, value, count, 1, stream);
}
DRIVER_API cuMemsetD2D8_v2(Device to, size_t pitch, uint8_t value, size_t width, size_t height) {
  return set_rows(to, pitch, value, width, height, nullptr);
}
DRIVER_API cuMemsetD2D16_v2(Device to, size_t pitch, uint16_t value, size_t width, size_t height) {
  return set_rows(to, pitch, value, width, height, nullptr);
}
DRIVER_API cuMemsetD2D32_v2(Device to, size_t pitch, uint32_t value, size_t width, size_t height) {
  return set_rows(to, pitch, value, width, height, nullptr);
}
DRIVER_API cuMemsetD2D8Async(Device to, size_t pitch, uint8_t value, size_t width, size_t height,
                             Stream *stream) {
  return set_rows(to, pitch, value, width, height, stream);
}
DRIVER_API cuMemsetD2D16Async(Device to, size_t pitch, uint16_t value, size_t width,
                              size_t height, Stream *stream) {
  return set_rows(to, pitch, value, width, height, stream);
}
DRIVER_API cuMemsetD2D32Async(Device to, size_t pitch, uint32_t value, size_t width,
                              size_t height, Stream *stream) {
  return set_rows(to, pitch, value, width, height, stream);
}
