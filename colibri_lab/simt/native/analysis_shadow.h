// Shadow of memory in words of four bytes: a cell says who used a word. A word that is used in parts
// has four cells.
#pragma once
#include <stdint.h>

#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

namespace analysis {

template <class Cell>
struct Shadow {
  struct Chunk {
    uint64_t line;
    Cell cells[32];
  };
  std::unordered_map<uint64_t, uint32_t> where;  // 128-byte line -> chunk
  std::vector<std::unique_ptr<Chunk>> chunks;
  std::vector<std::array<Cell, 4>> parts;
  uint64_t last_line = ~0ull;
  uint32_t last = 0;
  uint32_t used = 0;

  Cell *word(uint64_t address) {
    uint64_t line = address >> 7;
    if (line != last_line) find(line);
    return &chunks[last]->cells[address >> 2 & 31];
  }
  void find(uint64_t line) {
    auto found = where.try_emplace(line, used);
    if (found.second) {
      if (used == chunks.size()) chunks.emplace_back(new Chunk);
      *chunks[used] = Chunk{};
      chunks[used++]->line = line;
    }
    last_line = line;
    last = found.first->second;
  }
  void clear() {
    where.clear();
    parts.clear();
    used = 0;
    last_line = ~0ull;
  }
};
// Calls f(cell, address) for the cells under an access; `cell` has `part`, one more than the place
// in `parts`, where its word is used in parts.
template <class Cell, class F>
void each_cell(Cell *cell, std::vector<std::array<Cell, 4>> &parts, uint64_t address,
               uint32_t bytes, F f) {
  if (!cell->part && bytes == 4) return f(*cell, address);
  if (!cell->part) {
    Cell copy = *cell;
    parts.push_back({copy, copy, copy, copy});
    cell->part = uint32_t(parts.size());
  }
  for (uint32_t i = 0; i < bytes; i++) f(parts[cell->part - 1][(address & 3) + i], address + i);
}

}  // namespace analysis
