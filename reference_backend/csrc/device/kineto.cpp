// The device's plug-in for torch's profiler: Kineto calls it to record a profile, and it returns the rows of
// the recording.
#include "device/kineto.h"

#if HPU_REFERENCE_KINETO

// Compile the fmt functions that Kineto's header calls, because torch's library does not export them.
#define FMT_HEADER_ONLY 1
#include <kineto/libkineto.h>
#include <unistd.h>

#include <set>

#include "device_key.h"
#include "runtime/trace.h"

namespace hpu_reference::device {

namespace {

using libkineto::ActivityType;

// The index of the only device in torch's tables and traces.
constexpr int kDevice = 0;

// The sort position of the device's rows among the processes of a trace: larger than any process id.
constexpr std::int64_t kBelowProcesses = 5'000'000;

const char* const kName = DEVICE_NAME;
// The kind of row that torch requests for a device with this dispatch key.
constexpr ActivityType kActivity =
    DEVICE_KEY_IS_PRIVATEUSE1 ? ActivityType::CONCURRENT_KERNEL : ActivityType::HPU_OP;

std::string name_of_queue(int queue) {
  return queue == 0 ? "default stream" : "stream " + std::to_string(queue);
}

// The recording of one torch profile.
class ProfileRecording {
 public:
  ProfileRecording() {
    runtime::g_profiles++;
  }
  ~ProfileRecording() {
    if (runtime::g_profiles.load() > 0) {  // a fork resets the counter to 0 in the child
      runtime::g_profiles--;
    }
  }
  ProfileRecording(const ProfileRecording&) = delete;
  ProfileRecording& operator=(const ProfileRecording&) = delete;

  runtime::Trace end() {
    return recording_.end();
  }

 private:
  runtime::TraceRecording recording_;
};

class Session final : public libkineto::IActivityProfilerSession {
 public:
  void start() override {
    recording_ = std::make_unique<ProfileRecording>();
    status_ = libkineto::TraceStatus::RECORDING;
  }
  void stop() override {
    if (recording_ != nullptr) {
      trace_ = recording_->end();
      recording_.reset();
    }
    status_ = libkineto::TraceStatus::PROCESSING;
  }
  std::vector<std::string> errors() override {
    if (trace_.dropped == 0) {
      return {};
    }
    return {std::to_string(trace_.dropped) + " rows of the device were dropped; profile a shorter time"};
  }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](std::int32_t) { return nullptr; }, 0, 0);
  }
  void processTrace(libkineto::ActivityLogger& logger,
                    libkineto::getLinkedActivityCallback linked,
                    std::int64_t begin,
                    std::int64_t end) override {
    buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer_->span = libkineto::TraceSpan(begin, end, kName);
    for (const runtime::TraceRow& row : trace_.rows) {
      buffer_->emplace_activity(buffer_->span, kActivity, row.name);
      libkineto::GenericTraceActivity& activity = *buffer_->activities.back();
      activity.startTime = row.start;
      activity.endTime = row.end;
      activity.device = kDevice;
      activity.resource = row.queue;
      activity.threadId = row.queue;
      activity.id = static_cast<std::int32_t>(row.correlation);
      if (row.correlation != 0) {
        activity.linked = linked(activity.id);
      }
      activity.addMetadataQuoted("kind", runtime::name_of(row.kind));
      activity.addMetadata("stream", row.queue);
      if (row.bytes >= 0) {
        activity.addMetadata("bytes", row.bytes);
      }
      queues_.insert(row.queue);
      activity.log(logger);
    }
    if (trace_.dropped > 0) {
      buffer_->emplace_activity(buffer_->span, kActivity, "dropped rows");
      libkineto::GenericTraceActivity& activity = *buffer_->activities.back();
      activity.startTime = activity.endTime = trace_.rows.empty() ? end : trace_.rows.back().end;
      activity.device = kDevice;
      activity.addMetadata("count", trace_.dropped);
      activity.log(logger);
    }
    trace_ = {};
  }
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    return std::make_unique<libkineto::DeviceInfo>(
        libkineto::DeviceInfo{kDevice, kBelowProcesses + kDevice, kName, "HPU 0"});
  }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    std::vector<libkineto::ResourceInfo> result;
    for (const int queue : queues_) {
      result.push_back({queue, queue, kDevice, name_of_queue(queue)});
    }
    return result;
  }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
    return std::move(buffer_);
  }

  void pushCorrelationId(std::uint64_t id) override {
    runtime::push_correlation(id);
  }
  void popCorrelationId() override {
    runtime::pop_correlation();
  }

 private:
  std::unique_ptr<ProfileRecording> recording_;
  runtime::Trace trace_;
  std::set<int> queues_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    return name_;
  }
  const std::set<ActivityType>& availableActivities() const override {
    return activities_;
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>& activities,
                                                                 const libkineto::Config&) override {
    return activities.count(kActivity) != 0 ? std::make_unique<Session>() : nullptr;
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(std::int64_t,
                                                                 std::int64_t,
                                                                 const std::set<ActivityType>& activities,
                                                                 const libkineto::Config& config) override {
    return configure(activities, config);
  }

 private:
  const std::string name_ = kName;
  const std::set<ActivityType> activities_ = {kActivity};
};

}  // namespace

void register_profiler() {
  libkineto::api().registerProfilerFactory([] { return std::make_unique<Profiler>(); });
}

}  // namespace hpu_reference::device

#else

namespace hpu_reference::device {

void register_profiler() {
}

}  // namespace hpu_reference::device

#endif
