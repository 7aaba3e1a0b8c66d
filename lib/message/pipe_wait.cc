#include "message/pipe_wait.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace uroce::message {
namespace {

constexpr std::chrono::nanoseconds kLongest = std::chrono::hours(24 * 365);

Wake poll_for(int pipe, const timespec* limit) {
  pollfd waiting{.fd = pipe, .events = POLLIN, .revents = 0};
  const int ready = ppoll(&waiting, 1, limit, nullptr);
  if (ready < 0) return Wake::signal;
  if (ready == 0) return Wake::timeout;
  return (waiting.revents & POLLIN) != 0 ? Wake::readable : Wake::lost;
}

}  // namespace

void PipeWait::prepare(int pipe) { fcntl(pipe, F_SETFL, fcntl(pipe, F_GETFL) & ~O_NONBLOCK); }

Wake PipeWait::sleep(int pipe, std::chrono::nanoseconds timeout) {
  if (timeout >= kLongest) return sleep_for_ever(pipe);
  timeout = std::max(timeout, std::chrono::nanoseconds(0));
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  const timespec limit{.tv_sec = seconds.count(), .tv_nsec = (timeout - seconds).count()};
  return poll_for(pipe, &limit);
}

// poll(2) never restarts after a signal, and the kernel tells nobody whether the handler has SA_RESTART. tee(2) waits
// like read(2), restarts where read(2) would, and takes nothing from the pipe.
Wake PipeWait::sleep_for_ever(int pipe) {
  std::call_once(once_, [this] {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;  // no descriptor is left: poll(2) must do
    read_end_ = Fd(ends[0]);
    write_end_ = Fd(ends[1]);
  });
  const ssize_t copied = write_end_ ? tee(pipe, write_end_.get(), 1, 0) : -1;
  if (copied == 0) return Wake::lost;
  if (copied < 0) return write_end_ && errno == EINTR ? Wake::signal : poll_for(pipe, nullptr);
  char byte = 0;
  [[maybe_unused]] const auto taken = read(read_end_.get(), &byte, 1);
  return Wake::readable;
}

}  // namespace uroce::message
