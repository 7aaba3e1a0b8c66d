// The packets that each of an engine's clients (owners.h) sends and receives.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/counter.h"
#include "transport/engine/owners.h"

namespace uroce::transport {

/// RoCE packets, and their bytes from Ethernet to ICRC. Sent raw frames count as packets.
struct Traffic {
  uint64_t rx_packets = 0, rx_bytes = 0, tx_packets = 0, tx_bytes = 0;

  Traffic& operator+=(const Traffic& other) {
    rx_packets += other.rx_packets;
    rx_bytes += other.rx_bytes;
    tx_packets += other.tx_packets;
    tx_bytes += other.tx_bytes;
    return *this;
  }
  Traffic& operator-=(const Traffic& other) {
    rx_packets -= other.rx_packets;
    rx_bytes -= other.rx_bytes;
    tx_packets -= other.tx_packets;
    tx_bytes -= other.tx_bytes;
    return *this;
  }
  bool operator==(const Traffic&) const = default;
};

/// One client's. The engine's thread writes; any thread reads.
struct alignas(64) ClientTraffic {
  Counter rx_packets, rx_bytes, tx_packets, tx_bytes;
  Counter group_packets, group_bytes;  ///< packets to a group, for each member; the engine received them once

  void received(uint64_t packets, uint64_t bytes) {
    rx_packets.add(packets);
    rx_bytes.add(bytes);
  }
  void sent(uint64_t packets, uint64_t bytes) {
    tx_packets.add(packets);
    tx_bytes.add(bytes);
  }
  void received_in_group(uint64_t bytes) {
    group_packets.add();
    group_bytes.add(bytes);
  }
};

/// The counters stand by the clients' numbers. Each value only grows, also where a number is used again.
/// Owners::kOwnProcess has the frames that are for no queue pair, too.
class TrafficCounters {
 public:
  TrafficCounters() : clients_(Owners::kMaxClients) {}

  /// The client comes, or comes again. Without this, sum() leaves it out.
  void add(uint16_t client) {
    if (client >= used_.load(std::memory_order_relaxed)) used_.store(client + 1u, std::memory_order_relaxed);
  }
  ClientTraffic& operator[](uint16_t client) { return clients_[client]; }
  /// Any thread, as sum().
  Traffic of(uint16_t client) const {
    const ClientTraffic& one = clients_[client];
    Traffic traffic = without_groups(one);
    traffic.rx_packets += one.group_packets.get();
    traffic.rx_bytes += one.group_bytes.get();
    return traffic;
  }
  Traffic sum() const {
    Traffic sum;
    const std::size_t used = used_.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < used; ++i) sum += without_groups(clients_[i]);
    return sum;
  }

 private:
  static Traffic without_groups(const ClientTraffic& one) {
    return {one.rx_packets.get(), one.rx_bytes.get(), one.tx_packets.get(), one.tx_bytes.get()};
  }

  std::vector<ClientTraffic> clients_;
  std::atomic<uint32_t> used_{1};  // numbers that were used; kOwnProcess always is
};

/// Divides bursts among clients. Most bursts are one client's, and the next one is the same client's.
class BurstShares {
 public:
  using Count = void (ClientTraffic::*)(uint64_t packets, uint64_t bytes);

  /// Bursts begin as nobody's.
  explicit BurstShares(TrafficCounters& traffic) : traffic_(traffic), share_(&traffic[Owners::kOwnProcess]) {}

  bool is_of(uint16_t client) const { return client == client_; }
  /// The next frames are another client's. `packets`, `bytes`: of the burst so far.
  template <Count Member>
  void change(uint16_t client, uint64_t packets, uint64_t bytes) {
    (share_->*Member)(packets - packets_, bytes - bytes_);
    client_ = client;
    share_ = &traffic_[client];
    packets_ = packets;
    bytes_ = bytes;
  }
  /// The burst, of `packets` and `bytes`, is over.
  template <Count Member>
  void finish(uint64_t packets, uint64_t bytes) {
    if (packets_ != 0) [[unlikely]] {
      packets -= std::exchange(packets_, 0);
      bytes -= std::exchange(bytes_, 0);
    }
    (share_->*Member)(packets, bytes);
  }

 private:
  TrafficCounters& traffic_;
  uint16_t client_ = Owners::kOwnProcess;
  ClientTraffic* share_;
  uint64_t packets_ = 0, bytes_ = 0;  // counted
};

}  // namespace uroce::transport
