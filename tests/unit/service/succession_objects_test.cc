// A planned restart: receive rules, and what a program has half done.
#include <array>
#include <cstring>
#include <map>
#include <string>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "message/hello_messages.h"
#include "message/memory_messages.h"
#include "message/queue_messages.h"
#include "queues/layout.h"
#include "succession_fixture.h"

namespace uroce::service {
namespace {

using message::Op;

/// A program whose messages a test chooses.
class RawProgram {
 public:
  explicit RawProgram(const std::string& socket)
      : connection_(must(message::Connection::to(socket, std::chrono::seconds(5)))) {
    call<message::HelloReply>(Op::hello, message::Hello{.queue_abi = queues::kAbiVersion});
    call<message::OpenDeviceReply>(Op::open_device, message::OpenDevice{"uroce0"});
  }
  template <class T = message::Empty, class Request>
  T call(Op op, const Request& request, std::span<const int> fds = {}) {
    std::vector<std::byte> bytes;
    message::encode(bytes, message::RequestHeader{.op = op, .sequence = ++sequence_});
    message::encode(bytes, request);
    must(connection_.send(bytes, fds));
    const auto packet = must(connection_.receive());
    message::Reader reader(packet.bytes);
    message::ReplyHeader header;
    T reply;
    reader(header, reply);
    EXPECT_EQ(header.error, 0) << header.text;
    EXPECT_TRUE(header.error != 0 || reader.complete());
    return reply;
  }

 private:
  message::Connection connection_;
  uint32_t sequence_ = 0;
};

message::Fd page_file() {
  message::Fd fd(memfd_create("page", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(fd.get(), 4096), 0);
  return fd;
}

TEST_F(SuccessionTest, ARegistrationOfManyMessagesGoesOn) {
  RawProgram program(socket_);
  const auto pd = program.call<message::Handle>(Op::create_pd, message::Empty{}).id;
  constexpr uint64_t kAt = 0x7000000000;
  program.call(Op::prepare_memory, message::PrepareMemory{.length = 3 * 4096, .address = kAt, .segments = 3});
  expect_not_in_version_1("a registration of many segments that has begun");
  for (int piece = 0; piece < 3; ++piece) {
    const auto over = hand_over();
    EXPECT_EQ(over.refused, 0u) << log();
    const message::Fd file = page_file();
    const int beside = file.get();
    program.call(Op::add_segments, message::AddSegments{{{.fd = 0, .offset = 0, .length = 4096}}}, {&beside, 1});
  }
  hand_over();
  const auto made = program.call<message::RegisterMemoryReply>(
      Op::register_memory,
      message::RegisterMemory{.pd = pd, .length = 3 * 4096, .address = kAt, .access = {}, .prepared = true});
  EXPECT_NE(made.key, 0u);
}

TEST_F(SuccessionTest, ACompletionQueueOutlivesItsChannel) {
  RawProgram program(socket_);
  const auto channel = program.call<message::Handle>(Op::create_channel, message::Empty{}).id;
  std::array<message::CreateCqReply, 2> cqs;
  for (auto& cq : cqs) {
    cq = program.call<message::CreateCqReply>(Op::create_cq, message::CreateCq{.entries = 16, .channel = channel});
  }
  program.call(Op::destroy, message::Destroy{.kind = message::Kind::channel, .id = channel});
  expect_not_in_version_1("a completion queue that outlives its channel");
  for (int restart = 0; restart < 2; ++restart) EXPECT_EQ(hand_over().refused, 0u) << log();
  for (const auto& cq : cqs) {
    program.call<message::ResizeCqReply>(Op::resize_cq, message::ResizeCq{.cq = cq.id, .entries = 64});
    program.call(Op::destroy, message::Destroy{.kind = message::Kind::cq, .id = cq.id});
  }
}

TEST_F(SuccessionTest, QueuePairsOutliveTheirAddress) {
  auto mine = client_->make_qp();
  auto theirs = peer_->make_qp();
  connect(*client_, mine, *peer_, theirs);
  auto handle = must(client_->pd.create_address_handle({.dgid = peer_->context.info().gids[0]}));
  control::Device& device = *world_.device(0);
  const std::vector<Gid> before = device.gids();
  must(device.set_gids(std::array{Gid::from_ipv4(0x0a0000fe)}));
  for (std::size_t successor = 2; successor < 4; ++successor) {
    EXPECT_EQ(hand_over().refused, 0u) << log();
    expect_all_operations(mine, theirs, client_->mr);
    std::vector<Gid> entries(before.size());
    entries.push_back(Gid::from_ipv4(0x0a0000fe));
    EXPECT_EQ(world_.device(successor)->gids(), entries);
  }
}

TEST_F(SuccessionTest, CountersGoOn) {
  auto mine = client_->make_qp();
  auto theirs = peer_->make_qp();
  connect(*client_, mine, *peer_, theirs);
  std::map<std::string, uint64_t> before;
  message::ClientRow row;
  for (std::size_t daemon = 0; daemon < 3; ++daemon) {
    expect_all_operations(mine, theirs, client_->mr);
    const auto& device = *world_.device(daemon == 0 ? 0 : daemon + 1);
    for (const auto& [name, value] : running().counters(device)) {
      const bool grew = name == "rx_packets" || name == "send_completions";
      EXPECT_GE(value, before[name] + (grew ? 1 : 0)) << name;
      before[name] = value;
    }
    const auto now = running().clients().at(0);
    EXPECT_GT(now.traffic.tx_bytes, row.traffic.tx_bytes);
    EXPECT_GT(now.traffic.rx_packets, row.traffic.rx_packets);
    EXPECT_GE(now.calls, row.calls);
    row = now;
    hand_over();
  }
}

class RawPackets : public SuccessionTest {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "raw packets need a privilege";
  }
  /// Sends IPv4 from 10.0.0.`host` to this device; `receiver` gets it.
  void expect_frame(QueuePair& sender, uint8_t host, QueuePair& receiver) {
    std::byte* const frame = client_->memory.data();
    std::memset(frame, 0, 60);
    std::memcpy(frame, client_->context.info().mac.bytes.data(), 6);
    frame[12] = std::byte{8};
    frame[14] = std::byte{0x45};
    frame[29] = std::byte{host};
    ASSERT_EQ(receiver.post_recv({.wr_id = host, .sges = std::array{client_->mr.sge(4096, 2000)}}), 0);
    ASSERT_EQ(sender.post_send({.sges = std::array{client_->mr.sge(0, 60)}}), 0);
    const auto received = next(world_, client_->cq);
    EXPECT_EQ(received.qpn, receiver.qpn());
    EXPECT_EQ(received.wr_id, host);
  }
};

TEST_F(RawPackets, RulesGoOnWithTheirOrderAndTheirCounts) {
  auto sender = client_->make_raw_qp(), first = client_->make_raw_qp(), second = client_->make_raw_qp(),
       late = client_->make_raw_qp();
  RxHash hash{.fields = RxHashField::ipv4_source};
  hash.key[7] = 0x02;  // the last bit of the address is that of the hash
  const QueuePair* const table[] = {&first, &second};
  const FlowRule rule{.layers = FlowLayer::ipv4};
  std::optional spread(must(client_->context.create_flow(table, rule, hash)));
  auto behind = must(late.create_flow(rule));
  expect_not_in_version_1("receive rules");
  for (uint8_t round = 0; round < 3; ++round) {
    for (uint8_t host = 0; host < 4; ++host) expect_frame(sender, host, host % 2 == 0 ? first : second);
    EXPECT_EQ(must(spread->counters()).packets, 4u * (round + 1));
    EXPECT_EQ(must(behind.counters()).packets, 0u);
    EXPECT_EQ(hand_over().refused, 0u) << log();
  }
  spread.reset();
  expect_frame(sender, 9, late);
  EXPECT_EQ(must(behind.counters()).packets, 1u);
}

}  // namespace
}  // namespace uroce::service
