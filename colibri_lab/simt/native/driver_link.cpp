// The linker. The compiler command links already: what comes in as PTX or cubin is an image, and
// the linker hands that on. Libraries add nothing; two images cannot be joined.
//
// Where PTX is asked for, the image comes as text: a line that says so, then base64.
#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "driver.h"

namespace driver {

struct Linker {
  std::vector<char> image;
};

namespace {

auto &live_linkers = *new Handles<Linker>;
auto &linkers = *new std::map<Linker *, std::unique_ptr<Linker>>;

constexpr char kTextHead[] = "//simt-image\n";

int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

void add(Linker &linker, const char *data, size_t bytes, const char *name) {
  std::vector<char> decoded;
  if (image_from_text(data, &decoded)) data = decoded.data(), bytes = decoded.size();
  if (bytes >= 8 && !memcmp(data, "!<arch>\n", 8)) return;
  if (bytes < sizeof(Elf64_Ehdr) || memcmp(data, ELFMAG, SELFMAG))
    raise(CUDA_ERROR_INVALID_PTX,
          "'%s' was not compiled by the command that enable() names", name);
  if (!linker.image.empty())
    raise(CUDA_ERROR_NOT_SUPPORTED, "'%s' is a second module; linking several is not emulated",
          name);
  linker.image.assign(data, data + bytes);
}

void add_file(Linker &linker, const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) raise(CUDA_ERROR_FILE_NOT_FOUND, "%s", path);
  std::vector<char> data;
  char part[65536];
  while (size_t got = fread(part, 1, sizeof part, file)) data.insert(data.end(), part, part + got);
  fclose(file);
  add(linker, data.data(), data.size(), path);
}

}  // namespace

void clear_logs(unsigned num_options, const int *options, void **values) {
  constexpr int kInfo = 3, kInfoBytes = 4, kError = 5, kErrorBytes = 6;  // of CUjit_option
  for (unsigned i = 0; i < num_options; i++) {
    int option = options[i];
    if (option == kInfoBytes || option == kErrorBytes) values[i] = nullptr;
    bool is_buffer = option == kInfo || option == kError;
    if (is_buffer && values[i]) *static_cast<char *>(values[i]) = 0;
  }
}

bool image_from_text(const void *data, std::vector<char> *image) {
  auto *text = static_cast<const char *>(data);
  if (!text || strncmp(text, kTextHead, sizeof kTextHead - 1)) return false;
  unsigned bits = 0;
  int num_bits = 0;
  for (text += sizeof kTextHead - 1; base64_digit(*text) >= 0 || *text == '\n'; text++) {
    if (*text == '\n') continue;
    bits = bits << 6 | unsigned(base64_digit(*text));
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    image->push_back(char(bits >> num_bits));
  }
  return true;
}

}  // namespace driver

using namespace driver;

DRIVER_API cuLinkCreate_v2(unsigned num_options, const int *options, void **values,
                           Linker **made) {
  return in_context([&](Context &) {
    clear_logs(num_options, options, values);
    auto linker = std::make_unique<Linker>();
    live_linkers.add(*made = linker.get());
    linkers[*made] = std::move(linker);
  });
}

DRIVER_API cuLinkAddData_v2(Linker *handle, int, void *data, size_t bytes, const char *name,
                            unsigned, void *, void **) {
  return in_context([&](Context &) {
    add(live_linkers.check(handle, "linker"), static_cast<const char *>(data), bytes,
        name ? name : "data");
  });
}

DRIVER_API cuLinkAddFile_v2(Linker *handle, int, const char *path, unsigned, void *, void **) {
  return in_context([&](Context &) { add_file(live_linkers.check(handle, "linker"), path); });
}

DRIVER_API cuLinkComplete(Linker *handle, void **image, size_t *bytes) {
  return in_context([&](Context &) {
    Linker &linker = live_linkers.check(handle, "linker");
    if (linker.image.empty()) raise(CUDA_ERROR_INVALID_IMAGE, "nothing was added to the linker");
    *image = linker.image.data();
    if (bytes) *bytes = linker.image.size();
  });
}

DRIVER_API cuLinkDestroy(Linker *handle) {
  return initialized([&] {
    live_linkers.check(handle, "linker");
    live_linkers.remove(handle);
    linkers.erase(handle);
  });
}
