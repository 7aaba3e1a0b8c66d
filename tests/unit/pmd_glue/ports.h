// Ports for tests: EAL on small pages, two ring ports joined back to back, others made on demand.
#pragma once

#include <gtest/gtest.h>
#include <rte_bus_vdev.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "pmd_glue/eal.h"
#include "pmd_glue/ethdev_port.h"
#include "pmd_glue/handover.h"
#include "pmd_glue/ring_pair.h"
#include "pmd_glue/waker.h"
#include "transport/core/seam.h"
#include "wire/packet.h"

namespace uroce::glue {

/// EAL for the whole test program.
class EalEnvironment : public testing::Environment {
 public:
  void SetUp() override {
    auto started = Eal::start({"--no-huge", "--no-pci", "-m", "128", "--in-memory", "--no-telemetry", "-l", "0"});
    ASSERT_TRUE(started) << started.error().text;
    eal_ = std::move(*started);
  }
  void TearDown() override { eal_.reset(); }

 private:
  std::unique_ptr<Eal> eal_;
};

/// A handover between `engines` engines, and who wakes them.
struct Engines {
  Engines(const std::string& name, uint32_t engines) : wakers(engines) {
    std::vector<Waker*> all;
    for (auto& waker : wakers) all.push_back((waker = std::make_unique<Waker>()).get());
    handover = Handover::make(name, std::move(all), SOCKET_ID_ANY).value();
  }
  std::vector<std::unique_ptr<Waker>> wakers;
  std::unique_ptr<Handover> handover;
};

/// A virtual device for one test.
class Vdev {
 public:
  Vdev(std::string name, const std::string& args) : name_(std::move(name)) {
    made_ = rte_vdev_init(name_.c_str(), args.c_str()) == 0;
  }
  ~Vdev() {
    if (made_) rte_vdev_uninit(name_.c_str());
  }
  Vdev(const Vdev&) = delete;
  Vdev& operator=(const Vdev&) = delete;
  uint16_t port() const {
    uint16_t id = RTE_MAX_ETHPORTS;
    rte_eth_dev_get_port_by_name(name_.c_str(), &id);
    return id;
  }

 private:
  std::string name_;
  bool made_ = false;
};

struct PairOptions {
  uint32_t queues = 1;
  uint32_t slots = 64;
  PortOptions port{};
};

/// Port a sends to b and back.
class PortPair {
 public:
  explicit PortPair(PairOptions options = {}) {
    options.port.rx_descriptors = options.port.tx_descriptors = 128;
    rings_ = RingPair::make(options.queues, options.slots).value();
    a = EthdevPort::open(rings_->ports()[0], options.port).value();
    b = EthdevPort::open(rings_->ports()[1], options.port).value();
    EXPECT_TRUE(a->start());
    EXPECT_TRUE(b->start());
  }
  ~PortPair() {
    a->close();
    b->close();
    a.reset();
    b.reset();
    rings_.reset();
  }
  PortPair(const PortPair&) = delete;
  PortPair& operator=(const PortPair&) = delete;

  const RingPair& rings() const { return *rings_; }

  std::unique_ptr<Port> a, b;

 private:
  std::unique_ptr<RingPair> rings_;
};

/// Frames that wait in a port's queue, as bytes.
inline std::vector<std::vector<std::byte>> receive_all(const Port& port, uint16_t queue = 0) {
  std::vector<std::vector<std::byte>> out;
  std::array<rte_mbuf*, 32> burst{};
  while (const uint16_t n = rte_eth_rx_burst(port.id(), queue, burst.data(), burst.size())) {
    for (uint16_t i = 0; i < n; ++i) {
      std::vector<std::byte> frame(burst[i]->pkt_len);
      const void* whole = rte_pktmbuf_read(burst[i], 0, burst[i]->pkt_len, frame.data());
      if (whole != frame.data()) std::memcpy(frame.data(), whole, frame.size());
      out.push_back(std::move(frame));
      rte_pktmbuf_free(burst[i]);
    }
  }
  return out;
}

/// A WRITE middle packet: BTH and payload alone.
class TestFrame {
 public:
  TestFrame(uint32_t dest_qpn, uint32_t psn, std::vector<transport::PayloadSpan> spans, bool ipv6 = false)
      : spans_(std::move(spans)) {
    wire::Route route;
    route.src_mac = {{0x02, 0, 0, 0, 0, 1}};
    route.dst_mac = {{0x02, 0, 0, 0, 0, 2}};
    route.sgid = ipv6 ? Gid{{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}} : Gid::from_ipv4(0x0a750001);
    route.dgid = destinations()[ipv6 ? 1 : 0];
    for (const auto& span : spans_) frame.payload_length += span.length;
    frame.pad = static_cast<uint8_t>(-frame.payload_length & 3);
    const wire::RouteTemplate t = wire::make_template(route);
    const std::size_t l4 = wire::Bth::kBytes + frame.payload_length + frame.pad + wire::kIcrcBytes;
    const std::size_t at = wire::write_l2_to_l4(frame.header.data(), t, 0xc000, l4, 0);
    wire::Bth bth;
    bth.opcode = wire::Opcode::rc_write_middle;
    bth.pad = frame.pad;
    bth.dest_qpn = dest_qpn;
    bth.psn = Psn(psn);
    bth.store(frame.header.data() + at);
    frame.header_length = static_cast<uint16_t>(at + wire::Bth::kBytes);
    frame.payload = spans_.data();
    frame.payload_spans = static_cast<uint8_t>(spans_.size());
    frame.l3_offset = t.l3_offset;
    frame.ip_version = t.ip_version;
  }
  TestFrame(const TestFrame&) = delete;
  TestFrame& operator=(const TestFrame&) = delete;

  /// The addresses that all of them go to, over IPv4 and IPv6.
  static std::vector<Gid> destinations() {
    return {Gid::from_ipv4(0x0a750002), Gid{{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}}};
  }

  transport::TxFrame frame{};

 private:
  std::vector<transport::PayloadSpan> spans_;
};

}  // namespace uroce::glue
