// What the parts of the analysis share: records of accesses, warps, blocks, and what was found.
//
// A hook appends one event to its thread's log. When all lanes of a warp wait at a barrier, have
// left, or must make room, the warp is drained: the lanes' logs are replayed side by side as a warp
// would run them (analysis_warp.cpp), so that one execution of one access by several lanes is one
// request. Requests are counted (analysis_count.cpp) and checked for races (analysis_race.cpp).
// Bounds and unwritten memory are checked in the hook, before the access happens.
#pragma once
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "abi.h"
#include "analysis_shadow.h"

namespace analysis {

constexpr uint32_t kLanes = 32;
constexpr uint32_t kLogEvents = 256;  // a lane's log: 4 KiB, and then the lane gives way
constexpr uint64_t kAddressMask = (1ull << 48) - 1;

enum Kind : uint8_t {
  READ, WRITE, VOLATILE_READ, VOLATILE_WRITE, ATOMIC,  // accesses
  BASIC_BLOCK, WARP_BARRIER, EXCHANGE, FENCE, STAMP
};
inline bool writes(Kind k) { return k == WRITE || k == VOLATILE_WRITE || k == ATOMIC; }
inline bool is_strong(Kind k) { return k >= VOLATILE_READ && k <= ATOMIC; }

// One thing a thread did. The least key runs first where lanes diverge: the deepest call, then the
// first place in the code.
struct Event {
  uint64_t key;      // 16 bits call depth, inverted; 32 bits place; 8 bits kind; 8 bits bytes
  uint64_t address;  // 48 bits; above them a hash of the value written. Or a mask, a stamp
};
inline uint64_t make_key(Kind kind, uint32_t bytes) { return uint64_t(kind) << 8 | bytes; }
inline Kind kind_of(uint64_t key) { return Kind(key >> 8 & 0xff); }
inline uint32_t bytes_of(uint64_t key) { return key & 0xff; }
inline uint32_t pc_of(uint64_t key) { return uint32_t(key >> 16); }

struct Warp;
struct Block;
struct Worker;

struct Lane {
  Event *next = nullptr, *limit = nullptr;  // where the next event goes, and the log's end
  Event *head = nullptr, *log = nullptr;    // the first event not replayed yet, and the first
  Event *pending = nullptr;                 // a write whose value is still to be read
  uint64_t key_base = 0;                    // inverse call depth, in place
  uintptr_t image_base = 0;
  uintptr_t stack_low = 0, stack_bytes = 0;
  unsigned mode = 0;
  SimtThread *self = nullptr;
  Warp *warp = nullptr;
  uint32_t number = 0;  // in its block
};

// What each lane knows of the others' progress: lane a's access at its clock c comes before what
// lane b does now where knows[b][a] >= c.
struct Warp {
  Block *block = nullptr;
  uint32_t number = 0;
  uint32_t all = 0, exited = 0, waiting = 0;  // masks of lanes
  Lane *lanes[kLanes] = {};
  uint32_t knows[kLanes][kLanes];
  uint32_t fence_clock[kLanes], fence_epoch[kLanes];
  uint64_t strong_address[kLanes];  // of the strong access that the next stamp belongs to
  Kind strong_kind[kLanes];
};

enum Space : uint8_t { GLOBAL = 0, SHARED = 1 };

// What the requests of one access (or the executions of one basic block) add up to.
struct Counts {
  uint64_t requests = 0, lanes = 0, bytes = 0;
  uint64_t sectors = 0, ideal_sectors = 0;        // global
  uint64_t wavefronts = 0, ideal_wavefronts = 0;  // shared
  uint64_t l2_hits = 0, l2_misses = 0;
  void add(const Counts &other);
};
struct Site {
  uint32_t pc;
  uint8_t kind, bytes;
  Counts counts[2];
};

struct Image {
  uint32_t id = 0;
  const SimtImage *image = nullptr;
  uint64_t fingerprint = 0;
  bool is_instrumented = false;
  uintptr_t base = 0, bytes = 0;  // as mapped
  int file = -1;
  std::string path;  // a copy that outlives the module
  std::string source_path;
  std::unique_ptr<std::atomic<uint32_t>[]> slots;  // place -> number of site, 0: none yet
  std::atomic<uint32_t> num_sites{1};
  std::mutex lock;
  std::map<uint32_t, std::string> lines;
  uint32_t slot(uint64_t key);
};

enum Trouble : uint8_t {
  OUT_OF_BOUNDS, USE_AFTER_FREE, MISALIGNED, UNINITIALISED, RACE, DIVERGENCE, MASK, FAULT
};
struct Finding {
  Trouble trouble;
  uint32_t pc = 0, pc2 = 0;
  uint8_t scope = 0;       // of a race: 0 warp, 1 block, 2 grid; of memory: a Space
  uint8_t kind = 0, kind2 = 0, same_value = 0;
  uint64_t count = 0;
  uint64_t block = 0, block2 = 0, address = 0;  // the first example
  uint32_t thread = 0, thread2 = 0, bytes = 0;
  std::string note;
  bool same_as(const Finding &other) const;
  bool before(const Finding &other) const;
};
void note_finding(std::vector<Finding> &all, const Finding &one);

// ---- races -------------------------------------------------------------------------------------------

struct Cell {  // who wrote and who read a word of a block last
  uint32_t part = 0;
  uint32_t write_pc = 0, write_epoch = 0, write_clock = 0;
  uint16_t write_thread = 0, write_value = 0;
  Kind write_kind = READ, read_kind = READ;
  uint16_t read_warp = 0;
  uint32_t read_pc = 0, read_epoch = 0, read_clock = 0, read_mask = 0;
  uint32_t other_pc = 0;  // a reader of another warp in the same epoch
  uint16_t other_thread = 0;
};

struct Release {  // a fence, and then an atomic or volatile write, or the reverse for an acquire
  uint64_t address, stamp, block;
  uint32_t thread, epoch, clock;
  std::array<uint32_t, kLanes> knows;
};

// Two accesses to one word, one of them a write, with nothing in the block that orders them.
struct Conflict {
  uint64_t address, block, block2;
  uint32_t pc, pc2, thread, thread2, epoch, epoch2, clock, clock2;
  Kind kind, kind2;
  uint8_t scope, same_value;
};

// ---- a block that runs ---------------------------------------------------------------------------------

struct Block {
  uint64_t number = 0;
  uint32_t num_threads = 0, exited = 0, arrived = 0, epoch = 0;
  uint32_t barrier_pc = 0, barrier_thread = 0;
  Worker *worker = nullptr;
  std::vector<Lane> lanes;
  std::vector<Warp> warps;
  uint64_t shared_low[2] = {}, shared_bytes[2] = {};  // static, dynamic
  std::vector<uint8_t> written[2];                    // bytes of shared memory
  std::vector<Cell> cells[2];
  std::vector<std::array<Cell, 4>> parts;
  Shadow<Cell> words;  // of global memory
  std::vector<Conflict> conflicts;
  std::vector<Release> releases, acquires;
  std::vector<uint64_t> stream;  // sectors in order, for the L2 model
  bool in_shared(uint64_t address, uint32_t bytes, int *segment) const {
    for (int i = 0; i < 2; i++)
      if (address - shared_low[i] < shared_bytes[i] &&
          address + bytes <= shared_low[i] + shared_bytes[i])
        return *segment = i, true;
    return false;
  }
};

// An allocation, or memory that is no concern of a GPU's: the launch's arguments, say.
enum : uint32_t { HOST_SIDE = 100, CONSTANT = 101 };
struct Tracked {
  uint64_t base = 0, bytes = 0, id = 0;
  uint32_t kind = 0;  // a SimtMemoryKind or one of the above
  std::unique_ptr<std::atomic<uint8_t>[]> written;  // a bit a byte; null: all count as written
};

struct Worker {
  std::vector<std::unique_ptr<Block>> live;
  std::vector<std::unique_ptr<Event[]>> logs;
  std::vector<Event *> free_logs;
  std::vector<Site> sites;
  std::vector<Finding> findings;
  Tracked *recent[4] = {};  // where the last accesses went
  uint32_t oldest = 0;
  uint64_t generation = 0, epochs = 0, run = 0;
};

struct Step {  // one request of block 0, kept for those who want to follow it
  uint32_t pc;
  uint8_t kind, bytes, space;
  uint32_t warp, mask;
  uint64_t buffer;  // an allocation's id; 0: shared memory
  uint64_t offsets[kLanes];
};

struct Run {  // a launch
  const SimtLaunch *launch = nullptr;
  Image *image = nullptr;
  uint64_t num_blocks = 0, number = 0;
  uint32_t num_threads = 0;
  std::atomic<bool> fenced{false};  // some thread ran a fence: atomics may order memory
  std::mutex lock;
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<Finding> findings;
  std::vector<Site> l2_sites;
  std::vector<Step> steps;
  std::vector<std::unique_ptr<Tracked>> aside;  // host side and constant memory
};

extern std::atomic<unsigned> mode;
extern Run *run;
extern std::atomic<uint64_t> stamps;
extern std::atomic<uint64_t> allocation_generation;

// analysis_launch.cpp
Lane *enter(SimtThread *self);
void fault(Lane *lane, int code, const void *pc, uint64_t address, const std::string &what);
// analysis_hooks.cpp
void settle(Lane *lane);
void record(Lane *lane, uint64_t key, uint64_t address);
// analysis_warp.cpp
void drain(Warp &warp);
void force(Lane *lane);
// analysis_steps.cpp
extern size_t steps_wanted;  // of each kernel's first launch
void keep_step(const Warp &warp, uint64_t key, uint32_t mask, const uint64_t *addresses,
               int segment);
void keep_barrier(const Block &block, uint32_t pc);
std::string steps_as_json(const std::vector<Step> &steps);
// analysis_count.cpp
void request(Warp &warp, uint64_t key, uint32_t mask, const uint64_t *addresses);
// analysis_race.cpp
void check_races(Warp &warp, uint64_t key, uint32_t mask, const uint64_t *addresses, Space space,
                 int segment);
void strong_access(Warp &warp, uint32_t lane, uint64_t stamp);
void settle_conflicts(Block &block);
// analysis_memory.cpp
void forget_unwritten();
void set_aside(Run &run);
Tracked *locate(Worker &worker, uint64_t address, uint32_t bytes);  // null: not live memory
void check_memory(Lane *lane, uint64_t address, uint32_t bytes, Kind kind, const void *pc);
// analysis_blocks.cpp
std::unique_ptr<Block> take_block();
void finish_block(std::unique_ptr<Block> block);
void finish_grid();
Finding as_finding(const Conflict &one);
// analysis_order.cpp
void publish(Block &block);
void forget_order();
bool is_ordered(const Conflict &one);
// analysis_l2.cpp
void l2_stream(std::vector<uint64_t> &&stream, std::vector<Site> &sites);
void l2_flush(std::vector<Site> &sites);
// analysis_lines.cpp
Image *find_image(const SimtLaunch *launch);
Image *image_number(uint32_t id);
void resolve(Image &image, const std::vector<uint32_t> &places);
// analysis_report.cpp
void keep(Run &run);
void resolve_results(Image &image);  // while its copy is still there

}  // namespace analysis
