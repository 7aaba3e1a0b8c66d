// The reading of the kernel's tables, one after the other: which one is asked for, and until when its next part comes.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "net/kernel_requests.h"
#include "net/rtnetlink.h"

namespace uroce::net {

class TableReading {
 public:
  /// Both outlive it.
  TableReading(const LinkIdentity& interface, KernelRequests& requests) : interface_(interface), requests_(requests) {}

  /// Begins with the addresses, now or when the present reading ends.
  void begin(Nanos now);
  /// Whether a message is part of the table that is being read.
  bool expects(const KernelMessage& message) const {
    return asking_ != Asking::nothing && message.sequence == sequence_;
  }
  /// Takes each message of the table.
  void take(const KernelMessage& message, Nanos now);
  /// The kernel has told everything. False if entries changed meanwhile: then the table is read again.
  bool end_table(Nanos now);
  bool reads_addresses() const { return asking_ == Asking::addresses; }
  /// After the end of a table: reads the next one.
  void go_on(Nanos now);
  /// Gives up the present reading.
  void abandon();
  /// Differs for each reading. Entries that the reading did not mention have an older one.
  uint64_t number() const { return number_; }
  /// When the kernel's silence is a fault; kNever while nothing is read.
  Nanos deadline() const { return until_; }
  /// The kernel has told all tables.
  bool complete() const { return asking_ == Asking::nothing && !again_; }

 private:
  enum class Asking : uint8_t { nothing, addresses, neighbours };
  void ask(Asking what, Nanos now);

  const LinkIdentity& interface_;
  KernelRequests& requests_;
  Asking asking_ = Asking::nothing;
  uint32_t sequence_ = 0;
  bool interrupted_ = false;
  bool again_ = false;  ///< read all tables once the present reading ends
  uint64_t number_ = 0;
  Nanos until_ = kNever;
};

}  // namespace uroce::net
