// torch.accelerator.Graph on the device. Older releases of torch do not have this class.
#if __has_include(<ATen/core/GraphImplInterface.h>)
#include <ATen/core/GraphImplInterface.h>
#include <c10/util/Exception.h>

#include <fstream>

#include "device_key.h"
#include "graph/capture.h"

namespace at {

// torch looks this class up by the device's name.
struct HPUGraphImpl final : GraphImplInterface {
  explicit HPUGraphImpl(const GraphImplArgs&) {
  }
  void capture_begin(MempoolId_t pool, GraphCaptureMode) override {
    pool_ = pool;
    capture_.begin(/*dry_run=*/false);
  }
  void capture_end() override {
    capture_.end();
  }
  void instantiate() override {
    capture_.prepare();
  }
  void replay() override {
    capture_.replay(/*asynchronous=*/false);
  }
  void reset() override {
    capture_.reset();
  }
  MempoolId_t pool() const override {
    return pool_;
  }
  void enable_debug_mode() override {
  }
  void debug_dump(const std::string& path) override {
    std::ofstream file(path);
    file << capture_.dump("dot");
    TORCH_CHECK(file.good(), "cannot write the graph to ", path, "; give a path that can be written");
  }

 private:
  MempoolId_t pool_{0, 0};
  hpu_reference::graph::Capture capture_;
};

REGISTER_GRAPH_IMPL(UPPERCASE_DEVICE_NAME, HPUGraphImpl)

}  // namespace at
#endif
