// A port on an interface that the kernel keeps: it sends and receives by the kernel's sockets.
#pragma once

#include <memory>

#include "pmd_glue/kif/interface.h"
#include "pmd_glue/port.h"

namespace uroce::glue {

class KernelPort final : public Port {
 public:
  /// Sets up a port, not yet started. `number` differs from those of all other such ports. Errors: those of
  /// EthdevPort::open().
  static Result<std::unique_ptr<Port>> open(const KernelInterface& on, uint16_t number, const PortOptions& options);
  ~KernelPort() override { close(); }
  KernelPort(const KernelPort&) = delete;
  KernelPort& operator=(const KernelPort&) = delete;

  Result<void> start() override;
  void stop() override;
  void close() override { stop(); }

  bool receives_super_frames() const override { return interface_->receives_super_frames(); }
  unsigned interface_index() const override { return interface_->index(); }
  uint32_t interface_returns() const override { return interface_->returns(); }
  Sending sending() const override { return interface_->sending(); }
  /// A super-frame costs the socket little more than its bytes, but half of the buffer is left for the kernel's
  /// overhead and for what other queue pairs receive.
  uint32_t read_window_packets() const override;
  std::string description() const override;

  uint16_t rx_burst(uint16_t queue, std::span<rte_mbuf*> out) const { return interface_->receive(queue, out); }
  uint16_t receive_rest(uint16_t queue, std::span<rte_mbuf*> out) const override {
    return interface_->receive_rest(queue, out);
  }
  kif::Behind behind_burst(uint16_t queue) const override { return interface_->behind(queue); }
  uint16_t tx_burst(uint16_t queue, std::span<rte_mbuf*> mbufs) const { return interface_->send(queue, mbufs); }
  int interrupt_descriptor(uint16_t queue) const override { return interface_->descriptor(queue); }
  void arm_interrupt(uint16_t, bool) const override {}  // its descriptor always is
  std::vector<std::pair<std::string, uint64_t>> counters(uint16_t queue) const override {
    return interface_->counters(queue);
  }

  void lend(message::Belongings& belongings, const std::string& device) const override {
    interface_->lend(belongings, device);
  }
  void awaken() override;

  void refresh_link() override { link_up_.store(interface_->refresh(), std::memory_order_relaxed); }
  void receive_groups(std::span<const EthAddr>) override {}  // its sockets receive all

 private:
  explicit KernelPort(uint16_t id) : Port(Kind::kernel, id) {}
  Result<void> set_up(const KernelInterface& on, const PortOptions& options);
  Result<void> choose_mtu(uint32_t asked);

  std::unique_ptr<kif::Interface> interface_;
};

}  // namespace uroce::glue
