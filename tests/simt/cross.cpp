// Runs kernels of blocks.cu and warps.cu on the runtime alone: driver and analysis are stood in for.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <vector>

#include "../../colibri_lab/simt/native/abi.h"

int simt_find_allocation(const void *, SimtAllocation *) { return 0; }
void simt_analysis_begin_block(void) {}
void simt_analysis_end_block(void) {}
void simt_analysis_barrier(const void *, int, unsigned) {}
void simt_analysis_fence(const void *, int) {}
void simt_analysis_thread_exit(void) {}
unsigned simt_analysis_mode(void) { return 0; }
int simt_source_line(const void *, char *, size_t, uint32_t *) { return 0; }

using Run = int (*)(const SimtLaunch *, SimtFault *);

static int launch(Run run, const SimtImage *image, const char *name, uint32_t grid, uint32_t block,
                  std::vector<void *> args) {
  for (uint32_t i = 0; i < image->num_kernels; i++) {
    if (strcmp(image->kernels[i].name, name)) continue;
    SimtLaunch l = {};
    l.kernel = &image->kernels[i];
    l.image = image;
    l.args = args.data();
    for (int axis = 0; axis < 3; axis++) l.grid[axis] = axis < 2 ? grid : 1;
    for (int axis = 0; axis < 3; axis++) l.block[axis] = axis < 2 ? block : 1;
    l.workers = 2;
    SimtFault fault = {};
    int code = run(&l, &fault);
    if (code) printf("%s: %d %s\n", name, code, fault.message);
    return code;
  }
  printf("no kernel %s\n", name);
  return -1;
}

int main(int, char **argv) {
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL), *image = dlopen(argv[2], RTLD_NOW);
  if (!library || !image) return puts(dlerror()), 1;
  auto run = (Run)dlsym(library, "simt_run_grid");
  auto kernels = (const SimtImage *)dlsym(image, "simt_image");
  int n = 64, wrong = 0;
  std::vector<float> a(n * n), b(n * n), c(n * n);
  for (int i = 0; i < n * n; i++) a[i] = i * 7 % 13 - 6, b[i] = i * 5 % 11 - 5;
  float *pa = a.data(), *pb = b.data(), *pc = c.data();
  if (launch(run, kernels, "sgemm", 4, 16, {&pa, &pb, &pc, &n})) return 1;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      float sum = 0;
      for (int k = 0; k < n; k++) sum += a[i * n + k] * b[k * n + j];
      wrong += sum != c[i * n + j];
    }
  std::vector<int> votes(16 * 16 * 3);
  int *pv = votes.data(), limit = 9;
  if (launch(run, kernels, "barrier_votes", 1, 16, {&pv, &limit})) return 1;
  wrong += votes[0] != 16 * 9 || votes[1] != 0 || votes[2] != 1;
  // A store through a bad pointer must come back as a fault.
  unsigned *nowhere = (unsigned *)16;
  wrong += launch(run, kernels, "places", 1, 8, {&nowhere}) != 700;
  printf("wrong: %d\n", wrong);
  return wrong != 0;
}
