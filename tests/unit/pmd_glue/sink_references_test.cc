// The frames that still refer to registered memory, and how long somebody has to wait for them.
#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "pmd_glue/sink.h"
#include "ports.h"

namespace uroce::glue {
namespace {

/// A driver that keeps what it was given until told, oldest first.
class KeepingPath final : public TxPath {
 public:
  ~KeepingPath() override { release(kept_.size()); }
  uint16_t push(std::span<rte_mbuf*> mbufs) override {
    kept_.insert(kept_.end(), mbufs.begin(), mbufs.end());
    return static_cast<uint16_t>(mbufs.size());
  }
  void release(std::size_t count) {
    for (; count > 0; --count, kept_.pop_front()) rte_pktmbuf_free(kept_.front());
  }

 private:
  std::deque<rte_mbuf*> kept_;
};

/// A sink that refers to payload, over such a driver.
class ReferringSink : public testing::Test {
 protected:
  void SetUp() override {
    PortOptions options;
    options.rx_descriptors = options.tx_descriptors = 128;
    options.tx_mode = StackOptions::TxMode::external;
    port_ = EthdevPort::open(vdev_.port(), options).value();
    ASSERT_TRUE(port_->start());
    small_ = rte_pktmbuf_pool_create("refer", 511, 0, 0, RTE_PKTMBUF_HEADROOM + 64, SOCKET_ID_ANY);
    sink_ = std::make_unique<EtherSink>(*port_, path_, *engines_.handover, small_);
  }
  void TearDown() override {
    path_.release(in_flight_);
    EXPECT_FALSE(sink_->references_payload()) << "every reference is counted once";
    sink_.reset();
    port_.reset();
    rte_mempool_free(small_);
  }
  void send(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      TestFrame f(0x123, 1, {{bytes_.data(), 2000}, {bytes_.data() + 2000, 2000}});
      ASSERT_GT(sink_->room(), 0u);
      sink_->send({&f.frame, 1});
      ++in_flight_;
    }
  }
  void sent(std::size_t count) {
    path_.release(count);
    in_flight_ -= count;
  }

  const std::vector<std::byte> bytes_ = std::vector<std::byte>(4096);
  Vdev vdev_{"net_pcap_refer", "tx_pcap=/dev/null"};
  KeepingPath path_;
  Engines engines_{"refer-test", 1};
  std::unique_ptr<Port> port_;
  rte_mempool* small_ = nullptr;
  std::unique_ptr<EtherSink> sink_;
  std::size_t in_flight_ = 0;
};

TEST_F(ReferringSink, LetsGoOfWhatWasSentBeforeThoughMoreFollows) {
  send(8);
  const uint64_t mark = sink_->mark_payload();
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(sink_->references_payload_before(mark)) << i;
    send(1);
    sent(1);
  }
  EXPECT_FALSE(sink_->references_payload_before(mark));
  EXPECT_TRUE(sink_->references_payload()) << "the eight that followed";
  EXPECT_FALSE(sink_->references_payload_before(mark)) << "and it stays so";
}

TEST_F(ReferringSink, LetsGoForSeveralWaitersInTheOrderTheyCame) {
  send(4);
  const uint64_t first = sink_->mark_payload();
  EXPECT_TRUE(sink_->references_payload_before(first));  // from here on frames count apart
  send(4);
  const uint64_t second = sink_->mark_payload();
  EXPECT_TRUE(sink_->references_payload_before(second));
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(sink_->references_payload_before(first)) << i;
    send(1);
    sent(1);
  }
  EXPECT_FALSE(sink_->references_payload_before(first));
  EXPECT_TRUE(sink_->references_payload_before(second));
  // The second's generation took in frames until the first's was gone: eight, and no more however many follow.
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(sink_->references_payload_before(second)) << i;
    send(1);
    sent(1);
  }
  EXPECT_FALSE(sink_->references_payload_before(second));
  EXPECT_FALSE(sink_->references_payload_before(first));
}

TEST_F(ReferringSink, HasNothingToWaitForWhereNothingIsOnItsWay) {
  EXPECT_FALSE(sink_->references_payload_before(sink_->mark_payload()));
  send(3);
  const uint64_t mark = sink_->mark_payload();
  sent(3);
  EXPECT_FALSE(sink_->references_payload_before(mark));
}

}  // namespace
}  // namespace uroce::glue
