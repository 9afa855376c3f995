#include "memory/race_check.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

#include "runtime/queue.h"
#include "runtime/vector_clock.h"

namespace hpu_reference::memory {

namespace {

// A use of memory.
struct Use {
  int queue;
  std::uint64_t number;  // number of the work in its queue
  c10::StreamId stream;
  bool written;
  std::string name;
};

// The uses of the memory of one tensor.
struct History {
  std::uint64_t serial = 0;  // serial number of the block's allocation
  std::vector<Use> uses;
};

// Uses of freed memory that later work may race with. The memory is identified by addresses, because blocks
// are split and coalesced.
struct FreedMemory {
  const char* begin;
  const char* end;
  std::vector<Use> uses;
};

struct RaceCheck {
  std::mutex mutex;
  std::unordered_map<const Block*, History> histories;
  std::vector<FreedMemory> freed;
  std::set<std::string> reported;  // texts that were already reported
  std::vector<std::string> reports;
};

RaceCheck& race_check() {
  static auto* value = new RaceCheck();
  return *value;
}

thread_local bool tls_reporting = false;

// Scope in which is_reporting_race() returns true on this thread.
class ReportingScope {
 public:
  ReportingScope() {
    tls_reporting = true;
  }
  ~ReportingScope() {
    tls_reporting = false;
  }
  ReportingScope(const ReportingScope&) = delete;
  ReportingScope& operator=(const ReportingScope&) = delete;
};

std::string stream_name(c10::StreamId stream) {
  return stream == 0 ? "the default stream" : "stream " + std::to_string(stream);
}

std::string race_report_text(const Use& before, const Use& now, bool freed) {
  const std::string text = now.name + " on " + stream_name(now.stream) +
                           (now.written ? " writes" : " reads") + " memory that " + before.name + " on " +
                           stream_name(before.stream) + (before.written ? " writes" : " reads") +
                           ", and nothing orders them: ";
  if (freed) {
    return text + "the tensor was freed without record_stream(" + stream_name(before.stream) +
           "), and another tensor has its memory";
  }
  return text + stream_name(now.stream) + " has to wait for " + stream_name(before.stream) +
         " (wait_stream, or wait_event with an event recorded after " + before.name + ")";
}

bool is_ordered_after(const runtime::VectorClock& clock, const Use& use) {
  const auto reported = clock.find(use.queue);
  return reported != clock.end() && reported->second >= use.number;
}

template <class Condition>
void drop_uses(std::vector<Use>& uses, const Condition& condition) {
  uses.erase(std::remove_if(uses.begin(), uses.end(), condition), uses.end());
}

void drop_memory_without_uses(std::vector<FreedMemory>& freed) {
  freed.erase(
      std::remove_if(freed.begin(), freed.end(), [](const FreedMemory& entry) { return entry.uses.empty(); }),
      freed.end());
}

// A new use of memory, which is recorded for each block and compared with the earlier uses of the block.
class NewUse {
 public:
  NewUse(RaceCheck& self, const runtime::VectorClock& clock, Use use)
      : self_(self), clock_(clock), use_(std::move(use)) {
  }
  // Records the use of the block. Returns the reports that were not returned before.
  std::vector<std::string> unordered_uses(const Block& block) {
    History& history = self_.histories[&block];
    // If one thread launched work while another thread freed the block, the history may belong to an earlier
    // allocation.
    if (history.serial != block.serial) {
      history = {block.serial, {}};
    }
    compare(history.uses, /*freed=*/false);
    const char* end = block.device + block.size;
    for (FreedMemory& before : self_.freed) {
      if (before.begin < end && block.device < before.end) {
        compare(before.uses, /*freed=*/true);
        if (use_.written && block.device <= before.begin && before.end <= end) {
          drop_uses(before.uses, [&](const Use& use) { return is_ordered_after(clock_, use); });
        }
      }
    }
    drop_memory_without_uses(self_.freed);
    // Of the earlier uses that are ordered before this work, drop all if this work writes; otherwise drop
    // only reads on the same queue. Later work that is ordered after this work is ordered after the dropped
    // uses too.
    drop_uses(history.uses, [&](const Use& before) {
      return is_ordered_after(clock_, before) &&
             (use_.written || (!before.written && before.queue == use_.queue));
    });
    history.uses.push_back(use_);
    return std::move(new_reports_);
  }

 private:
  void compare(const std::vector<Use>& earlier, bool freed) {
    for (const Use& before : earlier) {
      if (!is_ordered_after(clock_, before) && (before.written || use_.written)) {
        std::string text = race_report_text(before, use_, freed);
        if (self_.reported.insert(text).second) {
          self_.reports.push_back(text);
          new_reports_.push_back(std::move(text));
        }
      }
    }
  }

  RaceCheck& self_;
  const runtime::VectorClock& clock_;
  const Use use_;
  std::vector<std::string> new_reports_;
};

}  // namespace

void check_races(c10::ArrayRef<BlockUse> uses, c10::StreamId stream, const std::string& name) {
  const int queue = runtime::queue_of(stream);
  const runtime::VectorClock clock = runtime::advance_queue_clock(queue);
  std::vector<std::string> new_reports;
  {
    RaceCheck& self = race_check();
    const std::lock_guard<std::mutex> lock(self.mutex);
    for (const BlockUse& used : uses) {
      if (!used.freed) {  // otherwise the pool retains the memory until the work has run
        NewUse newcomer(self, clock, {queue, clock.at(queue), stream, used.written, name});
        for (std::string& text : newcomer.unordered_uses(*used.block)) {
          new_reports.push_back(std::move(text));
        }
      }
    }
  }
  const ReportingScope reporting;
  for (const std::string& text : new_reports) {
    TORCH_WARN("missing wait between streams: ", text);
  }
}

bool is_reporting_race() {
  return tls_reporting;
}

void remove_recorded_uses(const Block* block, const std::vector<StreamId>& recorded_streams) {
  const runtime::VectorClock host = runtime::clock_of_host();
  RaceCheck& self = race_check();
  const std::lock_guard<std::mutex> lock(self.mutex);
  const auto history_entry = self.histories.find(block);
  if (history_entry == self.histories.end()) {
    return;
  }
  std::vector<Use> uses = std::move(history_entry->second.uses);
  const bool current = history_entry->second.serial == block->serial;
  self.histories.erase(history_entry);
  drop_uses(uses, [&](const Use& use) {
    return use.queue == runtime::queue_of(block->stream) || is_ordered_after(host, use) ||
           std::any_of(recorded_streams.begin(), recorded_streams.end(), [&](StreamId stream) {
             return runtime::queue_of(stream) == use.queue;
           });
  });
  if (!current || uses.empty()) {
    return;
  }
  for (FreedMemory& before : self.freed) {  // uses that the host has waited for cannot race any more
    drop_uses(before.uses, [&](const Use& use) { return is_ordered_after(host, use); });
  }
  drop_memory_without_uses(self.freed);
  self.freed.push_back({block->device, block->device + block->size, std::move(uses)});
}

std::vector<std::string> take_race_reports() {
  RaceCheck& self = race_check();
  const std::lock_guard<std::mutex> lock(self.mutex);
  self.reported.clear();
  return std::exchange(self.reports, {});
}

}  // namespace hpu_reference::memory
