// A model of the L2 cache: lines of 128 bytes in four sectors, set-associative, least recently used
// goes first. The real one hashes addresses in ways that are not published, and so does this one,
// in its own way. All sectors reach it: there is no L1 in the model.
#include "analysis.h"

namespace analysis {

namespace {
struct Line {
  uint64_t tag = ~0ull;
  uint32_t used = 0;
  uint8_t sectors = 0;
};
}  // namespace

static std::mutex l2_lock;
static uint64_t l2_bytes = 40ull << 20;
static uint32_t l2_ways = 16, wave_blocks = 108, now;
static std::vector<Line> lines;
static std::vector<std::vector<uint64_t>> wave;
static size_t waiting;
constexpr size_t kMostWaiting = 64u << 20;

static bool touch(uint64_t sector) {
  uint64_t line = sector >> 2;
  uint8_t bit = uint8_t(1u << (sector & 3));
  size_t sets = lines.size() / l2_ways;
  Line *set = &lines[(line * 0x9e3779b97f4a7c15ull >> 20) % sets * l2_ways];
  Line *oldest = set;
  now++;
  for (Line *one = set; one < set + l2_ways; one++) {
    if (one->tag == line) {
      one->used = now;
      bool hit = one->sectors & bit;
      one->sectors |= bit;
      return hit;
    }
    if (one->used < oldest->used) oldest = one;
  }
  *oldest = Line{line, now, bit};
  return false;
}

// The blocks of a wave, as many as the GPU has multiprocessors, take turns, a request each.
static void run_wave(std::vector<Site> &sites) {
  if (lines.empty()) lines.resize(std::max<size_t>(1, l2_bytes / 128 / l2_ways) * l2_ways);
  std::vector<size_t> at(wave.size());
  for (bool more = true; more;) {
    more = false;
    for (size_t b = 0; b < wave.size(); b++) {
      const std::vector<uint64_t> &stream = wave[b];
      for (bool last = false; !last && at[b] < stream.size();) {
        uint64_t entry = stream[at[b]++];
        uint32_t slot = entry & 0xfffff;
        last = entry >> 20 & 1;
        if (slot >= sites.size()) sites.resize(slot + 64, Site{0, 0, 0, {}});
        Counts &counts = sites[slot].counts[GLOBAL];
        if (touch(entry >> 21)) {
          counts.l2_hits++;
        } else {
          counts.l2_misses++;
        }
        more = true;
      }
    }
  }
  wave.clear();
  waiting = 0;
}

void l2_stream(std::vector<uint64_t> &&stream, std::vector<Site> &sites) {
  std::lock_guard hold(l2_lock);
  waiting += stream.size();
  wave.push_back(std::move(stream));
  if (wave.size() >= wave_blocks || waiting > kMostWaiting) run_wave(sites);
}

void l2_flush(std::vector<Site> &sites) {
  std::lock_guard hold(l2_lock);
  run_wave(sites);
}

}  // namespace analysis

// Which L2 the model is of; empties it.
SIMT_API void simt_analysis_l2(uint64_t bytes, uint32_t ways, uint32_t multiprocessors) {
  using namespace analysis;
  std::lock_guard hold(l2_lock);
  l2_bytes = bytes;
  l2_ways = ways;
  wave_blocks = multiprocessors;
  lines.clear();
  now = 0;
}
