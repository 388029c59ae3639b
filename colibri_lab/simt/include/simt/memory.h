// Loads and stores with cache hints, and questions about address spaces.
#pragma once
#include "core.h"

extern "C++" {
#define SIMT_LOAD(name) \
  template <class T> SIMT_FN T name(const T *p) { return *p; }
SIMT_LOAD(__ldg)
SIMT_LOAD(__ldca)
SIMT_LOAD(__ldcg)
SIMT_LOAD(__ldcs)
SIMT_LOAD(__ldlu)
SIMT_LOAD(__ldcv)
#undef SIMT_LOAD
template <class T> struct simt_same { using Type = T; };
#define SIMT_STORE(name) \
  template <class T> SIMT_FN void name(T *p, typename simt_same<T>::Type v) { *p = v; }
SIMT_STORE(__stwb)
SIMT_STORE(__stcg)
SIMT_STORE(__stcs)
SIMT_STORE(__stwt)
#undef SIMT_STORE

namespace simt {
SIMT_FN bool is_in_shared(const void *p) {
  const void *me = self();
  const char *begin = load64<offsetof(SimtThread, static_shared)>(me);
  const char *dynamic = load64<offsetof(SimtThread, shared)>(me);
  const void *launch = load64<kLaunch>(me);
  const char *end = dynamic + load32<offsetof(SimtLaunch, dynamic_shared_bytes)>(launch);
  return (const char *)p >= begin && (const char *)p < end;
}
SIMT_FN bool is_in_stack(const void *p) {
  const void *me = self();
  return (const char *)p >= load64<offsetof(SimtThread, stack_low)>(me) &&
         (const char *)p < load64<offsetof(SimtThread, stack_high)>(me);
}
}  // namespace simt
SIMT_FN unsigned __isShared(const void *p) { return simt::is_in_shared(p); }
SIMT_FN unsigned __isLocal(const void *p) { return simt::is_in_stack(p); }
SIMT_FN unsigned __isGlobal(const void *p) {
  return !simt::is_in_shared(p) && !simt::is_in_stack(p);
}
SIMT_FN unsigned __isConstant(const void *) { return 0; }
// Addresses are generic already; only differences of what these return mean anything.
SIMT_FN size_t __cvta_generic_to_shared(const void *p) { return (size_t)p; }
SIMT_FN size_t __cvta_generic_to_global(const void *p) { return (size_t)p; }
SIMT_FN void *__cvta_shared_to_generic(size_t p) { return (void *)p; }
SIMT_FN void *__cvta_global_to_generic(size_t p) { return (void *)p; }
#define __builtin_assume(condition) ((condition) ? (void)0 : __builtin_unreachable())
}
