#include "distributed/shared_memory.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

namespace hpu_reference::distributed {

namespace {

[[noreturn]] void fail(int error, const char* call) {
  throw std::system_error(error, std::generic_category(), call);
}

// Returns the target of a /proc link that names a namespace. Returns the same text for all processes if the
// system does not have the link.
std::string link_target(const char* path) {
  std::array<char, 128> text{};
  const ssize_t length = readlink(path, text.data(), text.size());
  return length > 0 ? std::string(text.data(), static_cast<std::size_t>(length)) : "?";
}

}  // namespace

MemoryLocation location_of(int descriptor) {
  struct stat about{};
  if (fstat(descriptor, &about) != 0) {
    fail(errno, "fstat of shared memory");
  }
  return {getpid(), descriptor, about.st_dev, about.st_ino, static_cast<std::uint64_t>(about.st_size)};
}

Mapping::Mapping(int descriptor, std::size_t size, bool writable)
    : size_(size), descriptor_(descriptor), owner_(getpid()) {
  const int access = PROT_READ | (writable ? PROT_WRITE : 0);
  void* start = mmap(nullptr, size, access, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (start == MAP_FAILED) {
    const int error = errno;
    seal();
    fail(error, "mmap of shared memory");
  }
  data_ = static_cast<char*>(start);
  madvise(start, size, MADV_DONTFORK);
  madvise(start, size, MADV_DONTDUMP);
}

Mapping Mapping::make(std::size_t size) {
  const int descriptor = memfd_create("hpu-ranks", MFD_CLOEXEC);
  if (descriptor < 0) {
    fail(errno, "memfd_create");
  }
  if (ftruncate(descriptor, static_cast<off_t>(size)) != 0) {
    const int error = errno;
    close(descriptor);
    fail(error, "ftruncate of shared memory");
  }
  return Mapping(descriptor, size, /*writable=*/true);
}

Mapping Mapping::open(const MemoryLocation& location, bool writable) {
  const std::string path =
      "/proc/" + std::to_string(location.process) + "/fd/" + std::to_string(location.descriptor);
  const int descriptor = ::open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    fail(errno, "open of another process's memory");
  }
  struct stat about{};
  const bool same = fstat(descriptor, &about) == 0 && about.st_dev == location.device &&
                    about.st_ino == location.inode &&
                    static_cast<std::uint64_t>(about.st_size) == location.size && about.st_uid == geteuid();
  if (!same) {
    close(descriptor);
    fail(ESTALE, "open of another process's memory");
  }
  Mapping mapping(descriptor, location.size, writable);
  mapping.seal();
  return mapping;
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(other.size_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      owner_(other.owner_) {
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(owner_, other.owner_);
  return *this;
}

Mapping::~Mapping() {
  seal();
  // In a forked child the address may belong to another mapping, so the child does not unmap it.
  if (data_ != nullptr && owner_ == getpid()) {
    munmap(data_, size_);
  }
}

void Mapping::seal() {
  if (descriptor_ >= 0) {
    close(std::exchange(descriptor_, -1));
  }
}

Process::Process(std::int64_t id) : id_(id) {
#ifdef SYS_pidfd_open
  descriptor_ = static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(id), 0U));
#endif
}

Process::Process(Process&& other) noexcept
    : id_(other.id_), descriptor_(std::exchange(other.descriptor_, -1)) {
}

Process::~Process() {
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

bool Process::has_ended() const {
  if (descriptor_ >= 0) {
    pollfd query{descriptor_, POLLIN, 0};
    return poll(&query, 1, 0) > 0;
  }
  return kill(static_cast<pid_t>(id_), 0) != 0 && errno == ESRCH;
}

std::string sharing_domain() {
  std::string boot = "?";
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::ostringstream text;
  text << boot << ' ' << geteuid();
  for (const char* space : {"pid", "mnt", "ipc", "user"}) {
    text << ' ' << link_target((std::string("/proc/self/ns/") + space).c_str());
  }
  return text.str();
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof(number), 0) != static_cast<ssize_t>(sizeof(number))) {
    fail(errno, "getrandom");
  }
  return number;
}

void wait_for_change(const std::uint32_t* word, std::uint32_t expected, std::int64_t milliseconds) {
  const timespec limit{milliseconds / 1000, (milliseconds % 1000) * 1000000};
  syscall(SYS_futex, word, FUTEX_WAIT, expected, &limit, nullptr, 0);
}

void wake_all(const std::uint32_t* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

}  // namespace hpu_reference::distributed
