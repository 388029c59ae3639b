// Ctrl-C while a kernel runs: the grid stops, what is queued is dropped, and the program's own
// handler has its say (Python's raises KeyboardInterrupt as the call returns). The context stays
// usable: nothing was wrong with the kernel.
#include <signal.h>
#include <stdio.h>

#include "driver.h"

namespace driver {
namespace {

struct sigaction previous;
volatile sig_atomic_t was_interrupted = 0;

void handle(int number, siginfo_t *info, void *context) {
  was_interrupted = 1;
  simt_cancel();
  if (previous.sa_flags & SA_SIGINFO) previous.sa_sigaction(number, info, context);
  else previous.sa_handler(number);
}

bool is_default(const struct sigaction &action) {
  return !(action.sa_flags & SA_SIGINFO) &&
         (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN);
}

}  // namespace

// Runs the grid; whether it ran to its end, or a fault, in `code`.
bool run_interruptibly(const SimtLaunch &launch, SimtFault *fault, int *code) {
  was_interrupted = 0;
  struct sigaction ours = {};
  ours.sa_sigaction = handle;
  ours.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  bool is_ours = !sigaction(SIGINT, nullptr, &previous) && !is_default(previous) &&
                 !sigaction(SIGINT, &ours, nullptr);
  *code = simt_run_grid(&launch, fault);
  if (is_ours) sigaction(SIGINT, &previous, nullptr);
  if (!was_interrupted || *code != CUDA_ERROR_LAUNCH_FAILED) return true;
  fprintf(stderr, "kernel '%s' was interrupted: what it wrote is incomplete\n",
          launch.kernel->name);
  return false;
}

}  // namespace driver
