#include "memory/order_check.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

#include "runtime/order_clock.h"
#include "runtime/queue.h"

namespace hpu_reference::memory {

namespace {

// One use of a block.
struct Use {
  int queue;
  std::uint64_t number;  // of the work, in its queue
  c10::StreamId stream;
  bool written;
  bool freed;  // the tensor has died since
  std::string name;
};

struct Check {
  std::mutex mutex;
  std::unordered_map<const Block*, std::vector<Use>> uses;
  std::set<std::string> known;  // reports that were made
  std::vector<std::string> reports;
};

Check& check() {
  static auto* value = new Check();
  return *value;
}

std::string stream_name(c10::StreamId stream) {
  return stream == 0 ? "the default stream" : "stream " + std::to_string(stream);
}

std::string report(const Use& before, const Use& now) {
  const std::string text = now.name + " on " + stream_name(now.stream) +
                           (now.written ? " writes" : " reads") + " memory that " + before.name + " on " +
                           stream_name(before.stream) + (before.written ? " writes" : " reads") +
                           ", and nothing orders them: ";
  if (before.freed) {
    return text + "the tensor was freed without record_stream(" + stream_name(before.stream) +
           "), and another one has its memory";
  }
  return text + stream_name(now.stream) + " has to wait for " + stream_name(before.stream) +
         " (wait_stream, or wait_event with an event recorded behind " + before.name + ")";
}

}  // namespace

void check_order(c10::ArrayRef<BlockUse> uses, c10::StreamId stream, const std::string& name) {
  const int queue = runtime::queue_of(stream);
  const runtime::OrderClock clock = runtime::tick(queue);
  std::vector<std::string> fresh;
  {
    Check& self = check();
    const std::lock_guard<std::mutex> lock(self.mutex);
    for (const BlockUse& used : uses) {
      const Use now{queue, clock.at(queue), stream, used.written, /*freed=*/false, name};
      std::vector<Use>& earlier = self.uses[used.block];
      for (const Use& before : earlier) {
        const auto known = clock.find(before.queue);
        const bool ordered = known != clock.end() && known->second >= before.number;
        if (!ordered && (before.written || used.written)) {
          std::string text = report(before, now);
          if (self.known.insert(text).second) {
            self.reports.push_back(text);
            fresh.push_back(std::move(text));
          }
        }
      }
      // What this work is ordered behind no later work can miss without missing this one, if it writes.
      const auto covered = [&](const Use& before) {
        const auto known = clock.find(before.queue);
        return known != clock.end() && known->second >= before.number &&
               (used.written || (!before.written && before.queue == queue));
      };
      earlier.erase(std::remove_if(earlier.begin(), earlier.end(), covered), earlier.end());
      earlier.push_back(now);
    }
  }
  for (const std::string& text : fresh) {
    TORCH_WARN("missing wait between streams: ", text);
  }
}

void forget_ordered_uses(const Block* block) {
  Check& self = check();
  const std::lock_guard<std::mutex> lock(self.mutex);
  const auto found = self.uses.find(block);
  if (found == self.uses.end()) {
    return;
  }
  const auto in_order = [&](const Use& use) {
    return use.queue == runtime::queue_of(block->stream) ||
           std::any_of(block->used_on.begin(), block->used_on.end(), [&](StreamId stream) {
             return runtime::queue_of(stream) == use.queue;
           });
  };
  std::vector<Use>& uses = found->second;
  uses.erase(std::remove_if(uses.begin(), uses.end(), in_order), uses.end());
  if (uses.empty()) {
    self.uses.erase(found);
    return;
  }
  for (Use& use : uses) {
    use.freed = true;
  }
}

std::vector<std::string> take_order_reports() {
  Check& self = check();
  const std::lock_guard<std::mutex> lock(self.mutex);
  self.known.clear();
  return std::exchange(self.reports, {});
}

}  // namespace hpu_reference::memory
