// Blocks that have ended, taken in the order of their numbers whatever worker ran them: races
// between blocks, and the sectors for the L2 model.
#include <algorithm>

#include "analysis.h"

namespace analysis {

namespace {
struct Side {  // one block's use of a word
  uint64_t block = 0;  // plus one
  uint32_t pc = 0, thread = 0, epoch = 0, clock = 0;
  Kind kind = READ;
  uint16_t value = 0;
};
struct Between {
  uint32_t part = 0;
  Side writer, reader, reader2;
};
}  // namespace

static std::mutex queue_lock, commit_lock;
static std::map<uint64_t, std::unique_ptr<Block>> ended;
static std::vector<std::unique_ptr<Block>> idle;
static uint64_t next_block;
static Shadow<Between> words;

Finding as_finding(const Conflict &one) {
  Finding found{};
  found.trouble = RACE;
  found.pc = one.pc;
  found.pc2 = one.pc2;
  found.scope = one.scope;
  found.kind = one.kind;
  found.kind2 = one.kind2;
  found.same_value = one.same_value;
  found.count = 1;
  found.block = one.block;
  found.block2 = one.block2;
  found.thread = one.thread;
  found.thread2 = one.thread2;
  found.address = one.address;
  return found;
}

void settle_conflicts(Block &block) {
  for (const Conflict &one : block.conflicts)
    if (!is_ordered(one)) note_finding(block.worker->findings, as_finding(one));
  block.conflicts.clear();
}

// ---- between blocks ------------------------------------------------------------------------------------

static void compare(const Side &before, const Side &now, uint64_t address) {
  if (!before.block || before.block == now.block) return;
  if (is_strong(before.kind) && is_strong(now.kind)) return;
  Conflict one{};
  one.address = address;
  one.block = before.block - 1;
  one.block2 = now.block - 1;
  one.pc = before.pc;
  one.pc2 = now.pc;
  one.thread = before.thread;
  one.thread2 = now.thread;
  one.epoch = before.epoch;
  one.epoch2 = now.epoch;
  one.clock = before.clock;
  one.clock2 = now.clock;
  one.kind = before.kind;
  one.kind2 = now.kind;
  one.scope = 2;
  one.same_value = before.kind == WRITE && now.kind == WRITE && before.value == now.value;
  if (run->fenced && is_ordered(one)) return;
  note_finding(run->findings, as_finding(one));
}

static void join(Between &word, const Block &block, const Cell &cell, uint64_t address) {
  if (cell.write_pc) {
    Side now{block.number + 1, cell.write_pc, cell.write_thread, cell.write_epoch,
             cell.write_clock, cell.write_kind, cell.write_value};
    compare(word.writer, now, address);
    compare(word.reader, now, address);
    compare(word.reader2, now, address);
    if (!word.writer.block || is_strong(word.writer.kind)) word.writer = now;
  }
  if (cell.read_pc) {
    uint32_t lane = uint32_t(__builtin_ctz(cell.read_mask));
    Side now{block.number + 1, cell.read_pc, cell.read_warp * kLanes + lane, cell.read_epoch,
             cell.read_clock, cell.read_kind, 0};
    compare(word.writer, now, address);
    if (!word.reader.block) {
      word.reader = now;
    } else if (!word.reader2.block) {
      word.reader2 = now;
    }
  }
}

static void compare_words(Block &block) {
  for (uint32_t i = 0; i < block.words.used; i++) {
    const auto &chunk = *block.words.chunks[i];
    for (uint32_t w = 0; w < 32; w++) {
      const Cell &cell = chunk.cells[w];
      uint64_t address = chunk.line << 7 | w << 2;
      if (cell.part) {
        for (uint32_t b = 0; b < 4; b++)
          each_cell(words.word(address), words.parts, address + b, 1, [&](Between &at, uint64_t where) {
            join(at, block, block.words.parts[cell.part - 1][b], where);
          });
      } else if (cell.write_pc || cell.read_pc) {
        each_cell(words.word(address), words.parts, address, 4,
                  [&](Between &at, uint64_t where) { join(at, block, cell, where); });
      }
    }
  }
}

// ---- in order ------------------------------------------------------------------------------------------

static void recycle(std::unique_ptr<Block> block) {
  block->words.clear();
  block->stream.clear();
  block->conflicts.clear();
  if (!block->parts.empty())  // cells point into them
    for (std::vector<Cell> &cells : block->cells) std::fill(cells.begin(), cells.end(), Cell{});
  block->parts.clear();
  std::lock_guard hold(queue_lock);
  if (idle.size() < 64) idle.push_back(std::move(block));
}

std::unique_ptr<Block> take_block() {
  std::lock_guard hold(queue_lock);
  if (idle.empty()) return std::make_unique<Block>();
  auto block = std::move(idle.back());
  idle.pop_back();
  return block;
}

static void commit(std::unique_ptr<Block> block) {
  if (run->num_blocks > 1 && mode.load() & SIMT_RACES) compare_words(*block);
  if (mode.load() & SIMT_COUNTERS) l2_stream(std::move(block->stream), run->l2_sites);
  recycle(std::move(block));
}

static std::unique_ptr<Block> next_ended(bool any) {
  std::lock_guard hold(queue_lock);
  auto first = ended.begin();
  if (first == ended.end() || (!any && first->first != next_block)) return nullptr;
  auto block = std::move(first->second);
  next_block = first->first + 1;
  ended.erase(first);
  return block;
}

void finish_block(std::unique_ptr<Block> block) {
  publish(*block);
  settle_conflicts(*block);
  {
    std::lock_guard hold(queue_lock);
    uint64_t number = block->number;
    ended[number] = std::move(block);
  }
  if (run->fenced) return;  // what orders them may still be to come
  std::unique_lock turn(commit_lock, std::try_to_lock);
  if (!turn.owns_lock()) return;
  while (auto next = next_ended(false)) commit(std::move(next));
}

void finish_grid() {
  {
    std::lock_guard turn(commit_lock);
    while (auto next = next_ended(true)) commit(std::move(next));
    l2_flush(run->l2_sites);
    words.clear();
  }
  next_block = 0;
  forget_order();
}

}  // namespace analysis
