// The functions that a compiler's -fsanitize=thread and trace-pc call: each appends to the log of
// the thread that runs.
#include "analysis.h"

namespace analysis {

// A hash of the bytes that a write left, in 16 bits: two threads that write the same value to one
// word do no harm, and are told apart from those that do.
static uint16_t hash_of(uint64_t address, uint32_t bytes) {
  uint64_t value[2] = {};
  memcpy(value, reinterpret_cast<const void *>(address), bytes < 16 ? bytes : 16);
  uint64_t mixed = (value[0] ^ value[1] * 0x9e3779b97f4a7c15ull) * 0xff51afd7ed558ccdull;
  return uint16_t(mixed >> 48);
}

// The hooks come before the access; the value is there by the thread's next event, whose hook
// finds no room (see `await`) and comes here.
void settle(Lane *lane) {
  Event *event = lane->pending;
  lane->pending = nullptr;
  lane->limit = lane->log + kLogEvents;
  if (kind_of(event->key) == STAMP) {  // the access done by now: how far others had come
    event->address |= stamps.load(std::memory_order_relaxed) << 32;
  } else {
    event->address |= uint64_t(hash_of(event->address & kAddressMask, bytes_of(event->key))) << 48;
  }
}

static void await(Lane *lane) {
  lane->pending = lane->next - 1;
  lane->limit = lane->next;
}

static __attribute__((noinline)) void make_room(Lane *lane) {
  if (lane->pending) {
    settle(lane);
    if (lane->next != lane->limit) return;
  }
  Worker *worker = lane->warp->block->worker;
  if (!lane->log) {
    if (worker->free_logs.empty()) {  // a little more than a page apart, for the cache's sake
      worker->logs.emplace_back(new Event[kLogEvents + 8]);
      worker->free_logs.push_back(worker->logs.back().get());
    }
    lane->log = lane->head = lane->next = worker->free_logs.back();
    lane->limit = lane->log + kLogEvents;
    worker->free_logs.pop_back();
    return;
  }
  for (int tries = 0;; tries++) {
    drain(*lane->warp);
    if (!lane->log) return make_room(lane);
    if (lane->head != lane->log) break;
    if (tries == 64) {  // it waits for a lane that waits for it
      force(lane);
      break;
    }
    simt_yield();
    if (!lane->log) return make_room(lane);
    if (lane->next != lane->limit) return;
  }
  size_t left = size_t(lane->next - lane->head);
  memmove(lane->log, lane->head, left * sizeof(Event));
  lane->head = lane->log;
  lane->next = lane->log + left;
}

static inline void append(Lane *lane, uint64_t key, uint64_t address) {
  if (__builtin_expect(lane->next == lane->limit, 0)) make_room(lane);
  Event *event = lane->next++;
  event->key = lane->key_base | key;
  event->address = address;
}

void record(Lane *lane, uint64_t key, uint64_t address) { append(lane, key, address); }

static inline Lane *current() {
  SimtThread *self = simt_self;
  if (__builtin_expect(!self, 0)) return nullptr;
  Lane *lane = static_cast<Lane *>(self->analysis);
  return __builtin_expect(lane != nullptr, 1) ? lane : enter(self);
}

static inline uint64_t place(Lane *lane, const void *pc) {
  return uint64_t(uint32_t(reinterpret_cast<uintptr_t>(pc) - lane->image_base)) << 16;
}

static inline void access(const void *where, uint32_t bytes, Kind kind, const void *pc) {
  Lane *lane = current();
  if (__builtin_expect(!lane, 0)) return;
  uintptr_t address = reinterpret_cast<uintptr_t>(where);
  if (address - lane->stack_low < lane->stack_bytes) return;  // the thread's own variables
  unsigned on = lane->mode;
  if (on & SIMT_MEMORY) check_memory(lane, address, bytes, kind, pc);
  if (!(on & (SIMT_COUNTERS | SIMT_RACES))) return;
  append(lane, place(lane, pc) | make_key(kind, bytes), address);
  if ((on & SIMT_RACES) && kind != READ) {
    if (is_strong(kind)) {
      append(lane, place(lane, pc) | make_key(STAMP, 0),
             stamps.fetch_add(1, std::memory_order_relaxed) & 0xffffffff);
    }
    await(lane);
  }
}

// An access that is wider than its address allows, or of an odd size, is several on a GPU.
static void pieces(const void *where, size_t bytes, Kind kind, const void *pc) {
  uintptr_t address = reinterpret_cast<uintptr_t>(where), end = address + bytes;
  while (address < end) {
    uint32_t piece = 4;
    while (address % piece || piece > end - address) piece /= 2;
    access(reinterpret_cast<const void *>(address), piece, kind, pc);
    address += piece;
  }
}

}  // namespace analysis

using namespace analysis;
#define PC __builtin_return_address(0)
#define HOOKS(N)                                                                            \
  SIMT_API void __tsan_read##N(void *a) { access(a, N, READ, PC); }                         \
  SIMT_API void __tsan_write##N(void *a) { access(a, N, WRITE, PC); }                       \
  SIMT_API void __tsan_volatile_read##N(void *a) { access(a, N, VOLATILE_READ, PC); }       \
  SIMT_API void __tsan_volatile_write##N(void *a) { access(a, N, VOLATILE_WRITE, PC); }     \
  SIMT_API void __tsan_unaligned_read##N(void *a) { pieces(a, N, READ, PC); }               \
  SIMT_API void __tsan_unaligned_write##N(void *a) { pieces(a, N, WRITE, PC); }             \
  SIMT_API void __tsan_unaligned_volatile_read##N(void *a) { pieces(a, N, READ, PC); }      \
  SIMT_API void __tsan_unaligned_volatile_write##N(void *a) { pieces(a, N, WRITE, PC); }    \
  SIMT_API void __tsan_read_write##N(void *a) {                                             \
    access(a, N, READ, PC);                                                                 \
    access(a, N, WRITE, PC);                                                                \
  }                                                                                         \
  SIMT_API void __tsan_unaligned_read_write##N(void *a) {                                   \
    pieces(a, N, READ, PC);                                                                 \
    pieces(a, N, WRITE, PC);                                                                \
  }
HOOKS(1) HOOKS(2) HOOKS(4) HOOKS(8) HOOKS(16)

SIMT_API void __tsan_read_range(void *a, size_t n) { pieces(a, n, READ, PC); }
SIMT_API void __tsan_write_range(void *a, size_t n) { pieces(a, n, WRITE, PC); }
SIMT_API void __tsan_vptr_read(void **) {}
SIMT_API void __tsan_vptr_update(void **, void *) {}
SIMT_API void __tsan_init() {}

SIMT_API void *__tsan_memcpy(void *to, const void *from, size_t n) {
  pieces(from, n, READ, PC);
  pieces(to, n, WRITE, PC);
  return memcpy(to, from, n);
}
SIMT_API void *__tsan_memmove(void *to, const void *from, size_t n) {
  pieces(from, n, READ, PC);
  pieces(to, n, WRITE, PC);
  return memmove(to, from, n);
}
SIMT_API void *__tsan_memset(void *to, int value, size_t n) {
  pieces(to, n, WRITE, PC);
  return memset(to, value, n);
}

// Depth of calls that were not inlined: a lane in a deeper one runs first (see Event).
SIMT_API void __tsan_func_entry(void *) {
  if (Lane *lane = current()) lane->key_base -= 1ull << 48;
}
SIMT_API void __tsan_func_exit() {
  if (Lane *lane = current()) lane->key_base += 1ull << 48;
}
SIMT_API void __sanitizer_cov_trace_pc() {
  Lane *lane = current();
  if (lane && lane->mode & (SIMT_COUNTERS | SIMT_RACES))
    append(lane, place(lane, PC) | make_key(BASIC_BLOCK, 0), 0);
}

SIMT_API void simt_analysis_atomic(const void *pc, void *address, uint32_t bytes) {
  access(address, bytes, ATOMIC, pc);
}
SIMT_API void simt_analysis_fence(const void *pc, int) {
  Lane *lane = current();
  if (!lane || !(lane->mode & SIMT_RACES)) return;
  run->fenced.store(true, std::memory_order_relaxed);
  append(lane, place(lane, pc) | make_key(FENCE, 0), 0);
}
