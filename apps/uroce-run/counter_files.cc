#include "counter_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "message/connection.h"
#include "nldev/kernel_counters.h"

namespace uroce::run {

namespace fs = std::filesystem;

namespace {

/// Readers see the old or the new value: it is a few bytes in one page.
void write_value(const fs::path& file, uint64_t value) {
  const message::Fd fd(open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0444));
  const std::string line = std::to_string(value) + '\n';
  struct stat status{};
  if (!fd || fstat(fd.get(), &status) != 0) return;
  if (pwrite(fd.get(), line.data(), line.size(), 0) != static_cast<ssize_t>(line.size())) return;
  const auto size = static_cast<off_t>(line.size());
  // Another daemon begins at 0.
  if (status.st_size > size) static_cast<void>(ftruncate(fd.get(), size) == 0);
}

fs::path port_of(const fs::path& classes, const std::string& device) { return classes / device / "ports/1"; }

}  // namespace

CounterFiles::CounterFiles(const fs::path& tree, const std::vector<DeviceView>& devices, DaemonSource& source)
    : classes_(tree / "class/infiniband"), folders_{classes_}, source_(source) {
  for (const DeviceView& device : devices) {
    devices_.push_back(device.name);
    const fs::path port = port_of(classes_, device.name);
    folders_.insert(folders_.end(), {classes_ / device.name, port, port / "counters", port / "hw_counters"});
  }
  std::error_code ignored;
  for (const fs::path& folder : folders_) fs::create_directories(folder, ignored);
  refresh();
}

void CounterFiles::refresh() const {
  for (const std::string& device : devices_) {
    const auto values = source_.own_counters(device);
    if (!values) continue;
    const fs::path port = port_of(classes_, device);
    for (const auto& [name, value] : nldev::port_counters(*values)) write_value(port / "counters" / name, value);
    for (const auto& [name, value] : nldev::hardware_counters(*values)) write_value(port / "hw_counters" / name, value);
  }
}

}  // namespace uroce::run
