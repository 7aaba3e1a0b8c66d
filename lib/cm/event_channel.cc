#include "cm/event_channel.h"

#include <algorithm>
#include <array>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace uroce::cm {

void EventChannel::add(CmEvent event) {
  events.push_back(std::move(event));
  add_byte();
}

void EventChannel::pay_bytes(std::size_t most) { owed_ -= write(std::min(most, owed_)); }

void EventChannel::disown(std::size_t count) {
  take_bytes(count);
  disowned += count;
}

// Opens the pipe anew, because the program may have made the shared file description blocking.
void EventChannel::take_bytes(std::size_t count) {
  const std::size_t forgiven = std::min(owed_, count);
  owed_ -= forgiven;
  count -= forgiven;
  if (count == 0) return;
  const int fd = open(fmt::format("/proc/self/fd/{}", pipe.read_end()).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;  // then the program gets a spurious wake-up
  std::array<char, 256> bytes{};
  while (count > 0) {
    const ssize_t got = read(fd, bytes.data(), std::min(count, bytes.size()));
    if (got <= 0) break;
    count -= static_cast<std::size_t>(got);
  }
  close(fd);
}

}  // namespace uroce::cm
