// What the parts of the driver share: errors, the device, contexts, streams' queues, memory.
//
// Nothing happens when work is queued. It runs later, on the thread that synchronises, in an order
// that only the CUDA rules bind: so a missing synchronisation shows, and shows again. One lock
// guards everything; a kernel runs while it is held.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <unordered_set>
#include <vector>

#include "abi.h"
#include "driver_types.h"

#define DRIVER_API extern "C" __attribute__((visibility("default"))) int

namespace driver {

// ---- errors (driver_error.cpp) -----------------------------------------------------------------

struct Failure {
  int code;
  std::string detail;  // added to the standard text by cuGetErrorString on this thread
};
[[noreturn]] void raise(int code);
[[noreturn]] void raise(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *standard_text(int code);
int remember(const Failure &failure);  // for cuGetErrorString; returns the code

// ---- the device (driver_device.cpp) ------------------------------------------------------------

struct Gpu {
  std::string name;
  uint64_t memory_bytes = 0;
  std::map<int, int> attributes;  // by CUdevice_attribute
  uint64_t seed = 0;              // 0: work runs as late as it may; else: when the seed says so
};
extern Gpu *gpu;  // null until configured
extern bool is_initialized;
int attribute(int id);  // 0 where the table has none
void need_device(int device);

// ---- queues (driver_queue.cpp) -----------------------------------------------------------------

struct Stream;
struct Context;

struct Work {
  Stream *stream = nullptr;
  std::function<void()> run;
  std::vector<std::shared_ptr<Work>> after;  // of other streams
  bool is_done = false;
};
using WorkRef = std::shared_ptr<Work>;

struct Stream {
  Context *context = nullptr;
  bool is_blocking = true;  // ordered with the legacy default stream
  bool is_destroyed = false;
  std::deque<WorkRef> pending;
};

WorkRef enqueue(Stream &stream, std::function<void()> run, WorkRef after = nullptr);
void finish(const WorkRef &work);  // runs it, and what must come before it
void finish(Stream &stream);
void finish(Context &context);
void finish_everything();  // of all contexts
void run_one(const WorkRef &towards);  // a single piece of work on the way to that one
void drop_pending(Context &context);
void forget_streams(Context &context);  // with their handles (driver_stream.cpp)
void forget_events(Context &context);

// ---- contexts (driver_context.cpp) -------------------------------------------------------------

struct Module;
struct Event;
struct Array;

struct Context {
  unsigned flags = 0;
  int uses = 0;
  bool is_alive = true, is_primary = false;
  SimtFault fault = {};  // sticky
  std::list<Stream> streams;  // the first is the legacy default stream
  std::list<std::shared_ptr<Module>> modules;
  std::map<int, size_t> limits;
  int cache_config = 0, shared_config = 0;
  Stream *per_thread = nullptr;

  Stream &legacy() { return streams.front(); }
};

std::recursive_mutex &driver_lock();
Context &current_context();          // of this thread; raises where there is none
Context &checked(Context *context);  // a live one of ours, or raises
void refuse_after_fault(const Context &context);
void synchronize(Context &context);  // finishes, and raises what went wrong
void record_fault(Context &context, const SimtFault &fault);
Stream &stream_of(Context &context, Stream *handle);  // 0, 1, 2 are the default streams

// Runs the body of an API function under the lock, and turns what it raises into a CUresult.
template <class Body>
int guarded(Body body) {
  std::lock_guard<std::recursive_mutex> hold(driver_lock());
  try {
    body();
    return remember({CUDA_SUCCESS, ""});
  } catch (const Failure &failure) {
    return remember(failure);
  } catch (const std::bad_alloc &) {
    return remember({CUDA_ERROR_OUT_OF_MEMORY, "the host has no memory left"});
  }
}

template <class Body>
int initialized(Body body) {
  return guarded([&] {
    if (!is_initialized) raise(CUDA_ERROR_NOT_INITIALIZED);
    body();
  });
}

template <class Body>
int in_context(Body body) {
  return initialized([&] {
    Context &context = current_context();
    refuse_after_fault(context);
    body(context);
  });
}

// A handle that is none of this kind's live ones is refused, not followed. All such tables are
// allocated and never freed: calls may come while a process ends.
template <class T>
class Handles {
 public:
  void add(T *handle) { live_.insert(handle); }
  void remove(T *handle) { live_.erase(handle); }
  T &check(T *handle, const char *what) const {
    if (!live_.count(handle)) raise(CUDA_ERROR_INVALID_HANDLE, "no such %s", what);
    return *handle;
  }

 private:
  std::unordered_set<T *> live_;
};

// ---- memory (driver_memory.cpp) ----------------------------------------------------------------

struct Block {
  SimtAllocation allocation;
  Context *context;
  unsigned flags;          // as the host gave them
  char *span;              // the pages, a guard page behind them; null where they are not ours
  size_t span_bytes;
};

uint64_t allocate_device(Context &context, size_t bytes);
void release(uint64_t base, uint32_t kind);  // once all queued work has run
void release_all(Context &context);
void add_block(const Block &block);
Block take_block(uint64_t base);             // out of the table: the pages stay
bool find_block(uint64_t address, Block *found);
uint64_t allocated_bytes();
void need_range(uint64_t address, size_t bytes, const char *what);  // in one live allocation
bool is_pageable(const void *address);
void wrote(const void *address, size_t bytes);

// ---- arrays (driver_array.cpp) -----------------------------------------------------------------

struct Array {
  uint64_t data = 0;
  size_t width = 0, height = 0, depth = 0;  // elements; 0: no such axis
  size_t pitch = 0, rows = 1;               // bytes, and rows a slice
  int format = 0;
  unsigned channels = 0, flags = 0;
};
Array &array_of(Array *handle);
void forget_arrays(Context &context);

// ---- modules (driver_module.cpp) ---------------------------------------------------------------

struct Function {
  Module *module = nullptr;
  const SimtImage *image = nullptr;
  const SimtKernel *kernel = nullptr;
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;                // of the old calls
  std::vector<char> arguments;              // of the old calls
  size_t max_dynamic_shared_bytes = 0;      // that cuFuncSetAttribute asked for
};
Function &function_of(Function *handle);

struct Shape {
  unsigned grid[3], block[3];
  size_t dynamic_bytes;
};
// The arguments lie packed, each at its kernel's offset (driver_launch.cpp).
void launch(Context &context, const Function &function, const Shape &shape,
            const std::vector<char> &arguments, Stream *stream);
void unload(Module &module);
void clear_logs(unsigned num_options, const int *options, void **values);  // nothing was said
bool image_from_text(const void *text, std::vector<char> *image);  // what stands in for PTX


// False where Ctrl-C stopped it (driver_interrupt.cpp).
bool run_interruptibly(const SimtLaunch &launch, SimtFault *fault, int *code);

}  // namespace driver
