// Contexts: each thread's stack of them, the primary one, faults that stick.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "driver.h"

namespace driver {
namespace {

using Stack = std::vector<Context *>;

Stack &stack() {
  static pthread_key_t key = [] {
    pthread_key_t made;
    pthread_key_create(&made, [](void *old) { delete static_cast<Stack *>(old); });
    return made;
  }();
  auto *mine = static_cast<Stack *>(pthread_getspecific(key));
  if (!mine) pthread_setspecific(key, mine = new Stack);
  return *mine;
}

// Contexts are never freed, so that a stale handle is recognised; what they own is.
std::list<Context> &all_contexts() {
  static auto *contexts = new std::list<Context>;
  return *contexts;
}
Context *primary = nullptr;
SimtFault latest_fault = {};

void revive(Context &context, unsigned flags) {
  context.flags = flags;
  context.is_alive = true;
  context.fault = {};
  context.limits = {{0, 1024}, {1, 1 << 20}, {2, 8 << 20}, {3, 2}, {4, 2048}, {5, 64}, {6, 0}};
  context.streams.emplace_back();
  context.legacy().context = &context;
}

Context &make_context(unsigned flags) {
  Context &context = all_contexts().emplace_back();
  revive(context, flags);
  context.uses = 1;
  return context;
}

void destroy(Context &context) {
  finish(context);
  context.is_alive = false;
  context.uses = 0;
  for (auto &module : context.modules) unload(*module);
  context.modules.clear();
  forget_events(context);
  forget_arrays(context);
  forget_streams(context);
  release_all(context);
  Stack &mine = stack();
  if (!mine.empty() && mine.back() == &context) mine.pop_back();
}

}  // namespace

std::recursive_mutex &driver_lock() {
  static auto *lock = new std::recursive_mutex;  // outlives the statics of a process that ends
  return *lock;
}

Context &current_context() {
  if (stack().empty()) raise(CUDA_ERROR_INVALID_CONTEXT);
  Context &context = *stack().back();
  if (!context.is_alive) raise(CUDA_ERROR_CONTEXT_IS_DESTROYED);
  return context;
}

Context &checked(Context *handle) {
  for (Context &context : all_contexts())
    if (&context == handle) {
      if (!context.is_alive) raise(CUDA_ERROR_CONTEXT_IS_DESTROYED);
      return context;
    }
  raise(CUDA_ERROR_INVALID_CONTEXT, "no such context");
}

void refuse_after_fault(const Context &context) {
  if (context.fault.code) raise(context.fault.code, "%s", context.fault.message);
}

void record_fault(Context &context, const SimtFault &fault) {
  context.fault = latest_fault = fault;
  drop_pending(context);
}

void finish_everything() {
  for (Context &context : all_contexts()) finish(context);
}

void synchronize(Context &context) {
  finish(context);
  refuse_after_fault(context);
}

}  // namespace driver

using namespace driver;

// What the last faulting kernel did, for messages and tests; 0 where there was none.
SIMT_API int simt_driver_last_fault(SimtFault *fault) {
  std::lock_guard<std::recursive_mutex> hold(driver_lock());
  *fault = latest_fault;
  return fault->code;
}

// Lets a notebook go on after a fault, which on a GPU would take a new process.
SIMT_API void simt_driver_clear_fault() {
  std::lock_guard<std::recursive_mutex> hold(driver_lock());
  latest_fault = {};
  for (Context &context : all_contexts()) context.fault = {};
}

DRIVER_API cuCtxCreate_v4(Context **made, void *, unsigned flags, int device) {
  return initialized([&] {
    need_device(device);
    *made = &make_context(flags);
    stack().push_back(*made);
  });
}
DRIVER_API cuCtxCreate_v2(Context **made, unsigned flags, int device) {
  return cuCtxCreate_v4(made, nullptr, flags, device);
}

DRIVER_API cuCtxDestroy_v2(Context *handle) {
  return initialized([&] { destroy(checked(handle)); });
}

DRIVER_API cuCtxAttach(Context **context, unsigned flags) {
  return initialized([&] {
    if (flags) raise(CUDA_ERROR_INVALID_VALUE, "the flags of cuCtxAttach must be 0");
    *context = &current_context();
    (*context)->uses++;
  });
}

DRIVER_API cuCtxDetach(Context *handle) {
  return initialized([&] {
    Context &context = checked(handle);
    if (--context.uses == 0) destroy(context);
  });
}

DRIVER_API cuDevicePrimaryCtxRetain(Context **context, int device) {
  return initialized([&] {
    need_device(device);
    if (!primary) {
      primary = &make_context(0);
      primary->is_primary = true;
      primary->uses = 0;
    } else if (!primary->is_alive) {
      revive(*primary, primary->flags);
    }
    primary->uses++;
    *context = primary;
  });
}

DRIVER_API cuDevicePrimaryCtxRelease_v2(int device) {
  return initialized([&] {
    need_device(device);
    if (!primary || !primary->is_alive) raise(CUDA_ERROR_INVALID_CONTEXT);
    if (--primary->uses == 0) destroy(*primary);
  });
}

DRIVER_API cuDevicePrimaryCtxReset_v2(int device) {
  return initialized([&] {
    need_device(device);
    if (primary && primary->is_alive) destroy(*primary);
  });
}

DRIVER_API cuCtxPushCurrent_v2(Context *handle) {
  return initialized([&] { stack().push_back(&checked(handle)); });
}

DRIVER_API cuCtxPopCurrent_v2(Context **popped) {
  return initialized([&] {
    if (stack().empty()) raise(CUDA_ERROR_INVALID_CONTEXT);
    if (popped) *popped = stack().back();
    stack().pop_back();
  });
}

DRIVER_API cuCtxGetCurrent(Context **current) {
  return initialized([&] { *current = stack().empty() ? nullptr : stack().back(); });
}

DRIVER_API cuCtxSetCurrent(Context *handle) {
  return initialized([&] {
    if (!stack().empty()) stack().pop_back();
    if (handle) stack().push_back(&checked(handle));
  });
}

DRIVER_API cuCtxGetDevice(int *device) {
  return initialized([&] {
    current_context();
    *device = 0;
  });
}

DRIVER_API cuCtxSynchronize() {
  return in_context([](Context &context) { synchronize(context); });
}

DRIVER_API cuCtxGetApiVersion(Context *handle, unsigned *version) {
  return initialized([&] {
    if (handle) checked(handle);
    *version = 13000;
  });
}

DRIVER_API cuCtxGetLimit(size_t *value, int limit) {
  return in_context([&](Context &context) {
    if (!context.limits.count(limit)) raise(CUDA_ERROR_UNSUPPORTED_LIMIT);
    *value = context.limits[limit];
  });
}

DRIVER_API cuCtxSetLimit(int limit, size_t value) {
  return in_context([&](Context &context) {
    if (!context.limits.count(limit)) raise(CUDA_ERROR_UNSUPPORTED_LIMIT);
    context.limits[limit] = value;
  });
}

DRIVER_API cuCtxGetCacheConfig(int *config) {
  return in_context([&](Context &context) { *config = context.cache_config; });
}
DRIVER_API cuCtxSetCacheConfig(int config) {
  return in_context([&](Context &context) { context.cache_config = config; });
}
DRIVER_API cuCtxGetSharedMemConfig(int *config) {
  return in_context([&](Context &context) { *config = context.shared_config; });
}
DRIVER_API cuCtxSetSharedMemConfig(int config) {
  return in_context([&](Context &context) { context.shared_config = config; });
}

DRIVER_API cuCtxEnablePeerAccess(Context *, unsigned) { return 217; }   // one device has no peer
DRIVER_API cuCtxDisablePeerAccess(Context *) { return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED; }
