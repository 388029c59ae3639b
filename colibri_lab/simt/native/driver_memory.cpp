// The table of allocations, and the pages behind them.
//
// Each allocation has pages of its own and ends (rounded up to 256 bytes) where an inaccessible
// page begins, so that reading past it faults at once; freed pages stay inaccessible for a while.
// New memory is filled with 0xFF: not a number in floats, -1 in integers. On a GPU too it is not
// zero, and a program that relies on it must not pass.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <shared_mutex>

#include "driver.h"

namespace driver {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kFillBytes = 16 << 20;  // larger ones keep the system's zeros: touching costs
constexpr size_t kMostSpans = 12000;     // the system allows a process some 65,000 mappings
constexpr size_t kKeptFreed = 1024;      // freed blocks that are still known, and inaccessible
constexpr size_t kKeptBytes = size_t(64) << 30;  // of address space

std::shared_mutex table_lock;  // kernels' checks read the table while the driver's lock is held
auto &live = *new std::map<uint64_t, Block>;
auto &freed = *new std::deque<Block>;  // the last one in front
size_t freed_span_bytes = 0, num_spans = 0;
uint64_t device_bytes = 0, last_id = 0;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }
size_t page_bytes() {
  static const size_t bytes = size_t(sysconf(_SC_PAGESIZE));
  return bytes;
}

// The bytes which the system says it could still give; 0 where it does not say.
uint64_t host_available() {
  FILE *file = fopen("/proc/meminfo", "r");
  if (!file) return 0;
  char line[128];
  unsigned long long kilobytes = 0;
  while (fgets(line, sizeof line, file))
    if (sscanf(line, "MemAvailable: %llu", &kilobytes) == 1) break;
  fclose(file);
  return kilobytes << 10;
}

void map_pages(size_t bytes, Block *block) {
  size_t used = round_up(bytes, kAlignment), span = round_up(used, page_bytes());
  if (num_spans >= kMostSpans) {
    void *plain = nullptr;
    if (posix_memalign(&plain, kAlignment, used)) raise(CUDA_ERROR_OUT_OF_MEMORY);
    block->allocation.base = reinterpret_cast<uint64_t>(plain);
    return;
  }
  void *pages = mmap(nullptr, span + page_bytes(), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) raise(CUDA_ERROR_OUT_OF_MEMORY, "the host has no address space left");
  block->span = static_cast<char *>(pages);
  block->span_bytes = span + page_bytes();
  mprotect(block->span + span, page_bytes(), PROT_NONE);
  block->allocation.base = reinterpret_cast<uint64_t>(block->span + span - used);
  num_spans++;
}

void forget_oldest_freed() {
  const Block &oldest = freed.back();
  freed_span_bytes -= oldest.span_bytes;
  if (oldest.span) munmap(oldest.span, oldest.span_bytes);
  if (oldest.span && oldest.allocation.kind == SIMT_DEVICE) num_spans--;
  freed.pop_back();
}

// Gives the memory back but keeps the addresses, so that a use after this faults.
void retire(Block block) {
  block.allocation.is_freed = 1;
  if (block.span)
    mmap(block.span, block.span_bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  freed.push_front(block);
  freed_span_bytes += block.span_bytes;
  while (freed.size() > kKeptFreed || freed_span_bytes > kKeptBytes) forget_oldest_freed();
}

bool covers(const SimtAllocation &allocation, uint64_t address) {
  return address >= allocation.base && address - allocation.base < allocation.bytes;
}

const Block *find_live(uint64_t address) {
  auto next = live.upper_bound(address);
  if (next == live.begin()) return nullptr;
  const Block &block = std::prev(next)->second;
  return covers(block.allocation, address) ? &block : nullptr;
}

void refuse_too_much(size_t bytes) {
  uint64_t total = gpu->memory_bytes, left = total - device_bytes;
  if (bytes > left)
    raise(CUDA_ERROR_OUT_OF_MEMORY, "%zu bytes asked for; %s has %llu left of %llu", bytes,
          gpu->name.c_str(), (unsigned long long)left, (unsigned long long)total);
  if (bytes < (size_t(256) << 20)) return;
  uint64_t available = host_available();
  if (available && bytes > available)
    raise(CUDA_ERROR_OUT_OF_MEMORY, "%zu bytes asked for; this machine can give %llu", bytes,
          (unsigned long long)available);
}

}  // namespace

uint64_t allocate_device(Context &context, size_t bytes) {
  if (!bytes) raise(CUDA_ERROR_INVALID_VALUE, "0 bytes asked for");
  refuse_too_much(bytes);
  Block block = {{0, bytes, 0, SIMT_DEVICE, 0}, &context, 0, nullptr, 0};
  map_pages(bytes, &block);
  if (bytes <= kFillBytes) memset(reinterpret_cast<void *>(block.allocation.base), 0xFF, bytes);
  device_bytes += bytes;
  add_block(block);
  return block.allocation.base;
}

void add_block(const Block &block) {
  Block added = block;
  {
    std::unique_lock<std::shared_mutex> hold(table_lock);
    added.allocation.id = ++last_id;
    live[added.allocation.base] = added;
  }
  simt_analysis_allocated(&added.allocation);
}

Block take_block(uint64_t base) {
  std::unique_lock<std::shared_mutex> hold(table_lock);
  auto at = live.find(base);
  if (at == live.end()) raise(CUDA_ERROR_INVALID_VALUE, "no allocation begins at %#lx", long(base));
  Block block = at->second;
  live.erase(at);
  return block;
}

void release(uint64_t base, uint32_t kind) {
  Block found;
  if (!find_block(base, &found) || found.allocation.base != base || found.allocation.kind != kind)
    raise(CUDA_ERROR_INVALID_VALUE, "no such allocation begins at %#lx", long(base));
  finish_everything();
  Block block = take_block(base);
  simt_analysis_freed(&block.allocation);
  if (kind == SIMT_DEVICE) device_bytes -= block.allocation.bytes;
  std::unique_lock<std::shared_mutex> hold(table_lock);
  if (!block.span && kind == SIMT_DEVICE) free(reinterpret_cast<void *>(base));
  retire(block);
}

void release_all(Context &context) {
  std::vector<SimtAllocation> mine;
  for (auto &entry : live)
    if (entry.second.context == &context) mine.push_back(entry.second.allocation);
  for (const SimtAllocation &allocation : mine) release(allocation.base, allocation.kind);
}

bool find_block(uint64_t address, Block *found) {
  std::shared_lock<std::shared_mutex> hold(table_lock);
  const Block *block = find_live(address);
  if (block) *found = *block;
  return block;
}

uint64_t allocated_bytes() { return device_bytes; }

void need_range(uint64_t address, size_t bytes, const char *what) {
  if (!bytes) return;
  Block found;
  if (!find_block(address, &found)) {
    SimtAllocation old;
    bool is_freed = simt_find_allocation(reinterpret_cast<void *>(address), &old);
    raise(CUDA_ERROR_INVALID_VALUE, "%s, %#lx, is %s", what, long(address),
          is_freed ? "in memory that was freed" : "in no allocation of the device");
  }
  size_t left = found.allocation.base + found.allocation.bytes - address;
  if (bytes > left)
    raise(CUDA_ERROR_INVALID_VALUE, "%s is %zu bytes, and its allocation has %zu from there", what,
          bytes, left);
}

bool is_pageable(const void *address) {
  Block found;
  return !find_block(reinterpret_cast<uint64_t>(address), &found);
}

void wrote(const void *address, size_t bytes) { simt_analysis_host_wrote(address, bytes); }

}  // namespace driver

using namespace driver;

SIMT_API int simt_find_allocation(const void *address, SimtAllocation *found) {
  std::shared_lock<std::shared_mutex> hold(table_lock);
  auto number = reinterpret_cast<uint64_t>(address);
  if (const Block *block = find_live(number)) {
    *found = block->allocation;
    return 1;
  }
  for (const Block &block : freed)
    if (covers(block.allocation, number)) {
      *found = block.allocation;
      return 1;
    }
  return 0;
}
