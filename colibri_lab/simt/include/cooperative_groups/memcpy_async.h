// cooperative_groups::memcpy_async.
#pragma once
#include "../cooperative_groups.h"

extern "C++" {
namespace cooperative_groups {

// Copies are done when they return; wait() is the barrier that makes them everyone's.
template <class Group, class To, class From> SIMT_FN void memcpy_async(const Group &g, To *to, const From *from, size_t bytes) {
  for (size_t i = g.thread_rank(); i < bytes; i += g.size()) ((char *)to)[i] = ((const char *)from)[i];
}
template <class Group> SIMT_FN void wait(const Group &g) { g.sync(); }
template <unsigned stages, class Group> SIMT_FN void wait_prior(const Group &g) { g.sync(); }
}  // namespace cooperative_groups
}
