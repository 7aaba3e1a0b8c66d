// A pipe of tokens: readable while an event waits, one byte per event, in the order in which they came.
//
// Not an eventfd, whose two sides share their flags: a reader in another process could make the writer block.
#pragma once

#include <cstddef>
#include <cstdint>

#include <uroce/error.h>

namespace uroce::control {

class EventPipe {
 public:
  /// Both ends close on exec; neither blocks. Errors: EMFILE and others of pipe2(2), with the limit to raise.
  static Result<EventPipe> create();
  /// Both ends of a pipe, which it owns from then on.
  static EventPipe of(int read_end, int write_end) { return {read_end, write_end}; }
  ~EventPipe();
  EventPipe(EventPipe&& other) noexcept : read_end_(other.read_end_), write_end_(other.write_end_) {
    other.read_end_ = other.write_end_ = -1;
  }
  EventPipe& operator=(EventPipe&&) = delete;

  int read_end() const { return read_end_; }
  int write_end() const { return write_end_; }
  /// Adds one token. Any thread; never blocks. False: the pipe is full. A pipe holds 65536 tokens, or 4096 where the
  /// user has many pipes (fs.pipe-user-pages-soft).
  bool signal(uint8_t token = 1);
  /// Adds up to `count` tokens by one system call, and returns how many fitted.
  std::size_t signal_many(std::size_t count);

 private:
  EventPipe(int read_end, int write_end) : read_end_(read_end), write_end_(write_end) {}
  int read_end_;
  int write_end_;
};

}  // namespace uroce::control
