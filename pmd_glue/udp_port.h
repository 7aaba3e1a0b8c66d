// A port on an interface that the kernel keeps, by UDP sockets: for programs without CAP_NET_RAW. The kernel writes
// and reads the headers, so the port carries RoCE alone, from the kernel's addresses, without a tag.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "pmd_glue/interface_name.h"
#include "pmd_glue/kif/readable.h"
#include "pmd_glue/port.h"
#include "pmd_glue/udp/receiver.h"
#include "pmd_glue/udp/sender.h"
#include "pmd_glue/udp/socket.h"
#include "pmd_glue/udp/source_ports.h"

namespace uroce::glue {

class UdpPort final : public Port {
 public:
  /// Sets up a port, not yet started. `number` differs from those of all other ports on interfaces of the kernel.
  /// Errors: those of EthdevPort::open(); EINVAL for a VLAN.
  static Result<std::unique_ptr<Port>> open(const KernelInterface& on, uint16_t number, const PortOptions& options);
  /// Whether a daemon's belongings have the sockets of such a port.
  static bool has_lent(const message::Belongings& belongings, const std::string& device);
  ~UdpPort() override { close(); }
  UdpPort(const UdpPort&) = delete;
  UdpPort& operator=(const UdpPort&) = delete;

  Result<void> start() override;
  void stop() override;
  void close() override { stop(); }

  unsigned interface_index() const override { return index_.load(std::memory_order_relaxed); }
  uint32_t interface_returns() const override { return returns_.load(std::memory_order_relaxed); }
  Sending sending() const override { return Sending::by_udp_socket; }
  uint32_t read_window_packets() const override;
  std::string description() const override;

  uint16_t rx_burst(std::span<rte_mbuf*> out) const { return active_->receiver.receive(active_->socket.fd(), out); }
  uint16_t receive_rest(uint16_t, std::span<rte_mbuf*> out) const override {
    return active_->receiver.receive_rest(out);
  }
  kif::Behind behind_burst(uint16_t) const override { return active_->receiver.behind(); }
  uint16_t tx_burst(std::span<rte_mbuf*> mbufs) const { return active_->sender.send(active_->sources, mbufs); }
  int interrupt_descriptor(uint16_t) const override { return active_->readable.descriptor(); }
  void arm_interrupt(uint16_t, bool) const override {}  // its descriptor always is
  std::vector<std::pair<std::string, uint64_t>> counters(uint16_t queue) const override;

  void lend(message::Belongings& belongings, const std::string& device) const override;
  void awaken() override;

  void refresh_link() override;
  void receive_groups(std::span<const EthAddr>) override {}
  void receive_group_addresses(std::span<const Gid> groups) override;

 private:
  struct Active {
    Active(const std::string& interface, udp::Socket s, std::vector<udp::Socket> senders, rte_mempool* pool,
           const EthAddr& mac)
        : socket(std::move(s)),
          sources(interface, socket, std::move(senders)),
          receiver(pool, mac),
          sender(socket.has_ipv6()) {}
    udp::Socket socket;
    udp::SourcePorts sources;
    kif::Readable readable;
    udp::Receiver receiver;
    udp::Sender sender;
  };

  explicit UdpPort(uint16_t id) : Port(Kind::udp, id) {}
  Result<void> set_up(const KernelInterface& on, const PortOptions& options);
  /// The sockets of start() that send, of the daemon before; none without one.
  std::vector<udp::Socket> inherited_senders(message::Belongings* belongings) const;
  /// Sockets for the interface that there is now, in the places of those that there were.
  Result<void> renew_sockets();
  /// Follows an interface that went and came back. True while it can send and receive.
  bool follow();

  InterfaceName interface_;
  std::unique_ptr<Active> active_;  ///< from start() to stop()
  std::vector<Gid> groups_;
  std::atomic<unsigned> index_{0};
  std::atomic<uint32_t> returns_{0};
  bool said_refused_ = false;
  bool said_detached_ = false;
};

}  // namespace uroce::glue
