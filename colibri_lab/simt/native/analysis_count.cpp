// Counts what one request of a warp costs: 32-byte sectors of global memory, passes over the banks
// of shared memory, bytes and lanes.
#include <algorithm>

#include "analysis.h"

namespace analysis {

void Counts::add(const Counts &other) {
  requests += other.requests;
  lanes += other.lanes;
  bytes += other.bytes;
  sectors += other.sectors;
  ideal_sectors += other.ideal_sectors;
  wavefronts += other.wavefronts;
  ideal_wavefronts += other.ideal_wavefronts;
  l2_hits += other.l2_hits;
  l2_misses += other.l2_misses;
}

static Site &site_of(Worker &worker, Image &image, uint64_t key) {
  uint32_t slot = image.slot(key);
  if (slot >= worker.sites.size()) worker.sites.resize(slot + 64, Site{0, 0, 0, {}});
  Site &site = worker.sites[slot];
  if (!site.pc) {
    site.pc = pc_of(key);
    site.kind = kind_of(key);
    site.bytes = uint8_t(bytes_of(key));
  }
  return site;
}

// The distinct sectors under the lanes' accesses, ascending. An access is aligned to its size, so
// it lies in one sector.
static uint32_t sectors_of(const uint64_t *addresses, uint32_t num, uint64_t *sectors) {
  uint32_t count = 0;
  bool ascending = true;
  for (uint32_t i = 0; i < num; i++) {
    uint64_t sector = addresses[i] >> 5;
    if (count && sector == sectors[count - 1]) continue;
    ascending &= !count || sector > sectors[count - 1];
    sectors[count++] = sector;
  }
  if (ascending) return count;
  std::sort(sectors, sectors + count);
  return uint32_t(std::unique(sectors, sectors + count) - sectors);
}

// The fewest sectors that could hold the distinct pieces which the lanes ask for.
static uint32_t least_sectors(const uint64_t *addresses, uint32_t num, uint32_t bytes) {
  uint64_t sorted[kLanes];
  std::copy(addresses, addresses + num, sorted);
  if (!std::is_sorted(sorted, sorted + num)) std::sort(sorted, sorted + num);
  uint32_t distinct = uint32_t(std::unique(sorted, sorted + num) - sorted);
  return (distinct * bytes + 31) / 32;
}

// Most distinct words that any of the 32 banks must give: the passes that these lanes take.
static uint32_t passes(const uint64_t *addresses, uint32_t num, uint32_t bytes) {
  uint64_t least = addresses[0], most = addresses[0];
  for (uint32_t i = 1; i < num; i++) {
    least = std::min(least, addresses[i]);
    most = std::max(most, addresses[i]);
  }
  if ((most >> 2) + (bytes > 4 ? bytes / 4 - 1 : 0) - (least >> 2) < 32) return 1;
  uint64_t held[32][kLanes];
  uint32_t count[32] = {}, worst = 0;
  uint32_t words = bytes > 4 ? bytes / 4 : 1;
  for (uint32_t i = 0; i < num; i++)
    for (uint32_t w = 0; w < words; w++) {
      uint64_t word = (addresses[i] >> 2) + w;
      uint32_t bank = word & 31, seen = 0;
      while (seen < count[bank] && held[bank][seen] != word) seen++;
      if (seen < count[bank]) continue;
      held[bank][count[bank]++] = word;
      worst = std::max(worst, count[bank]);
    }
  return worst;
}

// Accesses of 8 bytes are served half a warp at a time, those of 16 a quarter.
static void count_shared(Counts &counts, uint32_t mask, const uint64_t *addresses,
                         uint32_t bytes) {
  uint32_t width = bytes <= 4 ? 32 : 128 / bytes;
  for (uint32_t from = 0; from < kLanes; from += width) {
    uint64_t group[kLanes];
    uint32_t num = 0;
    for (uint32_t lane = from; lane < from + width; lane++)
      if (mask >> lane & 1) group[num++] = addresses[lane];
    if (!num) continue;
    counts.wavefronts += passes(group, num, bytes);
    counts.ideal_wavefronts++;
  }
}

// A sector in a block's stream: 43 bits of address, a bit for the last of a request, 20 for the site.
static void count_global(Block &block, Counts &counts, uint32_t slot, uint32_t mask,
                         const uint64_t *addresses, uint32_t bytes) {
  uint64_t packed[kLanes], sectors[kLanes];
  uint32_t num = 0;
  for (uint32_t m = mask; m; m &= m - 1) packed[num++] = addresses[__builtin_ctz(m)];
  uint32_t count = sectors_of(packed, num, sectors);
  counts.sectors += count;
  bool dense = num > 1 && packed[num - 1] - packed[0] == uint64_t(num - 1) * bytes;
  for (uint32_t i = 1; dense && i < num; i++) dense = packed[i] - packed[i - 1] == bytes;
  counts.ideal_sectors += dense ? (num * bytes + 31) / 32 : least_sectors(packed, num, bytes);
  for (uint32_t i = 0; i < count; i++)
    block.stream.push_back(sectors[i] << 21 | uint64_t(i + 1 == count) << 20 | (slot & 0xfffff));
}

static void one_space(Warp &warp, Site &site, uint64_t key, uint32_t mask,
                      const uint64_t *addresses, Space space) {
  uint32_t bytes = bytes_of(key), num = uint32_t(__builtin_popcount(mask));
  Counts &counts = site.counts[space];
  counts.requests++;
  counts.lanes += num;
  counts.bytes += uint64_t(bytes) * num;
  if (space == SHARED) return count_shared(counts, mask, addresses, bytes);
  count_global(*warp.block, counts, run->image->slot(key), mask, addresses, bytes);
}

// Which lanes' addresses lie in static, in dynamic shared memory, and elsewhere.
static void by_space(const Block &block, uint32_t mask, const uint64_t *addresses,
                     uint32_t masks[3]) {
  for (uint32_t m = mask; m; m &= m - 1) {
    uint32_t lane = uint32_t(__builtin_ctz(m));
    uint64_t at = addresses[lane];
    int segment = at - block.shared_low[0] < block.shared_bytes[0]   ? 0
                  : at - block.shared_low[1] < block.shared_bytes[1] ? 1
                                                                     : 2;
    masks[segment] |= 1u << lane;
  }
}

// Not a launch's arguments, constants, or other memory that no sector is fetched for.
static bool is_device(Block &block, uint64_t address) {
  const Tracked *at = locate(*block.worker, address, 1);
  return at && at->kind < HOST_SIDE;
}

void request(Warp &warp, uint64_t key, uint32_t mask, const uint64_t *operands) {
  Block &block = *warp.block;
  Site &site = site_of(*block.worker, *run->image, key);
  if (kind_of(key) == BASIC_BLOCK) {
    site.counts[0].requests++;
    site.counts[0].lanes += uint32_t(__builtin_popcount(mask));
    return;
  }
  uint64_t addresses[kLanes];
  for (uint32_t m = mask; m; m &= m - 1)
    addresses[__builtin_ctz(m)] = operands[__builtin_ctz(m)] & kAddressMask;
  uint32_t masks[3] = {};
  by_space(block, mask, addresses, masks);
  unsigned on = mode.load(std::memory_order_relaxed);
  for (int segment = 0; segment < 3; segment++) {
    if (!masks[segment]) continue;
    Space space = segment < 2 ? SHARED : GLOBAL;
    if (space == GLOBAL && !is_device(block, addresses[__builtin_ctz(masks[2])])) continue;
    keep_step(warp, key, masks[segment], addresses, segment);
    if (on & SIMT_COUNTERS) one_space(warp, site, key, masks[segment], addresses, space);
    if (on & SIMT_RACES) check_races(warp, key, masks[segment], operands, space, segment);
  }
  if ((on & SIMT_RACES) && is_strong(kind_of(key)))
    for (uint32_t m = mask; m; m &= m - 1) {
      warp.strong_address[__builtin_ctz(m)] = addresses[__builtin_ctz(m)];
      warp.strong_kind[__builtin_ctz(m)] = kind_of(key);
    }
}

}  // namespace analysis
