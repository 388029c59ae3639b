// What atomics and fences order: a thread fences and then writes a word atomically (or through
// volatile), another reads that word later: what came before the fence comes before what follows
// the read. Looked up only for conflicts that barriers leave open.
#include <unordered_set>

#include "analysis.h"

namespace analysis {

static std::mutex order_lock;
static std::unordered_map<uint64_t, std::unordered_map<uint64_t, std::vector<Release>>> released;
static std::unordered_map<uint64_t, std::vector<Release>> acquired;  // by block
constexpr size_t kSearch = 4096;

namespace {
struct Point {  // a place in what a thread does
  uint64_t block;
  uint32_t thread, epoch, clock;
};
}  // namespace

void publish(Block &block) {
  if (block.releases.empty() && block.acquires.empty()) return;
  std::lock_guard hold(order_lock);
  for (Release &one : block.releases) released[one.address][block.number].push_back(one);
  auto &mine = acquired[block.number];
  mine.insert(mine.end(), block.acquires.begin(), block.acquires.end());
  block.releases.clear();
  block.acquires.clear();
}

void forget_order() {
  std::lock_guard hold(order_lock);
  released.clear();
  acquired.clear();
}

static bool covers(const Release &release, const Point &access) {
  if (access.epoch < release.epoch) return true;
  if (access.thread == release.thread) return access.clock <= release.clock;
  return access.thread / kLanes == release.thread / kLanes && access.epoch == release.epoch &&
         release.knows[access.thread % kLanes] >= access.clock;
}

static bool precedes(const Release &acquire, const Point &access) {
  if (acquire.epoch < access.epoch) return true;
  return acquire.thread == access.thread && acquire.clock <= access.clock;
}

// Is `first` before `second`? Goes back from the second: what it acquired, and what those had.
static bool reaches(const Point &first, const Point &second) {
  std::vector<Point> open{second};
  std::unordered_set<uint64_t> seen{second.block};
  for (size_t at = 0; at < open.size() && at < kSearch; at++) {
    Point point = open[at];
    auto mine = acquired.find(point.block);
    if (mine == acquired.end()) continue;
    for (const Release &acquire : mine->second) {
      if (!precedes(acquire, point)) continue;
      auto word = released.find(acquire.address);
      if (word == released.end()) continue;
      auto from = word->second.find(first.block);
      if (from != word->second.end())
        for (const Release &release : from->second)
          if (release.stamp < acquire.stamp && covers(release, first)) return true;
      if (open.size() > kSearch) continue;
      for (auto &[block, all] : word->second) {
        if (all[0].stamp >= acquire.stamp || !seen.insert(block).second) continue;
        const Release &release = all[0];
        open.push_back({block, release.thread, release.epoch, release.clock});
      }
    }
  }
  return false;
}

bool is_ordered(const Conflict &one) {
  std::lock_guard hold(order_lock);
  Point first{one.block, one.thread, one.epoch, one.clock};
  Point second{one.block2, one.thread2, one.epoch2, one.clock2};
  return reaches(first, second) || reaches(second, first);
}

}  // namespace analysis
