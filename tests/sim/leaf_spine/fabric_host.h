// A host of the leaf-spine fabric: the engine that ships, the queue pairs of its flows, and a port with a transmit
// ring.
//
// The host's CPU is free, as in host.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tests/sim/leaf_spine/link.h"
#include "tests/support/test_endpoint.h"

namespace uroce::sim {

struct FabricHostOptions {
  uint32_t number = 0;
  transport::EngineConfig engine;
  bool whole_writes = false;  ///< Engine::keep_writes_whole()
  uint32_t tx_slots = 1024;   ///< frames in the port's transmit ring
  uint64_t seed = 1;
};

/// Payload that all hosts send and overwrite: nobody compares it, and so it stays in the caches.
class SharedPayload {
 public:
  static constexpr uint64_t kAddress = 0x10000000;
  explicit SharedPayload(std::size_t bytes) : bytes_(new std::byte[bytes]), size_(bytes) {}
  std::span<std::byte> bytes() { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_;
};

class FabricHost : public PacketReceiver, public PacketSource, private transport::FrameSink, private Handler {
 public:
  /// Called with the number of a WRITE that has completed, and how.
  using OnDone = std::function<void(uint64_t, WcStatus)>;

  FabricHost(EventQueue& events, PacketPool& pool, const FabricHostOptions& options, SharedPayload& payload,
             OnDone on_done);

  /// The link to the leaf, whose queue is the transmit ring.
  void set_link(Link& link) { link_ = &link; }
  test::TestEndpoint& endpoint() { return endpoint_; }
  memory::Key key() const { return key_; }
  uint32_t number() const { return options_.number; }

  /// A queue pair for WRITEs from here, or to here.
  std::unique_ptr<test::TestQp> make_qp();
  /// Lets the engine work until it has nothing to do now.
  void run();
  void receive(Packet& packet, uint32_t port) override;
  void on_left(const Packet& packet, uint32_t port) override;

  uint64_t sent() const { return sent_; }
  uint64_t received() const { return received_; }
  uint64_t received_marked() const { return received_marked_; }
  uint64_t received_bytes() const { return received_bytes_; }  ///< frames, from Ethernet to ICRC

 private:
  std::size_t room() override;
  void send(std::span<const transport::TxFrame> frames) override;
  void on_event(uint64_t what) override;
  void wake_at(Picos at);
  bool take_completions();

  EventQueue& events_;
  PacketPool& pool_;
  FabricHostOptions options_;
  test::TestEndpoint endpoint_;
  OnDone on_done_;
  memory::Key key_ = 0;
  test::TestCq& cq_;
  test::TestCq& peer_cq_;
  Link* link_ = nullptr;
  uint32_t next_qpn_ = 2;
  bool refused_ = false;  ///< the engine found the ring full
  Picos wake_at_ = Picos::max();
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
  uint64_t received_marked_ = 0;
  uint64_t received_bytes_ = 0;
};

}  // namespace uroce::sim
