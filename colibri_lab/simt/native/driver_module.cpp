// Modules: a host shared object, loaded anew each time so that its variables are its own.
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver.h"

namespace driver {

struct Module {
  Context *context = nullptr;
  void *library = nullptr;
  int file = -1;
  const SimtImage *image = nullptr;
  std::map<std::string, std::unique_ptr<Function>> functions;  // as they are asked for
};

namespace {

constexpr int kGpuMachine = 190;  // e_machine of a cubin
auto &live_modules = *new Handles<Module>;
auto &live_functions = *new Handles<Function>;

// The length of an image that came as a mere pointer: its section headers stand last.
size_t image_bytes(const void *image) {
  auto *head = static_cast<const Elf64_Ehdr *>(image);
  if (!image) raise(CUDA_ERROR_INVALID_VALUE, "no image");
  if (memcmp(head->e_ident, ELFMAG, SELFMAG)) {
    bool is_text = !strncmp(static_cast<const char *>(image), "//", 2) ||
                   !strncmp(static_cast<const char *>(image), ".version", 8);
    raise(is_text ? CUDA_ERROR_INVALID_PTX : CUDA_ERROR_INVALID_IMAGE,
          "the image is %s: without a GPU, compile it with the command that enable() names",
          is_text ? "PTX" : "no shared object");
  }
  if (head->e_machine == kGpuMachine)
    raise(CUDA_ERROR_NO_BINARY_FOR_GPU,
          "the image is a GPU's machine code, made by the real nvcc; without a GPU, compile it "
          "with the command that enable() names");
  return head->e_shoff + size_t(head->e_shnum) * head->e_shentsize;
}

int memory_file(const void *data, size_t bytes) {
  int file = memfd_create("simt-image", MFD_CLOEXEC);
  if (file < 0) raise(CUDA_ERROR_OUT_OF_MEMORY, "the system has no memory file left");
  auto *at = static_cast<const char *>(data);
  while (bytes) {
    ssize_t written = write(file, at, bytes);
    if (written <= 0) {
      close(file);
      raise(CUDA_ERROR_OUT_OF_MEMORY, "the image does not fit into memory");
    }
    at += written;
    bytes -= size_t(written);
  }
  return file;
}

std::string file_path(int file) { return "/proc/self/fd/" + std::to_string(file); }

void open_library(Module &module) {
  module.library = dlopen(file_path(module.file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!module.library) raise(CUDA_ERROR_INVALID_IMAGE, "%s", dlerror());
  module.image = static_cast<const SimtImage *>(dlsym(module.library, "simt_image"));
  if (!module.image) raise(CUDA_ERROR_INVALID_IMAGE, "the shared object is no compiled kernel");
  if (module.image->abi != SIMT_ABI)
    raise(CUDA_ERROR_INVALID_IMAGE, "the image was compiled for interface %u, this is %u",
          module.image->abi, unsigned(SIMT_ABI));
}

void close_library(Module &module) {
  if (module.library) dlclose(module.library);
  // The loader knows libraries by name: while it keeps one, no other may get its name.
  std::string path = file_path(module.file);
  void *kept = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (kept) dlclose(kept);
  else close(module.file);
}

void add_globals(Context &context, const SimtImage &image) {
  for (uint32_t i = 0; i < image.num_globals; i++) {
    const SimtGlobal &global = image.globals[i];
    if (!global.bytes) continue;
    auto base = reinterpret_cast<uint64_t>(global.address);
    add_block({{base, global.bytes, 0, SIMT_GLOBAL, 0}, &context, 0, nullptr, 0});
  }
}

void load(Context &context, const void *image, Module **made) {
  auto module = std::make_shared<Module>();
  module->context = &context;
  std::vector<char> decoded;
  if (image_from_text(image, &decoded)) image = decoded.data();
  module->file = memory_file(image, image_bytes(image));
  try {
    open_library(*module);
  } catch (const Failure &) {
    close_library(*module);
    throw;
  }
  add_globals(context, *module->image);
  live_modules.add(*made = module.get());
  context.modules.push_back(std::move(module));
}

std::vector<char> read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) raise(CUDA_ERROR_FILE_NOT_FOUND, "%s", path);
  std::vector<char> data;
  char part[65536];
  while (size_t got = fread(part, 1, sizeof part, file)) data.insert(data.end(), part, part + got);
  fclose(file);
  data.resize(data.size() + sizeof(Elf64_Ehdr));  // whoever reads a head finds one
  return data;
}

const SimtKernel *find_kernel(const SimtImage &image, const char *name) {
  for (uint32_t i = 0; i < image.num_kernels; i++)
    if (!strcmp(image.kernels[i].name, name)) return &image.kernels[i];
  return nullptr;
}

std::string kernel_names(const SimtImage &image) {
  std::string names;
  for (uint32_t i = 0; i < image.num_kernels && names.size() < 400; i++)
    names += std::string(i ? ", " : "") + image.kernels[i].name;
  return names.empty() ? "none" : names;
}

Function &get_function(Module &module, const char *name) {
  std::unique_ptr<Function> &function = module.functions[name];
  if (function) return *function;
  const SimtKernel *kernel = find_kernel(*module.image, name);
  if (!kernel) {
    module.functions.erase(name);
    raise(CUDA_ERROR_NOT_FOUND, "no kernel '%s'; the module has: %s", name,
          kernel_names(*module.image).c_str());
  }
  function = std::make_unique<Function>();
  function->module = &module;
  function->image = module.image;
  function->kernel = kernel;
  live_functions.add(function.get());
  return *function;
}

}  // namespace

Function &function_of(Function *handle) { return live_functions.check(handle, "function"); }

void unload(Module &module) {
  for (auto &entry : module.functions) live_functions.remove(entry.second.get());
  for (uint32_t i = 0; i < module.image->num_globals; i++) {
    const SimtGlobal &global = module.image->globals[i];
    if (global.bytes) release(reinterpret_cast<uint64_t>(global.address), SIMT_GLOBAL);
  }
  live_modules.remove(&module);
  close_library(module);
}

}  // namespace driver

using namespace driver;

DRIVER_API cuModuleLoadData(Module **made, const void *image) {
  return in_context([&](Context &context) { load(context, image, made); });
}
DRIVER_API cuModuleLoadDataEx(Module **made, const void *image, unsigned num_options,
                              const int *options, void **values) {
  clear_logs(num_options, options, values);
  return cuModuleLoadData(made, image);
}
DRIVER_API cuModuleLoadFatBinary(Module **made, const void *image) {
  return cuModuleLoadData(made, image);
}
DRIVER_API cuModuleLoad(Module **made, const char *path) {
  return in_context([&](Context &context) {
    std::vector<char> data = read_file(path);
    if (data.size() == sizeof(Elf64_Ehdr)) raise(CUDA_ERROR_INVALID_IMAGE, "%s is empty", path);
    load(context, data.data(), made);
  });
}

DRIVER_API cuModuleUnload(Module *handle) {
  return initialized([&] {
    Module &module = live_modules.check(handle, "module");
    Context &context = *module.context;
    finish_everything();
    unload(module);
    context.modules.remove_if([&](auto &other) { return other.get() == handle; });
    refuse_after_fault(context);
  });
}

DRIVER_API cuModuleGetFunction(Function **function, Module *handle, const char *name) {
  return in_context([&](Context &) {
    *function = &get_function(live_modules.check(handle, "module"), name);
  });
}

DRIVER_API cuModuleGetGlobal_v2(uint64_t *address, size_t *bytes, Module *handle,
                                const char *name) {
  return in_context([&](Context &) {
    const SimtImage &image = *live_modules.check(handle, "module").image;
    for (uint32_t i = 0; i < image.num_globals; i++) {
      const SimtGlobal &global = image.globals[i];
      if (strcmp(global.name, name)) continue;
      if (address) *address = reinterpret_cast<uint64_t>(global.address);
      if (bytes) *bytes = global.bytes;
      return;
    }
    raise(CUDA_ERROR_NOT_FOUND, "the module has no variable '%s'", name);
  });
}
