// Copies of two and three dimensions, and arrays (plain pitched memory: there are no textures).
#include <string.h>

#include <algorithm>

#include "driver.h"

namespace driver {
namespace {

auto &live_arrays = *new Handles<Array>;
struct Owned {
  Context *context;
  std::unique_ptr<Array> array;
};
auto &arrays = *new std::list<Owned>;

size_t format_bytes(int format) {
  switch (format) {
    case 0x01: case 0x08: return 1;
    case 0x02: case 0x09: case 0x10: return 2;
    case 0x03: case 0x0a: case 0x20: return 4;
  }
  raise(CUDA_ERROR_INVALID_VALUE, "no such array format: %#x", format);
}

size_t element_bytes(const Array &array) { return format_bytes(array.format) * array.channels; }

Array *make_array(Context &context, const Array3DDescriptor &wanted) {
  if (!wanted.width) raise(CUDA_ERROR_INVALID_VALUE, "an array of no width");
  if (wanted.channels != 1 && wanted.channels != 2 && wanted.channels != 4)
    raise(CUDA_ERROR_INVALID_VALUE, "1, 2 or 4 channels, not %u", wanted.channels);
  auto array = std::make_unique<Array>();
  array->width = wanted.width;
  array->height = wanted.height;
  array->depth = wanted.depth;
  array->format = wanted.format;
  array->channels = wanted.channels;
  array->flags = wanted.flags;
  array->pitch = wanted.width * element_bytes(*array);
  array->rows = std::max<size_t>(wanted.height, 1);
  size_t slices = std::max<size_t>(wanted.depth, 1);
  array->data = allocate_device(context, array->pitch * array->rows * slices);
  live_arrays.add(array.get());
  arrays.push_back({&context, std::move(array)});
  return arrays.back().array.get();
}

// One side of a copy, worked out: the address of its first byte, and the steps.
struct Region {
  char *begin;
  size_t pitch, slice;
};

Region region(const Side3D &side, const Copy3D &copy, const char *what) {
  Region found = {};
  if (side.type == ARRAY) {
    const Array &array = array_of(side.array);
    found = {reinterpret_cast<char *>(array.data), array.pitch, array.pitch * array.rows};
  } else {
    size_t pitch = side.pitch ? side.pitch : copy.width_bytes;
    size_t rows = side.height ? side.height : copy.height;
    auto device = reinterpret_cast<char *>(side.device);
    bool is_device = side.type == DEVICE || (side.type == UNIFIED && side.device);
    if (side.type < HOST || side.type > UNIFIED)
      raise(CUDA_ERROR_INVALID_VALUE, "no such memory type: %d", side.type);
    // The unified address may come in either member: PyCUDA fills the host's.
    found = {is_device ? device : static_cast<char *>(side.host), pitch, pitch * rows};
    if (pitch < side.x_bytes + copy.width_bytes)
      raise(CUDA_ERROR_INVALID_VALUE, "%s has rows of %zu bytes at a pitch of %zu", what,
            side.x_bytes + copy.width_bytes, pitch);
  }
  found.begin += side.x_bytes + side.y * found.pitch + side.z * found.slice;
  size_t last = (copy.depth - 1) * found.slice + (copy.height - 1) * found.pitch;
  if (side.type == DEVICE || side.type == ARRAY)
    need_range(reinterpret_cast<uint64_t>(found.begin), last + copy.width_bytes, what);
  else if (!found.begin) raise(CUDA_ERROR_INVALID_VALUE, "%s is null", what);
  return found;
}

bool is_host(const Side3D &side, const Region &at) {
  return side.type == HOST || (side.type == UNIFIED && is_pageable(at.begin));
}

void move(const Region &to, const Region &from, size_t width, size_t height, size_t depth) {
  for (size_t z = 0; z < depth; z++)
    for (size_t y = 0; y < height; y++) {
      char *at = to.begin + z * to.slice + y * to.pitch;
      memmove(at, from.begin + z * from.slice + y * from.pitch, width);
      wrote(at, width);
    }
}

// Waits where a side is the host's, or is not pinned where the copy is asynchronous.
void copy_3d(Stream &stream, const Copy3D &copy, bool is_async) {
  if (!copy.width_bytes || !copy.height || !copy.depth) return;
  Region from = region(copy.from, copy, "the copy's source");
  Region to = region(copy.to, copy, "the copy's destination");
  Context &context = *stream.context;
  WorkRef work = enqueue(
      stream, [=] { move(to, from, copy.width_bytes, copy.height, copy.depth); });
  bool waits = is_async ? is_pageable(from.begin) || is_pageable(to.begin)
                        : is_host(copy.from, from) || is_host(copy.to, to);
  if (!waits) return;
  finish(work);
  refuse_after_fault(context);
}

Side3D with_depth(const Side2D &side) {
  return {side.x_bytes, side.y, 0, 0, side.type, side.host, side.device, side.array, nullptr,
          side.pitch, 0};
}

int copy_2d(const Copy2D *copy, Stream *stream, bool is_async) {
  return in_context([&](Context &context) {
    if (!copy) raise(CUDA_ERROR_INVALID_VALUE);
    copy_3d(stream_of(context, stream),
            {with_depth(copy->from), with_depth(copy->to), copy->width_bytes, copy->height, 1},
            is_async);
  });
}

int copy_any(const Copy3D *copy, Stream *stream, bool is_async) {
  return in_context([&](Context &context) {
    if (!copy) raise(CUDA_ERROR_INVALID_VALUE);
    copy_3d(stream_of(context, stream), *copy, is_async);
  });
}

// One row between an array and memory.
int copy_row(Side3D to, Side3D from, size_t bytes, Stream *stream, bool is_async) {
  to.pitch = to.x_bytes + bytes;
  from.pitch = from.x_bytes + bytes;
  Copy3D copy = {from, to, bytes, 1, 1};
  return copy_any(&copy, stream, is_async);
}
Side3D in_array(Array *array, size_t offset) {
  return {offset, 0, 0, 0, ARRAY, nullptr, 0, array, nullptr, 0, 0};
}
Side3D on_device(uint64_t address) {
  return {0, 0, 0, 0, DEVICE, nullptr, address, nullptr, nullptr, 0, 0};
}
Side3D on_host(const void *address) {
  return {0, 0, 0, 0, HOST, const_cast<void *>(address), 0, nullptr, nullptr, 0, 0};
}

}  // namespace

Array &array_of(Array *handle) { return live_arrays.check(handle, "array"); }

void forget_arrays(Context &context) {
  for (const Owned &owned : arrays)
    if (owned.context == &context) live_arrays.remove(owned.array.get());
  arrays.remove_if([&](const Owned &owned) { return owned.context == &context; });
}

}  // namespace driver

using namespace driver;

DRIVER_API cuArrayCreate_v2(Array **made, const ArrayDescriptor *wanted) {
  return in_context([&](Context &context) {
    *made = make_array(context, {wanted->width, wanted->height, 0, wanted->format,
                                 wanted->channels, 0});
  });
}
DRIVER_API cuArray3DCreate_v2(Array **made, const Array3DDescriptor *wanted) {
  return in_context([&](Context &context) { *made = make_array(context, *wanted); });
}
DRIVER_API cuArrayGetDescriptor_v2(ArrayDescriptor *found, Array *handle) {
  return in_context([&](Context &) {
    const Array &array = array_of(handle);
    *found = {array.width, array.height, array.format, array.channels};
  });
}
DRIVER_API cuArray3DGetDescriptor_v2(Array3DDescriptor *found, Array *handle) {
  return in_context([&](Context &) {
    const Array &a = array_of(handle);
    *found = {a.width, a.height, a.depth, a.format, a.channels, a.flags};
  });
}
DRIVER_API cuArrayDestroy(Array *handle) {
  return initialized([&] {
    release(array_of(handle).data, SIMT_DEVICE);
    live_arrays.remove(handle);
    arrays.remove_if([&](const Owned &owned) { return owned.array.get() == handle; });
  });
}

DRIVER_API cuMemcpy2D_v2(const Copy2D *copy) { return copy_2d(copy, nullptr, false); }
DRIVER_API cuMemcpy2DUnaligned_v2(const Copy2D *copy) { return copy_2d(copy, nullptr, false); }
DRIVER_API cuMemcpy2DAsync_v2(const Copy2D *copy, Stream *stream) {
  return copy_2d(copy, stream, true);
}
DRIVER_API cuMemcpy3D_v2(const Copy3D *copy) { return copy_any(copy, nullptr, false); }
DRIVER_API cuMemcpy3DAsync_v2(const Copy3D *copy, Stream *stream) {
  return copy_any(copy, stream, true);
}
DRIVER_API cuMemcpy3DPeer(const Copy3D *copy) { return copy_any(copy, nullptr, false); }
DRIVER_API cuMemcpy3DPeerAsync(const Copy3D *copy, Stream *stream) {
  return copy_any(copy, stream, true);
}

DRIVER_API cuMemcpyDtoA_v2(Array *to, size_t offset, uint64_t from, size_t bytes) {
  return copy_row(in_array(to, offset), on_device(from), bytes, nullptr, false);
}
DRIVER_API cuMemcpyAtoD_v2(uint64_t to, Array *from, size_t offset, size_t bytes) {
  return copy_row(on_device(to), in_array(from, offset), bytes, nullptr, false);
}
DRIVER_API cuMemcpyHtoA_v2(Array *to, size_t offset, const void *from, size_t bytes) {
  return copy_row(in_array(to, offset), on_host(from), bytes, nullptr, false);
}
DRIVER_API cuMemcpyAtoH_v2(void *to, Array *from, size_t offset, size_t bytes) {
  return copy_row(on_host(to), in_array(from, offset), bytes, nullptr, false);
}
DRIVER_API cuMemcpyAtoA_v2(Array *to, size_t to_offset, Array *from, size_t from_offset,
                           size_t bytes) {
  return copy_row(in_array(to, to_offset), in_array(from, from_offset), bytes, nullptr, false);
}
