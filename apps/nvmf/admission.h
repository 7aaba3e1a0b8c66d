// Admission decides whether an address may open another queue, by what each has before and after Connect. It knows no
// connection.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include <uroce/types.h>

#include "nvmf/bounds.h"

namespace uroce::nvmf {

/// Queues are known by number. One thread.
class Admission {
 public:
  explicit Admission(const Bounds& bounds) : bounds_(bounds) {}

  struct Answer {
    bool admitted = false;
    /// The target is full: this queue, which waits for Connect, must end first. evicted() says that it will.
    std::optional<uint32_t> instead{};
  };
  /// Before Connect a host is its address alone. When the target is full, a queue that waits for Connect goes: the
  /// oldest one of the address that has the most of them, and none of an address that a listed host has connected from
  /// while there are others. So a host that sends Connect at once gets in beside any number of hosts that do not.
  Answer admit(const Gid& address) const;

  void opened(uint32_t number, const Gid& address);
  /// The host has sent Connect. `listed`: a `hosts` list names it.
  void connected(uint32_t number, bool listed);
  /// It will end, or else connected() follows: the host has been just in time.
  void evicted(uint32_t number);
  void ended(uint32_t number);

 private:
  struct Address {
    uint32_t queues = 0;
    uint32_t waiting = 0;  ///< before Connect
    uint32_t listed = 0;   ///< connected queues of listed hosts
  };
  enum class State : uint8_t { waiting, connected, listed, leaving };
  struct Place {
    Gid address{};
    uint64_t turn = 0;  ///< the order of opened()
    State state = State::waiting;
  };

  Address known(const Gid& address) const;
  std::optional<uint32_t> victim(const Address& newcomer) const;
  /// Adds what a queue in this state counts for.
  void count(Address& address, State state, uint32_t by);
  void enter(uint32_t number, State state);

  const Bounds bounds_;
  std::map<uint32_t, Place> places_{};
  std::map<Gid, Address> addresses_{};  // where there are queues
  uint64_t next_turn_ = 0;
  uint32_t leaving_ = 0;
};

}  // namespace uroce::nvmf
