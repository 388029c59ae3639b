// What was seen, added up over the launches of each kernel, handed out as JSON.
#include <algorithm>
#include <set>

#include "analysis.h"

namespace analysis {

namespace {
struct Result {  // a kernel's
  Image *image;
  std::string kernel;
  uint64_t launches = 0, blocks = 0, threads = 0;
  uint32_t grid[3], block[3];
  uint64_t first_launch = 0;
  std::map<std::pair<uint32_t, uint32_t>, Site> sites;  // by place and kind
  std::vector<Finding> findings;
  std::vector<Step> steps;
};
}  // namespace

static std::mutex results_lock;
static std::vector<Result> results;

bool Finding::same_as(const Finding &other) const {
  return trouble == other.trouble && pc == other.pc && pc2 == other.pc2 && scope == other.scope &&
         kind == other.kind && kind2 == other.kind2 && same_value == other.same_value;
}

bool Finding::before(const Finding &other) const {
  return std::tie(block, block2, thread, thread2, address) <
         std::tie(other.block, other.block2, other.thread, other.thread2, other.address);
}

// One entry a pair of places; its example is the first in the order of blocks and threads.
void note_finding(std::vector<Finding> &all, const Finding &one) {
  for (Finding &have : all) {
    if (!have.same_as(one)) continue;
    uint64_t count = have.count + one.count;
    if (one.before(have)) have = one;
    have.count = count;
    return;
  }
  all.push_back(one);
}

static Result &result_of(Run &done) {
  for (Result &one : results)
    if (one.image == done.image && one.kernel == done.launch->kernel->name) return one;
  results.emplace_back();
  results.back().image = done.image;
  results.back().kernel = done.launch->kernel->name;
  results.back().first_launch = done.launch->number;
  return results.back();
}

static void add_sites(Result &to, const std::vector<Site> &from) {
  for (const Site &site : from) {
    if (!site.pc) continue;
    Site &sum = to.sites.try_emplace({site.pc, site.kind}, Site{site.pc, site.kind, site.bytes, {}})
                    .first->second;
    for (int space = 0; space < 2; space++) sum.counts[space].add(site.counts[space]);
  }
}

void keep(Run &done) {
  std::lock_guard hold(results_lock);
  Result &to = result_of(done);
  if (!to.launches++) to.steps = std::move(done.steps);
  to.blocks += done.num_blocks;
  to.threads += done.num_blocks * done.num_threads;
  memcpy(to.grid, done.launch->grid, sizeof to.grid);
  memcpy(to.block, done.launch->block, sizeof to.block);
  for (auto &worker : done.workers) {
    for (size_t slot = 0; slot < worker->sites.size() && slot < done.l2_sites.size(); slot++)
      worker->sites[slot].pc ? done.l2_sites[slot].pc = worker->sites[slot].pc,
                               done.l2_sites[slot].kind = worker->sites[slot].kind,
                               done.l2_sites[slot].bytes = worker->sites[slot].bytes
                             : uint32_t();
    add_sites(to, worker->sites);
    for (const Finding &one : worker->findings) note_finding(to.findings, one);
  }
  add_sites(to, done.l2_sites);
  for (const Finding &one : done.findings) note_finding(to.findings, one);
}

// ---- JSON ------------------------------------------------------------------------------------------------

static std::string text_of(const std::string &text) {
  std::string out = "\"";
  for (char c : text) {
    char code[8];
    if (uint8_t(c) < 32) {
      snprintf(code, sizeof code, "\\u%04x", c);
      out += code;
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + "\"";
}

static std::string list_of(std::initializer_list<uint64_t> numbers) {
  std::string out = "[";
  for (uint64_t number : numbers) out += (out.size() > 1 ? "," : "") + std::to_string(number);
  return out + "]";
}

static std::string sites_of(const Result &one) {
  std::string out = "[";
  for (auto &[key, site] : one.sites)
    for (uint64_t space = 0; space < 2; space++) {
      const Counts &c = site.counts[space];
      if (!c.requests && !c.l2_hits && !c.l2_misses) continue;
      out += (out.size() > 1 ? "," : "") +
             list_of({site.pc, site.kind, site.bytes, space, c.requests, c.lanes, c.bytes,
                      c.sectors, c.ideal_sectors, c.wavefronts, c.ideal_wavefronts, c.l2_hits,
                      c.l2_misses});
    }
  return out + "]";
}

static std::string findings_of(const Result &one) {
  std::vector<Finding> sorted = one.findings;
  std::sort(sorted.begin(), sorted.end(), [](const Finding &a, const Finding &b) {
    return std::tie(a.trouble, a.pc, a.pc2, a.scope, a.kind, a.kind2, a.same_value) <
           std::tie(b.trouble, b.pc, b.pc2, b.scope, b.kind, b.kind2, b.same_value);
  });
  std::string out = "[";
  for (const Finding &f : sorted)
    out += (out.size() > 1 ? ",[" : "[") +
           list_of({f.trouble, f.pc, f.pc2, f.scope, f.kind, f.kind2, f.same_value, f.count,
                    f.block, f.thread, f.block2, f.thread2, f.address, f.bytes}) +
           "," + text_of(f.note) + "]";
  return out + "]";
}

static std::string lines_of(Image &image, const std::vector<uint32_t> &places) {
  resolve(image, places);
  std::string out = "{";
  for (uint32_t place : std::set<uint32_t>(places.begin(), places.end()))
    out += (out.size() > 1 ? ",\"" : "\"") + std::to_string(place) +
           "\":" + text_of(image.lines[place]);
  return out + "}";
}

static std::vector<uint32_t> places_of(const Result &one) {
  std::vector<uint32_t> places;
  for (auto &entry : one.sites) places.push_back(entry.second.pc);
  for (const Finding &f : one.findings) {
    places.push_back(f.pc);
    if (f.pc2) places.push_back(f.pc2);
  }
  for (const Step &step : one.steps) places.push_back(step.pc);
  return places;
}

void resolve_results(Image &image) {
  std::lock_guard hold(results_lock);
  for (const Result &one : results)
    if (one.image == &image) resolve(image, places_of(one));
}

static std::string as_json(const Result &one) {
  return "{\"kernel\":" + text_of(one.kernel) + ",\"image\":" + text_of(one.image->path) +
         ",\"image_number\":" + std::to_string(one.image->id) +
         ",\"instrumented\":" + (one.image->is_instrumented ? "true" : "false") +
         ",\"source\":" + text_of(one.image->source_path) + ",\"first_launch\":" + std::to_string(one.first_launch) +
         ",\"launches\":" + std::to_string(one.launches) +
         ",\"blocks\":" + std::to_string(one.blocks) +
         ",\"threads\":" + std::to_string(one.threads) +
         ",\"grid\":" + list_of({one.grid[0], one.grid[1], one.grid[2]}) +
         ",\"block\":" + list_of({one.block[0], one.block[1], one.block[2]}) +
         ",\"sites\":" + sites_of(one) + ",\"findings\":" + findings_of(one) +
         ",\"steps\":" + steps_as_json(one.steps) + ",\"lines\":" + lines_of(*one.image, places_of(one)) + "}";
}

}  // namespace analysis

using namespace analysis;

// The caller frees the text with simt_analysis_free.
SIMT_API char *simt_analysis_results() {
  std::lock_guard hold(results_lock);
  std::string out = "[";
  for (const Result &one : results) out += (out.size() > 1 ? "," : "") + as_json(one);
  return strdup((out + "]").c_str());
}
// Lines of any places in an image, as JSON.
SIMT_API char *simt_analysis_lines(uint32_t image, const uint32_t *places, size_t count) {
  Image *found = image_number(image);
  if (!found) return strdup("{}");
  return strdup(lines_of(*found, std::vector<uint32_t>(places, places + count)).c_str());
}
SIMT_API void simt_analysis_free(char *text) { free(text); }
SIMT_API void simt_analysis_clear() {
  std::lock_guard hold(results_lock);
  results.clear();
}

SIMT_API void simt_analysis_set(unsigned wanted) {
  if (wanted & ~mode.load() & SIMT_MEMORY) forget_unwritten();
  mode.store(wanted);
}

__attribute__((constructor)) static void from_environment() {
  const char *names = getenv("COLIBRI_SIMT_ANALYSIS");
  if (!names) return;
  unsigned wanted = 0;
  if (strstr(names, "counters")) wanted |= SIMT_COUNTERS;
  if (strstr(names, "memory")) wanted |= SIMT_MEMORY;
  if (strstr(names, "races")) wanted |= SIMT_RACES;
  mode.store(wanted);
}
