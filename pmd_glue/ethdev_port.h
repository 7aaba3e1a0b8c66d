// A port of a driver of DPDK's, an ethdev port.
#pragma once

#include <functional>
#include <optional>

#include "pmd_glue/port.h"
#include "wire/receive_spread.h"

namespace uroce::glue {

class EthdevPort final : public Port {
 public:
  /// Sets up port `id`, not yet started. Errors: ENODEV, EINVAL (MTU or TX mode that the port cannot carry), ENOMEM,
  /// or the driver's; each sentence names the port.
  static Result<std::unique_ptr<Port>> open(uint16_t id, const PortOptions& options);
  ~EthdevPort() override;
  EthdevPort(const EthdevPort&) = delete;
  EthdevPort& operator=(const EthdevPort&) = delete;

  Result<void> start() override;
  void stop() override;
  void close() override;

  unsigned interface_index() const override { return interface_index_; }
  std::string description() const override;

  const wire::ReceiveSpread* receive_spread() const override { return spread_ ? &*spread_ : nullptr; }

  int interrupt_descriptor(uint16_t queue) const override;
  void arm_interrupt(uint16_t queue, bool armed) const override;
  bool needs_guard() const override { return driver_ == "net_memif"; }

  bool link_changes() const override { return driver_ != "net_ring"; }
  void refresh_link() override;
  void receive_groups(std::span<const EthAddr> groups) override;
  void reconnect(uint32_t pollers) override;

 private:
  explicit EthdevPort(uint16_t id) : Port(Kind::ethdev, id) {}
  Result<void> set_up(const PortOptions& options);
  void choose_address();
  Result<void> choose_mtu(const PortOptions& options);
  Result<void> choose_xdp_mtu(uint32_t asked);
  std::string xdp_failure() const;
  Result<void> choose_xdp_program(bool kernel_addresses);
  Result<void> choose_tx_mode(StackOptions::TxMode wanted, uint64_t tx_capabilities);
  Result<void> configure();
  /// Gives the driver the whole set-up. Returns its error, negative.
  int apply();
  /// Lets the tagged frames pass a card that filters them.
  void admit_vlan() const;
  /// Whether the driver's socket is on an interface of the kernel, netdev(), about which the driver says little.
  bool is_on_netdev() const { return driver_ == "net_af_packet" || driver_ == "net_af_xdp"; }
  std::string netdev() const;
  bool is_memif_client() const;
  void read_spread();
  void look_for_card();
  void look_for_interface();
  void lose(std::string_view what);
  bool interrupts_work() const;
  int start_without_interrupts();
  void receive_all_groups();
  std::optional<int> beside_no_handler(std::function<int()> work) const;

  std::string devargs_;
  bool set_mtu_ = false;  ///< the driver must be given mtu_
  uint16_t rx_descriptors_ = 1024;
  bool card_ = false;  ///< hardware, not one of DPDK's virtual devices
  bool on_pci_ = false;
  bool rss_ = false;  ///< the card spreads frames over its queues by UDP ports
  std::optional<wire::ReceiveSpread> spread_;
  unsigned interface_index_ = 0;
  bool all_groups_ = false;  ///< every multicast frame is received
  int group_socket_ = -1;    ///< makes the kernel's interface receive them
  bool opened_ = false;
  bool stuck_ = false;  ///< a call of the driver has not returned
};

}  // namespace uroce::glue
