// Warp intrinsics. Each lane brings a slot; the last of the mask to come combines them all.
#pragma once
#include <string.h>

#include "core.h"

// A combining function's own accesses are none of the kernel's; its lambdas are left out with it
// only where they are inlined.
#define SIMT_INLINE __attribute__((always_inline))
#define SIMT_COMBINE SIMT_UNSEEN static inline

extern "C++" {
namespace simt {

using Combine = void (*)(void *const *slots, uint32_t lanes, uint32_t mask);
}
}
// Where a call stands decides who meets there: it may be neither merged with another nor doubled.
#if defined(__clang__)
#define SIMT_CONVERGENT __attribute__((convergent))
#else
#define SIMT_CONVERGENT
#endif
extern "C" {
SIMT_CONVERGENT void simt_syncthreads(void);
SIMT_CONVERGENT uint32_t simt_syncthreads_reduce(uint32_t which, uint32_t value);
SIMT_CONVERGENT void simt_warp_meet(uint32_t mask, void *slot, simt::Combine combine,
                                    const char *what, int kind);
SIMT_CONVERGENT uint32_t simt_activemask(void);
uint64_t simt_clock(void);
void simt_fence(int scope);
int simt_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
void simt_assert_fail(const char *expression, const char *file, unsigned line,
                      const char *function) __attribute__((noreturn));
void simt_trap(void) __attribute__((noreturn));
void simt_refuse(const char *what) __attribute__((noreturn));
void simt_lock(void);
void simt_unlock(void);
}
extern "C++" {
namespace simt {

template <class Do> SIMT_FN void each_lane(uint32_t lanes, Do work) {
  for (; lanes; lanes &= lanes - 1) work((uint32_t)__builtin_ctz(lanes));
}

struct Exchange {
  uint64_t value, result;
  uint32_t source;  // the lane to read
};
SIMT_COMBINE void exchange(void *const *slots, uint32_t lanes, uint32_t) {
  each_lane(lanes, [=](uint32_t lane) SIMT_INLINE {
    auto *mine = (Exchange *)slots[lane];
    uint32_t from = mine->source;
    mine->result = lanes >> from & 1 ? ((Exchange *)slots[from])->value : mine->value;
  });
}
// Structs of any size, as cooperative groups move them.
template <class T> struct WideExchange {
  T value, result;
  uint32_t source;
};
template <class T> SIMT_COMBINE void exchange_wide(void *const *slots, uint32_t lanes, uint32_t) {
  each_lane(lanes, [=](uint32_t lane) {
    auto *mine = (WideExchange<T> *)slots[lane];
    uint32_t from = lanes >> mine->source & 1 ? mine->source : lane;
    memcpy(&mine->result, &((WideExchange<T> *)slots[from])->value, sizeof(T));
  });
}
template <class T>
SIMT_FN T shuffle_wide(uint32_t mask, const T &value, uint32_t source, const char *what) {
  WideExchange<T> e;
  memcpy(&e.value, &value, sizeof value);
  e.source = source;
  simt_warp_meet(mask, &e, exchange_wide<T>, what, SIMT_WARP_EXCHANGE);
  return e.result;
}

// By reference: all but one lane may bring a variable that was never set.
template <class T>
SIMT_FN T shuffle(uint32_t mask, const T &value, uint32_t source, const char *what) {
  if constexpr (sizeof(T) > 8) return shuffle_wide(mask, value, source, what);
  Exchange e = {0, 0, source};
  memcpy(&e.value, &value, sizeof value < 8 ? sizeof value : 8);
  simt_warp_meet(mask, &e, exchange, what, SIMT_WARP_EXCHANGE);
  T result;
  memcpy(&result, &e.result, sizeof result < 8 ? sizeof result : 8);
  return result;
}

struct Vote {
  uint64_t value;
  uint32_t ballot, lanes;
};
SIMT_COMBINE void vote(void *const *slots, uint32_t lanes, uint32_t) {
  uint32_t ballot = 0;
  each_lane(lanes, [&](uint32_t lane) SIMT_INLINE {
    ballot |= (uint32_t)(((Vote *)slots[lane])->value != 0) << lane;
  });
  each_lane(lanes, [&](uint32_t lane) SIMT_INLINE {
    ((Vote *)slots[lane])->ballot = ballot;
    ((Vote *)slots[lane])->lanes = lanes;
  });
}
SIMT_COMBINE void match(void *const *slots, uint32_t lanes, uint32_t) {
  each_lane(lanes, [&](uint32_t lane) SIMT_INLINE {
    auto *mine = (Vote *)slots[lane];
    mine->ballot = 0;
    mine->lanes = lanes;
    each_lane(lanes, [&](uint32_t other) SIMT_INLINE {
      mine->ballot |= (uint32_t)(((Vote *)slots[other])->value == mine->value) << other;
    });
  });
}
SIMT_FN Vote meet_vote(uint32_t mask, uint64_t value, Combine combine, const char *what) {
  Vote v = {value, 0, 0};
  simt_warp_meet(mask, &v, combine, what, SIMT_WARP_EXCHANGE);
  return v;
}

struct Add { template <class T> static T of(T a, T b) { return a + b; } };
struct Min { template <class T> static T of(T a, T b) { return b < a ? b : a; } };
struct Max { template <class T> static T of(T a, T b) { return a < b ? b : a; } };
struct And { template <class T> static T of(T a, T b) { return a & b; } };
struct Or { template <class T> static T of(T a, T b) { return a | b; } };
struct Xor { template <class T> static T of(T a, T b) { return a ^ b; } };

template <class T, class Op> SIMT_COMBINE void reduce(void *const *slots, uint32_t lanes, uint32_t) {
  uint32_t left = lanes & (lanes - 1);
  T sum = *(T *)slots[__builtin_ctz(lanes)];
  each_lane(left, [&](uint32_t lane) SIMT_INLINE { sum = Op::of(sum, *(T *)slots[lane]); });
  each_lane(lanes, [&](uint32_t lane) SIMT_INLINE { *(T *)slots[lane] = sum; });
}
template <class Op, class T> SIMT_FN T meet_reduce(uint32_t mask, T value, const char *what) {
  simt_warp_meet(mask, &value, reduce<T, Op>, what, SIMT_WARP_EXCHANGE);
  return value;
}
template <class T> SIMT_FN uint64_t bits_of(T value) {
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  return bits;
}

}  // namespace simt

// Lanes are grouped by `width`; each reads inside its own group, or itself.
template <class T> SIMT_FN T __shfl_sync(unsigned mask, const T &v, int from, int width = 32) {
  uint32_t lane = simt::lane();
  return simt::shuffle(mask, v, (lane & ~(width - 1u)) | (from & (width - 1u)), "__shfl_sync");
}
template <class T> SIMT_FN T __shfl_up_sync(unsigned mask, const T &v, unsigned delta, int width = 32) {
  uint32_t lane = simt::lane(), at = lane & (width - 1u);
  return simt::shuffle(mask, v, at >= delta ? lane - delta : lane, "__shfl_up_sync");
}
template <class T> SIMT_FN T __shfl_down_sync(unsigned mask, const T &v, unsigned delta, int width = 32) {
  uint32_t lane = simt::lane(), at = lane & (width - 1u);
  return simt::shuffle(mask, v, at + delta < (unsigned)width ? lane + delta : lane,
                       "__shfl_down_sync");
}
template <class T> SIMT_FN T __shfl_xor_sync(unsigned mask, const T &v, int bits, int width = 32) {
  // A lane may read earlier groups, never later ones.
  uint32_t lane = simt::lane(), from = lane ^ (uint32_t)bits;
  bool is_inside = from < 32 && from / width <= lane / width;
  return simt::shuffle(mask, v, is_inside ? from : lane, "__shfl_xor_sync");
}

SIMT_FN unsigned __ballot_sync(unsigned mask, int predicate) {
  return simt::meet_vote(mask, predicate != 0, simt::vote, "__ballot_sync").ballot;
}
SIMT_FN int __any_sync(unsigned mask, int predicate) {
  return simt::meet_vote(mask, predicate != 0, simt::vote, "__any_sync").ballot != 0;
}
SIMT_FN int __all_sync(unsigned mask, int predicate) {
  simt::Vote v = simt::meet_vote(mask, predicate != 0, simt::vote, "__all_sync");
  return v.ballot == v.lanes;
}
SIMT_FN int __uni_sync(unsigned mask, int predicate) {
  simt::Vote v = simt::meet_vote(mask, predicate != 0, simt::vote, "__uni_sync");
  return v.ballot == v.lanes || v.ballot == 0;
}
template <class T> SIMT_FN unsigned __match_any_sync(unsigned mask, T value) {
  return simt::meet_vote(mask, simt::bits_of(value), simt::match, "__match_any_sync").ballot;
}
template <class T> SIMT_FN unsigned __match_all_sync(unsigned mask, T value, int *is_equal) {
  simt::Vote v = simt::meet_vote(mask, simt::bits_of(value), simt::match, "__match_all_sync");
  *is_equal = v.ballot == v.lanes;
  return *is_equal ? v.lanes : 0;
}

#define SIMT_REDUCE(name, op, type)                                 \
  SIMT_FN type __reduce_##name##_sync(unsigned mask, type value) {  \
    return simt::meet_reduce<simt::op>(mask, value, "__reduce_" #name "_sync"); \
  }
SIMT_REDUCE(add, Add, unsigned)
SIMT_REDUCE(add, Add, int)
SIMT_REDUCE(min, Min, unsigned)
SIMT_REDUCE(min, Min, int)
SIMT_REDUCE(max, Max, unsigned)
SIMT_REDUCE(max, Max, int)
SIMT_REDUCE(and, And, unsigned)
SIMT_REDUCE(or, Or, unsigned)
SIMT_REDUCE(xor, Xor, unsigned)
#undef SIMT_REDUCE

SIMT_FN unsigned __activemask() { return simt_activemask(); }
SIMT_FN void __syncwarp(unsigned mask = 0xffffffffu) {
  simt_warp_meet(mask, nullptr, nullptr, "__syncwarp", SIMT_WARP_BARRIER);
}
SIMT_FN void __syncthreads() { simt_syncthreads(); }
SIMT_FN int __syncthreads_count(int p) { return (int)simt_syncthreads_reduce(0, p != 0); }
SIMT_FN int __syncthreads_and(int p) { return (int)simt_syncthreads_reduce(1, p != 0); }
SIMT_FN int __syncthreads_or(int p) { return (int)simt_syncthreads_reduce(2, p != 0); }
SIMT_FN void __threadfence_block() { simt_fence(0); }
SIMT_FN void __threadfence() { simt_fence(1); }
SIMT_FN void __threadfence_system() { simt_fence(2); }
SIMT_FN void __nanosleep(unsigned) { simt_yield(); }
SIMT_FN long long clock64() { return (long long)simt_clock(); }
#define clock() ((int)simt_clock())
SIMT_FN unsigned long long __globaltimer() { return simt_clock(); }
SIMT_FN void __trap() { simt_trap(); }
SIMT_FN void __brkpt() {}
SIMT_FN void __prof_trigger(int) {}
}
