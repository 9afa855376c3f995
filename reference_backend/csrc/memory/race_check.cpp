#include "memory/race_check.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

#include "runtime/vector_clock.h"
#include "runtime/queue.h"

namespace hpu_reference::memory {

namespace {

// One use of memory.
struct Use {
  int queue;
  std::uint64_t number;  // of the work, in its queue
  c10::StreamId stream;
  bool written;
  std::string name;
};

// The uses of a tensor's memory.
struct History {
  std::uint64_t serial = 0;  // of the block's allocation
  std::vector<Use> uses;
};

// Uses of memory whose tensor has died and that nothing orders with what comes. Blocks are split and joined,
// so that the memory counts and not its block.
struct Freed {
  const char* begin;
  const char* end;
  std::vector<Use> uses;
};

struct Check {
  std::mutex mutex;
  std::unordered_map<const Block*, History> histories;
  std::vector<Freed> freed;
  std::set<std::string> known;  // reports that were made
  std::vector<std::string> reports;
};

Check& check() {
  static auto* value = new Check();
  return *value;
}

thread_local bool tls_reporting = false;

// Scope in which this thread gives warnings.
class Reporting {
 public:
  Reporting() {
    tls_reporting = true;
  }
  ~Reporting() {
    tls_reporting = false;
  }
  Reporting(const Reporting&) = delete;
  Reporting& operator=(const Reporting&) = delete;
};

std::string stream_name(c10::StreamId stream) {
  return stream == 0 ? "the default stream" : "stream " + std::to_string(stream);
}

std::string report(const Use& before, const Use& now, bool freed) {
  const std::string text = now.name + " on " + stream_name(now.stream) +
                           (now.written ? " writes" : " reads") + " memory that " + before.name + " on " +
                           stream_name(before.stream) + (before.written ? " writes" : " reads") +
                           ", and nothing orders them: ";
  if (freed) {
    return text + "the tensor was freed without record_stream(" + stream_name(before.stream) +
           "), and another one has its memory";
  }
  return text + stream_name(now.stream) + " has to wait for " + stream_name(before.stream) +
         " (wait_stream, or wait_event with an event recorded behind " + before.name + ")";
}

bool is_behind(const runtime::OrderClock& clock, const Use& use) {
  const auto known = clock.find(use.queue);
  return known != clock.end() && known->second >= use.number;
}

template <class Condition>
void drop_uses(std::vector<Use>& uses, const Condition& condition) {
  uses.erase(std::remove_if(uses.begin(), uses.end(), condition), uses.end());
}

// Drops entries without uses.
void drop_empty(std::vector<Freed>& freed) {
  freed.erase(
      std::remove_if(freed.begin(), freed.end(), [](const Freed& entry) { return entry.uses.empty(); }),
      freed.end());
}

// A new use of memory: reports the earlier ones that it is not ordered with, and remembers it.
class Newcomer {
 public:
  Newcomer(Check& self, const runtime::OrderClock& clock, Use use)
      : self_(self), clock_(clock), use_(std::move(use)) {
  }
  // Returns the reports that were not made before.
  std::vector<std::string> meet(const Block& block) {
    History& history = self_.histories[&block];
    if (history.serial != block.serial) {  // noted by a thread that launched while another one freed it
      history = {block.serial, {}};
    }
    compare(history.uses, /*freed=*/false);
    const char* end = block.device + block.size;
    for (Freed& before : self_.freed) {
      if (before.begin < end && block.device < before.end) {
        compare(before.uses, /*freed=*/true);
        if (use_.written && block.device <= before.begin && before.end <= end) {
          drop_uses(before.uses, [&](const Use& use) { return is_behind(clock_, use); });
        }
      }
    }
    drop_empty(self_.freed);
    // What this work is ordered behind no later work can miss without missing this one, if it writes.
    drop_uses(history.uses, [&](const Use& before) {
      return is_behind(clock_, before) && (use_.written || (!before.written && before.queue == use_.queue));
    });
    history.uses.push_back(use_);
    return std::move(fresh_);
  }

 private:
  void compare(const std::vector<Use>& earlier, bool freed) {
    for (const Use& before : earlier) {
      if (!is_behind(clock_, before) && (before.written || use_.written)) {
        std::string text = report(before, use_, freed);
        if (self_.known.insert(text).second) {
          self_.reports.push_back(text);
          fresh_.push_back(std::move(text));
        }
      }
    }
  }

  Check& self_;
  const runtime::OrderClock& clock_;
  const Use use_;
  std::vector<std::string> fresh_;
};

}  // namespace

void check_order(c10::ArrayRef<BlockUse> uses, c10::StreamId stream, const std::string& name) {
  const int queue = runtime::queue_of(stream);
  const runtime::OrderClock clock = runtime::tick(queue);
  std::vector<std::string> fresh;
  {
    Check& self = check();
    const std::lock_guard<std::mutex> lock(self.mutex);
    for (const BlockUse& used : uses) {
      if (!used.freed) {  // else the pool keeps the memory until the work has run
        Newcomer newcomer(self, clock, {queue, clock.at(queue), stream, used.written, name});
        for (std::string& text : newcomer.meet(*used.block)) {
          fresh.push_back(std::move(text));
        }
      }
    }
  }
  const Reporting reporting;
  for (const std::string& text : fresh) {
    TORCH_WARN("missing wait between streams: ", text);
  }
}

bool is_reporting_order() {
  return tls_reporting;
}

void forget_ordered_uses(const Block* block, const std::vector<StreamId>& recorded_streams) {
  const runtime::OrderClock host = runtime::clock_of_host();
  Check& self = check();
  const std::lock_guard<std::mutex> lock(self.mutex);
  const auto found = self.histories.find(block);
  if (found == self.histories.end()) {
    return;
  }
  std::vector<Use> uses = std::move(found->second.uses);
  const bool current = found->second.serial == block->serial;
  self.histories.erase(found);
  drop_uses(uses, [&](const Use& use) {
    return use.queue == runtime::queue_of(block->stream) || is_behind(host, use) ||
           std::any_of(recorded_streams.begin(), recorded_streams.end(), [&](StreamId stream) {
             return runtime::queue_of(stream) == use.queue;
           });
  });
  if (!current || uses.empty()) {
    return;
  }
  for (Freed& before : self.freed) {  // nothing that the host is behind can be missed any more
    drop_uses(before.uses, [&](const Use& use) { return is_behind(host, use); });
  }
  drop_empty(self.freed);
  self.freed.push_back({block->device, block->device + block->size, std::move(uses)});
}

std::vector<std::string> take_order_reports() {
  Check& self = check();
  const std::lock_guard<std::mutex> lock(self.mutex);
  self.known.clear();
  return std::exchange(self.reports, {});
}

}  // namespace hpu_reference::memory
