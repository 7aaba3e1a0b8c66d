// A host of the fabric: the engine that ships, an application, and a port with a transmit ring of finite size.
//
// The host's CPU is free: the engine is polled whenever a frame comes, a slot of the ring becomes free or a deadline
// of its own has come, and takes no time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "faults/frame_faults.h"
#include "tests/sim/flow_meter.h"
#include "tests/sim/port.h"
#include "tests/sim/trace.h"
#include "tests/support/test_endpoint.h"

namespace uroce::sim {

/// The number of a host stands in the last bytes of its addresses.
inline EthAddr mac_of(uint32_t host) {
  return {{2, 0, 0, 0, static_cast<uint8_t>(host >> 8), static_cast<uint8_t>(host)}};
}
inline Gid gid_of(uint32_t host) { return Gid::from_ipv4(0x0a000000 + host); }
/// The host that a frame is for.
inline uint32_t destination_of(const FabricFrame& frame) { return load_be16(frame.storage.data() + 4); }

struct HostOptions {
  uint32_t number = 1;
  transport::EngineConfig engine;
  uint32_t regions = 64;     ///< memory regions it can register
  uint32_t tx_slots = 1024;  ///< frames in the port's transmit ring
  PortOptions port;
  faults::Rules faults;
  uint64_t seed = 1;
};

class Host : public Receiver, private transport::FrameSink, private Handler, private faults::QpView {
 public:
  /// Posts work and takes completions.
  class Application {
   public:
    virtual ~Application() = default;
    /// True when anything was done.
    virtual bool work(Nanos now) = 0;
  };

  /// Frames come from `pool` and leave to `wire`. `meters` has one entry per destination QPN, or nullptr.
  Host(EventQueue& events, FramePool& pool, const HostOptions& options, Receiver& wire,
       const std::vector<FlowMeter*>& meters);

  test::TestEndpoint& endpoint() { return endpoint_; }
  Port& port() { return port_; }
  void set_application(Application& application) { application_ = &application; }
  void set_trace(const Trace* trace) { trace_ = trace; }

  /// Lets engine and application work until neither has anything to do now.
  void run();
  void receive(FramePtr frame) override;

 private:
  std::size_t room() override;
  void send(std::span<const transport::TxFrame> frames) override;
  void on_event(uint64_t) override;
  std::optional<uint32_t> sender_of(faults::Way way, const wire::Packet& packet) override;
  /// Gives a frame to the engine.
  void deliver(const FabricFrame& frame);
  /// Frames that fault rules kept go on, and queue pairs end.
  void take_fault_turn();
  void wake_at(Picos at);
  FlowMeter* meter_of(const std::byte* bth) const;

  EventQueue& events_;
  FramePool& pool_;
  HostOptions options_;
  std::string name_;
  const std::vector<FlowMeter*>& meters_;
  test::TestEndpoint endpoint_;
  Port port_;
  faults::FaultCounters fault_counters_;
  std::unique_ptr<faults::FrameFaults> faults_;  ///< nullptr without rules
  Application* application_ = nullptr;
  const Trace* trace_ = nullptr;
  bool refused_ = false;  ///< the engine found the ring full
  Picos wake_at_ = Picos::max();
};

}  // namespace uroce::sim
