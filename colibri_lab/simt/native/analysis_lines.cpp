// From places in an image to the user's file and line, by addr2line once for many places.
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <set>

#include "analysis.h"

namespace analysis {

static std::mutex images_lock;
static std::vector<std::unique_ptr<Image>> images;
constexpr size_t kMostCopies = 256;  // each keeps a file open

namespace {
struct Module {
  uintptr_t inside, base, bytes;
  std::string path;
};
}  // namespace

static int look(struct dl_phdr_info *info, size_t, void *data) {
  Module *module = static_cast<Module *>(data);
  uintptr_t end = 0;
  bool holds = false;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const auto &part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    holds |= module->inside - (info->dlpi_addr + part.p_vaddr) < part.p_memsz;
    end = std::max<uintptr_t>(end, part.p_vaddr + part.p_memsz);
  }
  if (!holds) return 0;
  module->base = info->dlpi_addr;
  module->bytes = end;
  module->path = info->dlpi_name ? info->dlpi_name : "";
  if (module->path.compare(0, 11, "/proc/self/") == 0)  // another process will read it
    module->path = "/proc/" + std::to_string(getpid()) + module->path.substr(10);
  return 1;
}

// The image's file may be gone by the time its lines are asked for: a copy in memory stays, of the
// last images.
static void copy(Image &image, const std::string &path) {
  image.path = path;
  FILE *from = fopen(path.c_str(), "rb");
  int to = from ? memfd_create("simt-image", MFD_CLOEXEC) : -1;
  if (to < 0) {
    if (from) fclose(from);
    return;
  }
  char part[1 << 16];
  for (size_t n; (n = fread(part, 1, sizeof part, from)) > 0;)
    if (write(to, part, n) != ssize_t(n)) break;
  fclose(from);
  image.file = to;
  image.path = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(to);
}

static void drop_copy(Image &image) {
  if (image.file < 0) return;
  resolve_results(image);
  close(image.file);
  image.file = -1;
  image.path = "an image that is no longer kept";
}

static uint64_t fingerprint(const SimtImage *image, const Module &module) {
  uint64_t hash = 0xcbf29ce484222325ull ^ module.bytes;
  auto mix = [&](const char *text) {
    for (; text && *text; text++) hash = (hash ^ uint8_t(*text)) * 0x100000001b3ull;
  };
  mix(module.path.c_str());
  mix(image->source_path);
  for (uint32_t i = 0; i < image->num_kernels; i++) {
    mix(image->kernels[i].name);
    hash = (hash ^ reinterpret_cast<uintptr_t>(image->kernels[i].call)) * 0x100000001b3ull;
  }
  const uint64_t *code = reinterpret_cast<const uint64_t *>(module.inside & ~7ull);
  size_t left = (module.base + module.bytes - module.inside) & 4095;
  for (size_t i = 0; i + 1 < left / 8; i++) hash = (hash ^ code[i]) * 0x100000001b3ull;
  return hash;
}

Image *find_image(const SimtLaunch *launch) {
  Module module{reinterpret_cast<uintptr_t>(launch->kernel->call), 0, 0, ""};
  dl_iterate_phdr(look, &module);
  uint64_t hash = fingerprint(launch->image, module);
  std::lock_guard hold(images_lock);
  for (auto &one : images)
    if (one->image == launch->image && one->fingerprint == hash) return one.get();
  auto one = std::make_unique<Image>();
  one->id = uint32_t(images.size());
  one->image = launch->image;
  one->fingerprint = hash;
  one->is_instrumented = launch->image->instrumented;
  one->base = module.base;
  one->bytes = module.bytes;
  copy(*one, module.path);
  if (images.size() >= kMostCopies) drop_copy(*images[images.size() - kMostCopies]);
  one->source_path = launch->image->source_path ? launch->image->source_path : "";
  one->slots.reset(new std::atomic<uint32_t>[module.bytes + 1]());
  images.push_back(std::move(one));
  return images.back().get();
}

Image *image_number(uint32_t id) {
  std::lock_guard hold(images_lock);
  return id < images.size() ? images[id].get() : nullptr;
}

uint32_t Image::slot(uint64_t key) {
  // A call can be a read and a write (memcpy): they are told apart by one byte.
  uint32_t at = pc_of(key) - (kind_of(key) != BASIC_BLOCK && writes(kind_of(key)));
  if (at > bytes) return 0;
  uint32_t found = slots[at].load(std::memory_order_acquire);
  if (__builtin_expect(found != 0, 1)) return found;
  std::lock_guard hold(lock);
  found = slots[at].load();
  if (!found) slots[at].store(found = num_sites++, std::memory_order_release);
  return found;
}

// ---- lines -----------------------------------------------------------------------------------------------

static bool is_header(const std::string &file) {
  return file.find("/colibri_lab/simt/include/") != std::string::npos ||
         file.find("/usr/include/") == 0 || file.find("/usr/lib/") == 0 || file[0] == '?';
}

// One answer of addr2line -i: the frames of a place, innermost first. The user's own is wanted.
static std::string choose(const std::vector<std::string> &frames) {
  for (const std::string &frame : frames) {
    if (is_header(frame)) continue;
    size_t from = 0;  // the compiler's own folder is "."
    while (frame.compare(from, 2, "./") == 0) from += 2;
    return frame.substr(from, frame.find(" (") - from);
  }
  return frames.empty() || frames[0][0] == '?' ? "" : frames[0].substr(0, frames[0].find(" ("));
}

static std::string quoted(const std::string &text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

static bool ask(const char *tool, const std::string &path, const std::vector<uint32_t> &places,
                size_t from, size_t to, std::map<uint32_t, std::string> &lines) {
  std::string command = std::string(tool) + " -a -i -e " + quoted(path);
  char text[64];
  for (size_t i = from; i < to; i++) {
    snprintf(text, sizeof text, " 0x%x", places[i] - 1);  // within the call, not after it
    command += text;
  }
  FILE *pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (!pipe) return false;
  char *line = nullptr;
  size_t room = 0, at = from;
  std::vector<std::string> frames;
  bool any = false;
  auto close_place = [&] {
    if (any) lines[places[at++]] = choose(frames);
    frames.clear();
  };
  while (getline(&line, &room, pipe) > 0) {
    std::string got(line, strcspn(line, "\n"));
    if (got.compare(0, 2, "0x") == 0) {
      close_place();
      any = true;
    } else if (!got.empty()) {
      frames.push_back(got);
    }
  }
  close_place();
  free(line);
  return pclose(pipe) == 0 && any;
}

void resolve(Image &image, const std::vector<uint32_t> &places) {
  std::vector<uint32_t> missing;
  std::lock_guard hold(image.lock);
  for (uint32_t place : std::set<uint32_t>(places.begin(), places.end()))
    if (!image.lines.count(place)) missing.push_back(place);
  const char *chosen = getenv("COLIBRI_SIMT_ADDR2LINE");
  for (size_t from = 0; from < missing.size(); from += 1000) {
    size_t to = std::min(missing.size(), from + 1000);
    for (const char *tool : {chosen ? chosen : "addr2line", "llvm-addr2line"})
      if (ask(tool, image.path, missing, from, to, image.lines)) break;
  }
}

}  // namespace analysis

SIMT_API int simt_source_line(const void *pc, char *file, size_t file_bytes, uint32_t *line) {
  using namespace analysis;
  Module module{reinterpret_cast<uintptr_t>(pc), 0, 0, ""};
  if (!dl_iterate_phdr(look, &module)) return 0;
  std::map<uint32_t, std::string> lines;
  std::vector<uint32_t> places{uint32_t(module.inside - module.base)};
  if (!ask("addr2line", module.path, places, 0, 1, lines)) {
    if (!ask("llvm-addr2line", module.path, places, 0, 1, lines)) return 0;
  }
  std::string found = lines.empty() ? "" : lines.begin()->second;
  size_t colon = found.rfind(':');
  if (colon == std::string::npos) return 0;
  snprintf(file, file_bytes, "%s", found.substr(0, colon).c_str());
  *line = uint32_t(atoi(found.c_str() + colon + 1));
  return *line > 0;
}
