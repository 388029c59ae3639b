// Checks an access before it happens: that it lies in live memory, aligned, and reads what something
// wrote. A bit a byte of each allocation that was made while this was on says what was written.
#include <algorithm>
#include <shared_mutex>

#include "analysis.h"

namespace analysis {

static std::shared_mutex table_lock;
static std::map<uint64_t, std::unique_ptr<Tracked>> table;  // by first address, live
static std::vector<std::unique_ptr<Tracked>> gone;          // workers may still point at them
std::atomic<uint64_t> allocation_generation{1};

static Tracked *tracked_at(uint64_t address) {
  auto after = table.upper_bound(address);
  if (after == table.begin()) return nullptr;
  Tracked *found = std::prev(after)->second.get();
  return address - found->base < found->bytes ? found : nullptr;
}

static void mark(Tracked &at, uint64_t offset, uint64_t bytes) {
  uint64_t end = offset + bytes;
  while (offset < end) {
    uint64_t first = offset & 7, num = std::min<uint64_t>(8 - first, end - offset);
    uint8_t bits = uint8_t(((1u << num) - 1) << first);
    std::atomic<uint8_t> &byte = at.written[offset >> 3];
    if ((byte.load(std::memory_order_relaxed) & bits) != bits)
      byte.fetch_or(bits, std::memory_order_relaxed);
    offset += num;
  }
}

static bool all_written(const Tracked &at, uint64_t offset, uint64_t bytes) {
  for (uint64_t end = offset + bytes; offset < end;) {
    uint64_t first = offset & 7, num = std::min<uint64_t>(8 - first, end - offset);
    uint8_t bits = uint8_t(((1u << num) - 1) << first);
    if ((at.written[offset >> 3].load(std::memory_order_relaxed) & bits) != bits) return false;
    offset += num;
  }
  return true;
}

static Tracked *track(const SimtAllocation &from, bool is_fresh) {
  auto one = std::make_unique<Tracked>();
  one->base = from.base;
  one->bytes = from.bytes;
  one->id = from.id;
  one->kind = from.kind;
  if (is_fresh && from.kind == SIMT_DEVICE)
    one->written.reset(new std::atomic<uint8_t>[from.bytes / 8 + 1]());
  std::unique_lock hold(table_lock);
  std::unique_ptr<Tracked> &slot = table[from.base];
  if (slot) gone.push_back(std::move(slot));
  slot = std::move(one);
  return slot.get();
}

// What the kernels of an image that was not instrumented wrote is not known: all may be.
void forget_unwritten() {
  std::unique_lock hold(table_lock);
  for (auto &entry : table) entry.second->written.reset();
}

// ---- where an address is -----------------------------------------------------------------------------

// What the image's glue reads on the host's side, and what a GPU reads through its constant cache.
void set_aside(Run &to) {
  auto add = [&](const void *base, uint64_t bytes, uint32_t kind) {
    to.aside.emplace_back(new Tracked);
    to.aside.back()->base = reinterpret_cast<uint64_t>(base);
    to.aside.back()->bytes = bytes;
    to.aside.back()->kind = kind;
  };
  const SimtLaunch *launch = to.launch;
  uint32_t num_args = launch->kernel->num_args;
  add(launch->args, num_args * sizeof(void *), HOST_SIDE);
  for (uint32_t i = 0; launch->kernel->arg_sizes && i < num_args; i++)
    add(launch->args[i], launch->kernel->arg_sizes[i], HOST_SIDE);
  for (uint32_t i = 0; i < launch->image->num_globals; i++)
    if (launch->image->globals[i].is_constant)
      add(launch->image->globals[i].address, launch->image->globals[i].bytes, CONSTANT);
}

static bool covers(const Tracked *one, uint64_t address, uint32_t bytes) {
  return one && address - one->base < one->bytes && address + bytes <= one->base + one->bytes;
}

static Tracked *look_up(uint64_t address, uint32_t bytes) {
  for (auto &one : run->aside)
    if (covers(one.get(), address, bytes)) return one.get();
  SimtAllocation found{};
  if (!simt_find_allocation(reinterpret_cast<void *>(address), &found) || found.is_freed ||
      address + bytes > found.base + found.bytes)
    return nullptr;
  Tracked *one;
  {
    std::shared_lock hold(table_lock);
    one = tracked_at(address);
  }
  return one && one->id == found.id ? one : track(found, false);
}

Tracked *locate(Worker &worker, uint64_t address, uint32_t bytes) {
  uint64_t generation = allocation_generation.load(std::memory_order_relaxed);
  if (worker.generation != generation) {
    worker.generation = generation;
    std::fill(std::begin(worker.recent), std::end(worker.recent), nullptr);
  }
  for (Tracked *one : worker.recent)
    if (covers(one, address, bytes)) return one;
  Tracked *one = look_up(address, bytes);
  if (one) worker.recent[worker.oldest++ & 3] = one;
  return one;
}

// ---- in the hook -------------------------------------------------------------------------------------

static std::string buffer_name(const SimtAllocation &found) {
  char text[96];
  const char *what = found.kind == SIMT_GLOBAL ? "module variable" : "buffer";
  snprintf(text, sizeof text, "%s %llu (%llu bytes)", what, (unsigned long long)found.id,
           (unsigned long long)found.bytes);
  return text;
}

// "40 bytes past the end of buffer 3", from the nearest allocation within a mebibyte.
static std::string whereabouts(uint64_t address) {
  SimtAllocation near{};
  for (uint64_t step = 0; step <= 1 << 20; step += step < 256 ? 4 : 256) {
    if (simt_find_allocation(reinterpret_cast<void *>(address - step), &near) && !near.is_freed &&
        address >= near.base + near.bytes)
      return std::to_string(address - near.base - near.bytes) + " bytes past the end of " +
             buffer_name(near);
    if (simt_find_allocation(reinterpret_cast<void *>(address + step), &near) && !near.is_freed &&
        address < near.base)
      return std::to_string(near.base - address) + " bytes before " + buffer_name(near);
  }
  return "in no allocation";
}

static std::string verb(Kind kind, uint32_t bytes) {
  std::string what = kind == ATOMIC ? "atomic on " : writes(kind) ? "write of " : "read of ";
  return what + std::to_string(bytes) + " bytes";
}

static void refuse(Lane *lane, uint64_t address, uint32_t bytes, Kind kind, const void *pc) {
  const Block &block = *lane->warp->block;
  for (int i = 1; i >= 0; i--)
    if (address - block.shared_low[i] < block.shared_bytes[i] + 4096 && block.shared_bytes[i])
      fault(lane, 700, pc, address,
            verb(kind, bytes) + " out of bounds: offset " +
                std::to_string(address - block.shared_low[i]) + " of " +
                std::to_string(block.shared_bytes[i]) + " bytes of shared memory");
  SimtAllocation found{};
  bool in_image = address - run->image->base < run->image->bytes;
  if (!in_image && simt_find_allocation(reinterpret_cast<void *>(address), &found) &&
      found.is_freed)
    fault(lane, 700, pc, address,
          verb(kind, bytes) + " after free: offset " + std::to_string(address - found.base) +
              " of " + buffer_name(found));
  fault(lane, 700, pc, address, verb(kind, bytes) + " out of bounds: " + whereabouts(address));
}

static Tracked *find(Lane *lane, uint64_t address, uint32_t bytes, Kind kind, const void *pc) {
  Tracked *one = locate(*lane->warp->block->worker, address, bytes);
  if (one) return one;
  const Image *image = run->image;  // beside its variables an image keeps constants of its own
  if (address - image->base < image->bytes && !writes(kind)) return nullptr;
  if (address - reinterpret_cast<uint64_t>(lane->self) < 4096) return nullptr;
  refuse(lane, address, bytes, kind, pc);
  return nullptr;
}

static void unwritten(Lane *lane, uint64_t address, uint32_t bytes, Kind kind, const void *pc,
                      Space space, uint64_t id, uint64_t offset) {
  Finding one{};
  one.trouble = UNINITIALISED;
  one.pc = uint32_t(reinterpret_cast<uintptr_t>(pc) - lane->image_base);
  one.scope = space;
  one.kind = kind;
  one.count = 1;
  one.block = lane->self->block_linear;
  one.thread = lane->number;
  one.address = address;
  one.bytes = bytes;
  one.note = space == SHARED ? "shared memory" : "buffer " + std::to_string(id);
  one.note += ", offset " + std::to_string(offset);
  note_finding(lane->warp->block->worker->findings, one);
}

// A byte each, one where written.
static inline bool is_written(const uint8_t *written, uint32_t bytes) {
  if (bytes != 4) return !memcmp(written, "\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1", bytes);
  uint32_t four;
  memcpy(&four, written, 4);
  return four == 0x01010101;
}

static void check_shared(Lane *lane, int segment, uint64_t address, uint32_t bytes, Kind kind,
                         const void *pc) {
  Block &block = *lane->warp->block;
  uint64_t offset = address - block.shared_low[segment];
  uint8_t *written = block.written[segment].data() + offset;
  if (kind != WRITE && kind != VOLATILE_WRITE && !is_written(written, bytes))
    unwritten(lane, address, bytes, kind, pc, SHARED, 0, offset);
  if (writes(kind)) memset(written, 1, bytes);
}

void check_memory(Lane *lane, uint64_t address, uint32_t bytes, Kind kind, const void *pc) {
  int segment;
  if (address & (bytes - 1))
    fault(lane, 716, pc, address,
          verb(kind, bytes) + " misaligned: the address is no multiple of " +
              std::to_string(bytes));
  if (lane->warp->block->in_shared(address, bytes, &segment))
    return check_shared(lane, segment, address, bytes, kind, pc);
  Tracked *at = find(lane, address, bytes, kind, pc);
  if (!at || !at->written) return;
  uint64_t offset = address - at->base;
  if (kind != WRITE && kind != VOLATILE_WRITE && !all_written(*at, offset, bytes))
    unwritten(lane, address, bytes, kind, pc, GLOBAL, at->id, offset);
  if (writes(kind)) mark(*at, offset, bytes);
}

}  // namespace analysis

using namespace analysis;

SIMT_API void simt_analysis_allocated(const SimtAllocation *allocation) {
  if (!(mode.load() & SIMT_MEMORY)) return;
  track(*allocation, true);
  allocation_generation++;
}

SIMT_API void simt_analysis_freed(const SimtAllocation *allocation) {
  if (!mode.load()) return;
  std::unique_lock hold(table_lock);
  auto found = table.find(allocation->base);
  if (found != table.end()) {
    gone.push_back(std::move(found->second));
    gone.back()->written.reset();
    table.erase(found);
  }
  allocation_generation++;
}

SIMT_API void simt_analysis_host_wrote(const void *address, size_t bytes) {
  if (!(mode.load() & SIMT_MEMORY) || !bytes) return;
  std::shared_lock hold(table_lock);
  uint64_t at = reinterpret_cast<uint64_t>(address);
  Tracked *found = tracked_at(at);
  if (found && found->written)
    mark(*found, at - found->base, std::min<uint64_t>(bytes, found->base + found->bytes - at));
}
