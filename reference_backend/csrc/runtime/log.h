// The log of the device, as Gaudi's PyTorch bridge writes it: lines by module and level, in one file per rank
// and on the console. A disabled line costs the read of one byte.
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

// Levels in the order of Gaudi's PyTorch bridge. LOG_LEVEL_ALL=0 enables all levels.
enum class LogLevel : std::uint8_t { Trace, Debug, Info, Warning, Error, Critical };

// The modules that this device logs. Programs use the names PT_DEVICE, PT_KERNEL and so on.
enum class LogModule : std::uint8_t {
  Device,       // the device, its streams and events
  Kernel,       // each kernel
  Bridge,       // copies and messages of the Python packages
  SynHelper,    // launches of recipes
  Distributed,  // collectives
  Lazy,         // graphs of lazy mode
  Pinned,       // pinned host memory
  Fallback,     // operators that run on the CPU
  DevMem,       // allocations
  MemLog,       // memory totals
  RecipeStats,  // compiled recipes, cache hits and misses
  HpuGraph,     // captures of HPU graphs
  Compile,      // torch.compile
  Python,       // lines of the Python program
  Count
};

inline constexpr std::size_t kLogModules = static_cast<std::size_t>(LogModule::Count);

// Returns the names of the modules, in order.
const std::array<const char*, kLogModules>& log_modules();

// Settings of the log.
struct LogSettings {
  std::array<std::uint8_t, kLogModules> levels{};  // bit N enables level N
  std::string folder;                              // has a subfolder per rank; empty for no file
  std::int64_t file_bytes = std::int64_t{10} << 20;
  int files = 5;  // number of files to keep, including the current file
  bool to_output = false;
  bool to_errors = false;
};

// Replaces the settings.
void set_log(const LogSettings& settings);

extern std::array<std::atomic<std::uint8_t>, kLogModules> g_log_levels;

// Returns true if lines of this module and level are written to any destination.
inline bool is_logged(LogModule module, LogLevel level) {
  const auto levels = g_log_levels[static_cast<std::size_t>(module)].load(std::memory_order_relaxed);
  return C10_UNLIKELY(((levels >> static_cast<unsigned>(level)) & 1U) != 0);
}

// Writes a text. Each line is prefixed with the time, module, level, process and thread. If a file or console
// cannot be written to, the log prints one message on stderr; the program's work is not affected.
void write_log(LogModule module, LogLevel level, std::string_view text) noexcept;

// Concatenates the parts and logs them if the level is enabled.
template <class... Parts>
void log(LogModule module, LogLevel level, const Parts&... parts) {
  if (is_logged(module, level)) {
    try {
      write_log(module, level, c10::str(parts...));
    } catch (const std::bad_alloc&) {  // some destructors write lines, and they must not throw
    }
  }
}

}  // namespace hpu_reference::runtime
