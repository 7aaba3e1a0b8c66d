// The shortcuts for datagrams against the general way: the same frames at the same moments, the same completions and
// memory. A run is its seed, as in plain_path_test.cc.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/sim/network.h"
#include "tests/sim/options.h"
#include "tests/sim/two_ways.h"

namespace uroce::test {
namespace {

constexpr uint64_t kDatagramRuns = 60;
constexpr uint32_t kDatagrams = 300;
constexpr uint32_t kMtuBytes = 512;
constexpr uint32_t kGrh = 40;
constexpr uint32_t kSlot = kMtuBytes + kGrh;
constexpr uint32_t kSlots = 32;  // of each receiver

struct SeenDatagrams {
  std::vector<SeenFrame> frames;
  std::vector<std::string> completions;
  std::vector<std::byte> memory;
  std::vector<uint64_t> counters;
};

std::string text(const queues::Cqe& cqe) {
  return fmt::format("{} of QP {:#x}: status {}, {} bytes from {:#x}, flags {:#x}, imm {:#x}, {} ns", cqe.wr_id,
                     cqe.qpn, cqe.status, cqe.byte_len, cqe.src_qpn, cqe.flags, cqe.imm_or_key, cqe.timestamp_ns);
}

/// Two senders on one host; two receivers on another one, and one beside the senders.
class Datagrams {
 public:
  Datagrams(uint64_t seed, bool plain_path)
      : random_(seed),
        ipv6_(random_.chance(0.3)),
        errors_(random_.chance(0.3)),
        faults_(rates(), seed ^ 0xfa17),
        near_(host(1, plain_path)),
        far_(host(2, plain_path)),
        network_({&near_, &far_}, faults_, Nanos(2000), random_.next()) {
    network_.set_watch(
        [&](std::size_t at, const Frame& frame) { seen_.frames.push_back({network_.now(), at, frame}); });
    cq_ = &near_.make_cq(4 * kDatagrams);
    for (const uint32_t qpn : {0x11, 0x12}) {
      TestQp& qp = near_.make_qp({.qpn = qpn, .type = QpType::ud, .signal_all = random_.chance(0.2), .send_cq = cq_});
      qp.connect({.sq_psn = 0xfffff0, .mtu = Mtu::mtu512}, near_.route_to(far_));
      senders_.push_back(&qp);
    }
    source_ = &near_.make_region(1 << 16, Access::local_write);
    add_receiver(far_, 0x21);
    add_receiver(far_, 0x22);
    add_receiver(near_, 0x23);
    make_handles();
  }

  SeenDatagrams go() {
    for (uint32_t posted = 0; posted < kDatagrams || network_.next_event() != kNever;) {
      for (uint64_t burst = random_.below(20); burst > 0 && posted < kDatagrams; --burst) posted += post() ? 1 : 0;
      for (Receiver& receiver : receivers_) fill(receiver);
      network_.run(0);
      network_.run(1);
      take();
      const Nanos next = network_.next_event();
      network_.advance_to(next == kNever ? network_.now() + Nanos(1000) : next);
    }
    take();
    EXPECT_TRUE(near_.guards_intact() && far_.guards_intact());
    for (Receiver& receiver : receivers_) {
      const auto bytes = receiver.memory->bytes();
      seen_.memory.insert(seen_.memory.end(), bytes.begin(), bytes.end());
    }
    for (TestEndpoint* one : {&near_, &far_}) {
      const auto counters = counters_of(one->engine());
      seen_.counters.insert(seen_.counters.end(), counters.begin(), counters.end());
    }
    for (TestQp* qp : senders_) seen_.counters.push_back(static_cast<uint64_t>(qp->state()));
    return std::move(seen_);
  }

 private:
  enum class Fault : uint8_t { other_domain, too_long, no_key, not_offered, qpn_too_large, none };
  static constexpr uint32_t kNobodys[] = {0x77, kMulticastQpn};
  struct Receiver {
    TestQp* qp;
    TestCq* cq;
    TestRegion* memory;
    uint64_t posted = 0;
    uint64_t done = 0;
  };

  EndpointOptions host(uint8_t number, bool plain_path) const {
    EndpointOptions options;
    options.engine.plain_path = plain_path;
    options.gid = Gid::from_ipv4(0x0a000000u + number);
    if (ipv6_) options.gid = Gid{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number}};
    options.mac = {{2, 0, 0, 0, 0, number}};
    options.seed = number;
    return options;
  }

  FaultRates rates() {
    if (random_.chance(0.5)) return {};
    return {.drop = 0.03, .duplicate = 0.03, .reorder = 0.05, .corrupt = 0.03, .mark = 0.03};
  }

  void add_receiver(TestEndpoint& host, uint32_t qpn) {
    TestCq& cq = host.make_cq(4 * kDatagrams);
    TestQp& qp = host.make_qp({.qpn = qpn, .type = QpType::ud, .recv_cq = &cq});
    qp.connect({.mtu = Mtu::mtu512}, far_.route_to(near_));
    receivers_.push_back({&qp, &cq, &host.make_region(kSlots * kSlot, Access::local_write)});
  }

  void make_handles() {
    wire::Route route = near_.route_to(far_);
    handles_.push_back(near_.make_ah(route));
    route.traffic_class = 0x28;
    route.flow_label = ipv6_ ? 0x12345 : 0;
    handles_.push_back(near_.make_ah(route));
    handles_.push_back(near_.make_ah(near_.route_to(near_), true));
    handles_.push_back(near_.make_ah(route, false, 2));  // of another protection domain
  }

  // Mostly plain ones, in rows of one length to one destination.
  bool post() {
    if (!random_.chance(0.6)) {
      length_ = static_cast<uint32_t>(random_.below(kMtuBytes + 1));
      handle_ = random_.below(3);
      dest_ = handle_ == 2 ? 0x23 : 0x21 + static_cast<uint32_t>(random_.below(2));
    }
    const bool other = random_.chance(0.2);
    const bool wrong = errors_ && random_.chance(0.01);
    const auto cut = static_cast<uint32_t>(other ? random_.below(length_ + 1) : length_);
    const auto at = random_.below(1 << 15);
    const std::array<Sge, 2> sges{source_->sge(at, cut), source_->sge(at + cut, length_ - cut)};
    const auto fault = wrong ? static_cast<Fault>(random_.below(5)) : Fault::none;
    SendRequest request{.wr_id = wr_id_++,
                        .opcode = other && random_.chance(0.3) ? WrOpcode::send_with_imm : WrOpcode::send,
                        .sges = std::span(sges).first(cut == length_ ? 1 : 2),
                        .imm_or_key = 7,
                        .ah = handles_[fault == Fault::other_domain ? 3 : handle_],
                        .remote_qpn = random_.chance(0.02) ? kNobodys[random_.below(2)] : dest_,
                        .remote_qkey = random_.chance(0.1) ? 0x80000000u : ConnectOptions{}.qkey};
    if (random_.chance(0.02)) request.remote_qkey = 0x4321;
    if (random_.chance(0.4)) request.flags |= SendFlag::signaled;
    if (other && random_.chance(0.3)) request.flags |= SendFlag::solicited;
    if (other && random_.chance(0.2)) request.flags |= SendFlag::fence;
    const Sge long_one = source_->sge(at, kMtuBytes + 1);
    const Sge without_key{source_->va(), 8, 0xdead};
    if (fault == Fault::too_long) request.sges = {&long_one, 1};
    if (fault == Fault::no_key) request.sges = {&without_key, 1};
    if (fault == Fault::not_offered) request.opcode = WrOpcode::rdma_write;
    if (fault == Fault::qpn_too_large) request.remote_qpn = 0x1000021;
    if (other && length_ <= 256 && random_.chance(0.3)) {
      request.flags |= SendFlag::inline_data;
      request.inline_data = source_->bytes().subspan(at, length_);
    }
    return senders_[random_.below(2)]->post_send(request);
  }

  void fill(Receiver& receiver) {
    while (receiver.posted < receiver.done + kSlots / 2) {
      const auto bytes = random_.chance(0.1) ? static_cast<uint32_t>(random_.below(kSlot)) : kSlot;
      const Sge sge = receiver.memory->sge(receiver.posted % kSlots * kSlot, bytes);
      const std::array<Sge, 2> halves{Sge{sge.addr, bytes / 2, sge.lkey},
                                      Sge{sge.addr + bytes / 2, bytes - bytes / 2, sge.lkey}};
      const bool one = random_.chance(0.9);
      ASSERT_TRUE(receiver.qp->post_recv({.wr_id = receiver.posted, .sges = one ? std::span(&sge, 1) : halves}));
      ++receiver.posted;
    }
  }

  void take() {
    while (const auto cqe = cq_->poll()) seen_.completions.push_back(text(*cqe));
    for (Receiver& receiver : receivers_) {
      while (const auto cqe = receiver.cq->poll()) {
        seen_.completions.push_back(text(*cqe));
        ++receiver.done;
      }
    }
  }

  Random random_;
  const bool ipv6_, errors_;
  RandomFaults faults_;
  TestEndpoint near_, far_;
  Network network_;
  SeenDatagrams seen_;
  TestCq* cq_ = nullptr;
  std::vector<TestQp*> senders_;
  std::vector<Receiver> receivers_;
  std::vector<uint32_t> handles_;
  TestRegion* source_ = nullptr;
  uint64_t wr_id_ = 0;
  uint32_t length_ = 8;
  std::size_t handle_ = 0;
  uint32_t dest_ = 0x21;
};

TEST(PlainDatagrams, AreThoseOfTheGeneralWay) {
  const Options o = parse_options(0, nullptr, {.seed = 1, .runs = kDatagramRuns});
  uint64_t received = 0;
  for (uint64_t seed = o.seed; seed < o.seed + o.runs; ++seed) {
    SCOPED_TRACE(fmt::format("UROCE_SIM_SEED={}", seed));
    const SeenDatagrams general = Datagrams(seed, false).go();
    const SeenDatagrams plain = Datagrams(seed, true).go();
    EXPECT_EQ(first_difference(general.frames, plain.frames), "");
    EXPECT_EQ(general.completions, plain.completions);
    EXPECT_EQ(general.counters, plain.counters);
    EXPECT_TRUE(general.memory == plain.memory);
    received += general.completions.size();
    if (HasFailure()) return;
  }
  EXPECT_GT(received, o.runs * kDatagrams / 2);
}

}  // namespace
}  // namespace uroce::test
