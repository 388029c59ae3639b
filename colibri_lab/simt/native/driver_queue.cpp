// Queues: what must come before what, and when work runs.
//
// A piece of work waits for the one before it in its stream, for what a wait on an event named,
// and, where the legacy default stream is concerned, for the blocking streams. Anything else may
// run in any order, as on a GPU. With seed 0, work runs as late as it may, and the stream that was
// made last runs first: a host that reads too early, or a stream that relies on another's being
// earlier, goes wrong every time. Other seeds draw an order, and let work run early.
#include <random>

#include "driver.h"

namespace driver {
namespace {

constexpr size_t kMostPending = 1024;  // a stream's; a GPU's queue is as deep, then calls wait

uint64_t draw(uint64_t below) {
  static std::mt19937_64 generator;
  static uint64_t seed = 0;
  if (seed != gpu->seed) generator.seed(seed = gpu->seed);
  return generator() % below;
}

bool is_ready(const Work &work) {
  for (const WorkRef &before : work.after)
    if (!before->is_done) return false;
  return true;
}

// Runs the first of a stream, for which nothing must wait any more.
void run_first(Stream &stream) {
  WorkRef work = stream.pending.front();
  Context &context = *stream.context;
  work->run();
  if (work->is_done) return;  // by a fault or Ctrl-C: all was dropped, the stream perhaps too
  work->is_done = true;
  work->run = nullptr;  // what it holds may be large
  work->after.clear();
  if (!stream.pending.empty() && stream.pending.front() == work) stream.pending.pop_front();
  if (stream.is_destroyed && stream.pending.empty())
    context.streams.remove_if([&](Stream &other) { return &other == &stream; });
}

// The stream whose first piece of work is the next on the way to `target`.
Stream &next_towards(const WorkRef &target) {
  WorkRef work = target;
  for (;;) {
    WorkRef first = work->stream->pending.front();
    WorkRef before;
    for (const WorkRef &other : first->after)
      if (!other->is_done) before = other;
    if (!before) return *first->stream;
    work = before;
  }
}

std::vector<Stream *> ready_streams(Context &context) {
  std::vector<Stream *> ready;
  for (Stream &stream : context.streams)
    if (!stream.pending.empty() && is_ready(*stream.pending.front())) ready.push_back(&stream);
  return ready;
}

bool run_any(Context &context) {
  std::vector<Stream *> ready = ready_streams(context);
  if (!ready.empty()) run_first(*ready[draw(ready.size())]);
  return !ready.empty();
}

void order_with_default_stream(Stream &stream, Work &work) {
  Context &context = *stream.context;
  Stream &legacy = context.legacy();
  if (&stream != &legacy) {
    if (stream.is_blocking && !legacy.pending.empty()) work.after.push_back(legacy.pending.back());
    return;
  }
  for (Stream &other : context.streams)
    if (&other != &legacy && other.is_blocking && !other.pending.empty())
      work.after.push_back(other.pending.back());
}

}  // namespace

WorkRef enqueue(Stream &stream, std::function<void()> run, WorkRef after) {
  auto work = std::make_shared<Work>();
  work->stream = &stream;
  work->run = std::move(run);
  order_with_default_stream(stream, *work);
  if (after && !after->is_done) work->after.push_back(after);
  stream.pending.push_back(work);
  if (gpu->seed && draw(4) == 0) run_any(*stream.context);
  if (stream.pending.size() > kMostPending) finish(stream.pending.front());
  return work;
}

void run_one(const WorkRef &towards) {
  if (!towards->is_done) run_first(next_towards(towards));
}

void finish(const WorkRef &work) {
  while (!work->is_done) {
    if (gpu->seed && draw(2)) run_any(*work->stream->context);
    else run_one(work);
  }
}

void finish(Stream &stream) {
  if (stream.pending.empty()) return;
  WorkRef last = stream.pending.back();
  finish(last);
}

void finish(Context &context) {
  for (;;) {
    Stream *latest = nullptr;
    for (Stream &stream : context.streams)
      if (!stream.pending.empty()) latest = &stream;
    if (!latest) return;
    if (!gpu->seed) finish(*latest);
    else if (!run_any(context)) run_one(latest->pending.back());  // it waits for another context
  }
}

void drop_pending(Context &context) {
  for (Stream &stream : context.streams) {
    for (const WorkRef &work : stream.pending) {
      work->is_done = true;
      work->after.clear();
      if (work != stream.pending.front()) work->run = nullptr;  // the first may be running
    }
    stream.pending.clear();
  }
  context.streams.remove_if([](Stream &stream) { return stream.is_destroyed; });
}

}  // namespace driver
