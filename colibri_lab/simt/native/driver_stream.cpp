// Streams and events.
#include <chrono>

#include "driver.h"

namespace driver {

struct Event {
  Context *context;
  bool has_timing;
  WorkRef record;                // the last one; null: never recorded
  std::shared_ptr<double> time;  // milliseconds of the host's clock, written as the record runs
};

namespace {

auto &live_streams = *new Handles<Stream>;
auto &live_events = *new Handles<Event>;
auto &events = *new std::map<Event *, std::unique_ptr<Event>>;

Event &event_of(Event *handle) { return live_events.check(handle, "event"); }

double now_ms() {
  using namespace std::chrono;
  return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

Stream &make_stream(Context &context, unsigned flags) {
  Stream &stream = context.streams.emplace_back();
  stream.context = &context;
  stream.is_blocking = !(flags & STREAM_NON_BLOCKING);
  live_streams.add(&stream);
  return stream;
}

// What a query saw, and then a step towards it: a loop that asks until it is done comes to an end.
void query(const WorkRef &work) {
  if (!work || work->is_done) return;
  Context &context = *work->stream->context;
  run_one(work);
  refuse_after_fault(context);
  raise(CUDA_ERROR_NOT_READY);
}

}  // namespace

Stream &stream_of(Context &context, Stream *handle) {
  auto number = reinterpret_cast<uintptr_t>(handle);
  if (number <= 1) return context.legacy();
  if (number == 2) {
    if (!context.per_thread) context.per_thread = &make_stream(context, 0);
    return *context.per_thread;
  }
  return live_streams.check(handle, "stream");
}

void forget_streams(Context &context) {
  for (Stream &stream : context.streams) live_streams.remove(&stream);
  context.streams.clear();
  context.per_thread = nullptr;
}

void forget_events(Context &context) {
  for (auto at = events.begin(); at != events.end();) {
    if (at->second->context != &context) {
      ++at;
      continue;
    }
    live_events.remove(at->first);
    at = events.erase(at);
  }
}

}  // namespace driver

using namespace driver;

DRIVER_API cuStreamCreate(Stream **made, unsigned flags) {
  return in_context([&](Context &context) {
    if (flags > STREAM_NON_BLOCKING) raise(CUDA_ERROR_INVALID_VALUE, "no such stream flags");
    *made = &make_stream(context, flags);
  });
}
DRIVER_API cuStreamCreateWithPriority(Stream **made, unsigned flags, int) {
  return cuStreamCreate(made, flags);
}

// Its work still runs: only the handle is gone.
DRIVER_API cuStreamDestroy_v2(Stream *handle) {
  return initialized([&] {
    Stream &stream = live_streams.check(handle, "stream");
    Context &context = *stream.context;
    live_streams.remove(handle);
    stream.is_destroyed = true;
    if (stream.pending.empty())
      context.streams.remove_if([&](Stream &other) { return &other == handle; });
    refuse_after_fault(context);
  });
}

DRIVER_API cuStreamSynchronize(Stream *handle) {
  return in_context([&](Context &current) {
    Stream &stream = stream_of(current, handle);
    Context &context = *stream.context;
    finish(stream);
    refuse_after_fault(context);
  });
}

DRIVER_API cuStreamQuery(Stream *handle) {
  return in_context([&](Context &current) {
    Stream &stream = stream_of(current, handle);
    if (!stream.pending.empty()) query(WorkRef(stream.pending.back()));
  });
}

DRIVER_API cuStreamWaitEvent(Stream *handle, Event *event, unsigned) {
  return in_context([&](Context &current) {
    WorkRef record = event_of(event).record;
    if (record && !record->is_done) enqueue(stream_of(current, handle), [] {}, record);
  });
}

DRIVER_API cuStreamAttachMemAsync(Stream *handle, uint64_t address, size_t bytes, unsigned) {
  return in_context([&](Context &current) {
    stream_of(current, handle);
    need_range(address, bytes, "the managed memory");
  });
}

DRIVER_API cuEventCreate(Event **made, unsigned flags) {
  return in_context([&](Context &context) {
    auto event = std::make_unique<Event>();
    event->context = &context;
    event->has_timing = !(flags & EVENT_DISABLE_TIMING);
    *made = event.get();
    live_events.add(event.get());
    events[event.get()] = std::move(event);
  });
}

DRIVER_API cuEventDestroy_v2(Event *handle) {
  return initialized([&] {
    Context &context = *event_of(handle).context;
    live_events.remove(handle);
    events.erase(handle);
    refuse_after_fault(context);
  });
}

DRIVER_API cuEventRecord(Event *handle, Stream *stream) {
  return in_context([&](Context &current) {
    Event &event = event_of(handle);
    auto time = std::make_shared<double>(0);
    event.time = time;
    event.record = enqueue(stream_of(current, stream), [time] { *time = now_ms(); });
  });
}

DRIVER_API cuEventSynchronize(Event *handle) {
  return in_context([&](Context &) {
    WorkRef record = event_of(handle).record;
    if (!record || record->is_done) return;
    Context &context = *record->stream->context;
    finish(record);
    refuse_after_fault(context);
  });
}

DRIVER_API cuEventQuery(Event *handle) {
  return in_context([&](Context &) { query(WorkRef(event_of(handle).record)); });
}

// The host's time between the two: how long the emulation took, which says nothing of a GPU.
DRIVER_API cuEventElapsedTime_v2(float *milliseconds, Event *from, Event *to) {
  return in_context([&](Context &) {
    for (Event *event : {&event_of(from), &event_of(to)}) {
      if (!event->has_timing) raise(CUDA_ERROR_INVALID_HANDLE, "an event made without timing");
      if (!event->record) raise(CUDA_ERROR_INVALID_HANDLE, "an event that was never recorded");
      if (!event->record->is_done) raise(CUDA_ERROR_NOT_READY);
    }
    *milliseconds = float(*event_of(to).time - *event_of(from).time);
  });
}
DRIVER_API cuEventElapsedTime(float *milliseconds, Event *from, Event *to) {
  return cuEventElapsedTime_v2(milliseconds, from, to);
}
