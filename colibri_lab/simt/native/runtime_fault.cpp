// Faults: signals in kernel code become a SimtFault, and the worker goes back to its own stack.
#include <execinfo.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <tuple>

#include "runtime.h"

namespace simt {
namespace {

constexpr size_t kSignalStackBytes = 128 << 10;
constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, kPreempt};
struct sigaction previous[65];

const void *pc_of(const ucontext_t *context) {
#if defined(__x86_64__)
  return (const void *)context->uc_mcontext.gregs[REG_RIP];
#else
  return (const void *)context->uc_mcontext.pc;
#endif
}

bool is_in_image(const Worker *w, const void *pc) {
  return (uintptr_t)pc >= w->grid->image_begin && (uintptr_t)pc < w->grid->image_end;
}

void pass_on(int signal, siginfo_t *info, void *context) {
  const struct sigaction &old = previous[signal];
  if (old.sa_flags & SA_SIGINFO) {
    old.sa_sigaction(signal, info, context);
  } else if (old.sa_handler == SIG_DFL && signal != kPreempt) {
    ::signal(signal, SIG_DFL);  // the instruction runs again and ends the process
  } else if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN) {
    old.sa_handler(signal);
  }
}

// A fault inside a function that the kernel called (memcpy, say) is put where it was called.
const void *caller_in_image(const Worker *w) {
  void *frames[48];
  int count = backtrace(frames, 48);
  for (int i = 0; i < count; i++)
    if (is_in_image(w, frames[i])) return frames[i];
  return nullptr;
}

void on_fault(int signal, siginfo_t *info, void *context) {
  Worker *w = self_worker;
  if (!w || !w->is_running || !simt_self) return pass_on(signal, info, context);
  bool again = w->fault_signal != 0;
  w->fault_signal = signal;
  if (!again) {
    w->fault_code = info->si_code;
    w->fault_address = signal == SIGSEGV || signal == SIGBUS ? info->si_addr : nullptr;
    w->fault_pc = pc_of((const ucontext_t *)context);
    // A return address names the instruction before it: make this one look like that.
    if (is_in_image(w, w->fault_pc)) w->fault_pc = (const char *)w->fault_pc + 1;
    else w->fault_pc = caller_in_image(w);
  }
  siglongjmp(w->escape, 1);
}

// The monitor's signal: the thread has run for long without a switch. Let others run, or stop.
void on_preempt(int signal, siginfo_t *info, void *context) {
  Worker *w = self_worker;
  if (!w) return pass_on(signal, info, context);
  if (!w->is_running || !simt_self || !is_in_image(w, pc_of((const ucontext_t *)context))) return;
  int saved = errno;
  simt_yield();
  errno = saved;
}

const char *range_note(const void *address, char *note, size_t size) {
  SimtAllocation found;
  note[0] = 0;
  if (!address || !simt_find_allocation(address, &found)) return note;
  uint64_t offset = (uint64_t)address - found.base;
  const char *state = found.is_freed ? " (freed)" : "";
  snprintf(note, size, ", byte %llu of allocation %llu of %llu bytes%s",
           (unsigned long long)offset, (unsigned long long)found.id,
           (unsigned long long)found.bytes, state);
  return note;
}

void say(SimtFault *fault, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void say(SimtFault *fault, int code, const char *format, ...) {
  va_list list;
  va_start(list, format);
  fault->code = code;
  vsnprintf(fault->message, sizeof fault->message, format, list);
  va_end(list);
}

}  // namespace

std::string where(const void *pc) {
  char file[512], out[600];
  uint32_t line = 0;
  if (!pc || !simt_source_line(pc, file, sizeof file, &line)) return "";
  snprintf(out, sizeof out, "%s:%u", file, line);
  return out;
}

void install_signal_handlers() {
  static bool is_primed = false;
  if (!is_primed) {
    void *frame;
    backtrace(&frame, 1);  // loads the unwinder now, not in a signal handler
    is_primed = true;
  }
  for (int signal : kSignals) {
    auto handler = signal == kPreempt ? on_preempt : on_fault;
    struct sigaction now;
    if (sigaction(signal, nullptr, &now) == 0 && now.sa_sigaction == handler) continue;
    struct sigaction action = {};
    action.sa_sigaction = handler;
    // Preemption switches stacks in the handler, so it runs on the kernel's own.
    action.sa_flags = SA_SIGINFO | SA_NODEFER | (signal == kPreempt ? SA_RESTART : SA_ONSTACK);
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, &previous[signal]);
  }
}

void enter_signal_stack(Worker *w, stack_t *old) {
  if (!w->signal_stack) {
    void *area = mmap(nullptr, kSignalStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED) return;
    w->signal_stack = (char *)area;
  }
  stack_t stack = {};
  stack.ss_sp = w->signal_stack;
  stack.ss_size = kSignalStackBytes;
  sigaltstack(&stack, old);
}

// Names kernel, line, block and thread; `fault->message` says what happened so far.
void place_fault(Worker *w, SimtFault *fault) {
  const SimtThread &t = w->threads[w->current];
  memcpy(fault->block, t.block_idx, sizeof fault->block);
  memcpy(fault->thread, t.thread_idx, sizeof fault->thread);
  std::string what = fault->message, line = where(fault->pc);
  snprintf(fault->message, sizeof fault->message,
           "%s%s%s in kernel %s, block (%u, %u, %u), thread (%u, %u, %u)", what.c_str(),
           line.empty() ? "" : " at ", line.c_str(), w->grid->launch->kernel->name,
           fault->block[0], fault->block[1], fault->block[2], fault->thread[0], fault->thread[1],
           fault->thread[2]);
}

void fault_from_signal(Worker *w, SimtFault *fault) {
  const Stack &stack = w->stacks[w->stack_of[w->current]];
  const char *address = (const char *)w->fault_address;
  char note[160];
  fault->pc = w->fault_pc;
  fault->address = address;
  if (w->fault_signal == SIGFPE)
    say(fault, 719, "integer division by zero, whose result a GPU leaves undefined,");
  else if (w->fault_signal == SIGILL)
    say(fault, 719, "the kernel stopped itself (__trap or unreachable code)");
  else if (address >= stack.low - kGuardBytes && address < stack.low)
    say(fault, 714, "stack overflow: a thread has %zu KiB here", kStackBytes >> 10);
  else if (w->fault_signal == SIGSEGV && w->fault_code == SI_KERNEL)
    say(fault, 716, "access to a misaligned or impossible address");
  else
    say(fault, 700, "illegal access to address %p%s", (const void *)address,
        range_note(address, note, sizeof note));
  place_fault(w, fault);
}

// Says what each group of threads waits for.
void fault_from_deadlock(Worker *w, SimtFault *fault) {
  std::map<std::pair<const void *, const char *>, std::pair<uint32_t, uint32_t>> groups;
  for (uint32_t i = 0; i < w->num_threads; i++) {
    if (!(w->warps[i >> 5].alive >> (i & 31) & 1)) continue;
    auto &group = groups[{w->wait_pc[i], w->wait_what[i]}];
    if (!group.first++) group.second = i;
  }
  std::string text = "deadlock: ";
  uint32_t fewest = ~0u;
  for (auto &[place, group] : groups) {
    auto [count, thread] = group;
    if (text.size() > 10) text += ", ";
    std::string line = where(place.first);
    text += std::to_string(count) + (count == 1 ? " thread waits in " : " threads wait in ") +
            place.second + (line.empty() ? "" : " at " + line);
    if (count >= fewest) continue;
    fewest = count;
    w->current = thread;
    fault->pc = place.first;
  }
  if (uint32_t ended = w->num_threads - w->alive) text += ", " + std::to_string(ended) + " ended";
  say(fault, 702, "%.700s;", text.c_str());
  place_fault(w, fault);
}

}  // namespace simt

using namespace simt;

void simt_raise(const SimtFault *fault) {
  Worker *w = self_worker;
  w->fault = *fault;
  siglongjmp(w->escape, 2);
}

void simt_trap(void) {
  SimtFault fault = {};
  fault.pc = __builtin_return_address(0);
  say(&fault, 719, "__trap()");
  place_fault(self_worker, &fault);
  simt_raise(&fault);
}

void simt_refuse(const char *what) {
  SimtFault fault = {};
  fault.pc = __builtin_return_address(0);
  say(&fault, 801, "%s", what);
  place_fault(self_worker, &fault);
  simt_raise(&fault);
}

void simt_assert_fail(const char *expression, const char *file, unsigned line,
                      const char *function) {
  const SimtThread *t = simt_self;
  char text[700];
  snprintf(text, sizeof text, "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.",
           file, line, function, t->block_idx[0], t->block_idx[1], t->block_idx[2],
           t->thread_idx[0], t->thread_idx[1], t->thread_idx[2], expression);
  fprintf(stderr, "%s\n", text);
  SimtFault fault = {};
  fault.pc = __builtin_return_address(0);
  say(&fault, 710, "assertion `%.400s` failed", expression);
  place_fault(self_worker, &fault);
  simt_raise(&fault);
}
