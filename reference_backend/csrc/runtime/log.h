// The bridge's log: lines by module and level, into a file of the rank's and onto the console. Off, a line
// costs the reading of one byte.
#pragma once

#include <c10/macros/Macros.h>
#include <c10/util/StringUtil.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <vector>

namespace hpu_reference::runtime {

// In the bridge's order: LOG_LEVEL_ALL=0 lets all through.
enum class LogLevel : std::uint8_t { Trace, Debug, Info, Warning, Error, Critical };

// The modules that this device logs; programs know them as PT_DEVICE, PT_KERNEL and so on.
enum class LogModule : std::uint8_t {
  Device,       // the device, its streams and events
  Kernel,       // each kernel
  Bridge,       // copies, and what Python says of the bridge
  SynHelper,    // launches of recipes
  Distributed,  // collectives
  Lazy,         // graphs of lazy mode
  Pinned,       // pinned host memory
  Fallback,     // operators that run on the CPU
  DevMem,       // allocations
  MemLog,       // totals of memory
  RecipeStats,  // recipes that are made, found and not found
  HpuGraph,     // captures
  Compile,      // torch.compile
  Python,       // lines of the program
  Count
};

inline constexpr std::size_t kLogModules = static_cast<std::size_t>(LogModule::Count);

// Names of the modules, in order.
const std::array<const char*, kLogModules>& log_modules();

// Settings of the whole log.
struct LogSettings {
  std::array<std::uint8_t, kLogModules> levels{};  // bit N: lines of level N
  std::string folder;                              // a subfolder per rank; empty for no file
  std::int64_t file_bytes = std::int64_t{10} << 20;
  int files = 5;  // kept, the one that is written to included
  bool to_output = false;
  bool to_errors = false;
};

// Replaces the settings.
void set_log(const LogSettings& settings);

// Storage of is_logged().
extern std::array<std::atomic<std::uint8_t>, kLogModules> g_log_levels;

// True if lines of a module and level go anywhere.
inline bool is_logged(LogModule module, LogLevel level) {
  const auto levels = g_log_levels[static_cast<std::size_t>(module)].load(std::memory_order_relaxed);
  return C10_UNLIKELY(((levels >> static_cast<unsigned>(level)) & 1U) != 0);
}

// Writes a text, each of its lines with the time, the module, the level, process and thread in front. A file
// or console that cannot be written to costs one message on stderr, never the program's work.
void write_log(LogModule module, LogLevel level, std::string_view text) noexcept;

// Logs the parts, one after the other, if the level is let through.
template <class... Parts>
void log(LogModule module, LogLevel level, const Parts&... parts) {
  if (is_logged(module, level)) {
    try {
      write_log(module, level, c10::str(parts...));
    } catch (const std::bad_alloc&) {  // some lines are written by destructors
    }
  }
}

}  // namespace hpu_reference::runtime
