#include <cerrno>
#include <map>

#include <sys/resource.h>

#include "endpoints.h"

namespace uroce {
namespace {

using namespace std::chrono_literals;
using test::must;
using test::next;
using test::Side;

TEST(Context, ReportsTheDevicesAttributes) {
  test::World world;
  world.add({.name = "uroce0", .driver = "net_test", .engines = 2});
  const Side side(world.device());
  EXPECT_EQ(side.context.info().name, "uroce0");
  EXPECT_EQ(side.context.info().engines, 2u);
  EXPECT_EQ(side.context.info().gids[0], test::World::gid(0));
}

TEST(Context, AsyncEventsReachTheirContextOnly) {
  test::World world;
  world.add();
  Side a(world.device()), b(world.device());
  auto qa = a.make_qp(), qb = b.make_qp();
  connect(a, qa, b, qb);
  EXPECT_FALSE(a.context.next_async_event(0ns));
  // A bad rkey: the responder's QP goes to error, and its session gets the event.
  ASSERT_EQ(qa.post_send({.opcode = WrOpcode::rdma_write,
                          .flags = SendFlag::signaled,
                          .sges = std::array{a.mr.sge(0, 8)},
                          .remote_addr = 1,
                          .rkey = 0xdead}),
            0);
  EXPECT_EQ(next(world, a.cq).status, WcStatus::remote_access_error);
  const auto event = b.context.next_async_event(20s);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->type, AsyncEventType::qp_access_error);
  EXPECT_EQ(event->object, qb.qpn());
  while (const auto more = a.context.next_async_event(0ns)) EXPECT_EQ(more->object, qa.qpn());
}

TEST(Context, WaitingForAnEventEndsInTime) {
  test::World world;
  world.add();
  Side side(world.device());
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(side.context.next_async_event(20ms));
  EXPECT_FALSE(side.channel.wait(20ms));
  EXPECT_GE(std::chrono::steady_clock::now() - start, 40ms) << "not before";
}

TEST(Context, CountsPackets) {
  test::World world;
  // Without HELLOs between, each frame is one of those below.
  world.add({.settings = {.retransmission = Retransmission::go_back_n}});
  world.add({.settings = {.retransmission = Retransmission::go_back_n}});
  Side a(world.device(0)), b(world.device(1));
  auto qa = a.make_qp(), qb = b.make_qp();
  connect(a, qa, b, qb);
  ASSERT_EQ(qa.post_send({.opcode = WrOpcode::rdma_write,
                          .flags = SendFlag::signaled,
                          .sges = std::array{a.mr.sge(0, 8)},
                          .remote_addr = b.mr.sge(0, 0).addr,
                          .rkey = b.mr.rkey()}),
            0);
  EXPECT_EQ(next(world, a.cq).status, WcStatus::success);
  std::map<std::string, uint64_t> sent, received;
  for (const auto& [name, value] : a.context.counters()) sent[name] = value;
  for (const auto& [name, value] : b.context.counters()) received[name] = value;
  EXPECT_EQ(sent["tx_packets"], 1u);
  EXPECT_EQ(received["rx_packets"], 1u);
  EXPECT_EQ(received["acks_sent"], 1u);
  EXPECT_EQ(sent["acks_received"], 1u);
}

TEST(Context, ObjectsOutliveTheirParentsHandles) {
  test::World world;
  world.add();
  std::optional<Side> a(world.device()), b(world.device());
  auto qa = a->make_qp(), qb = b->make_qp();
  connect(*a, qa, *b, qb);
  std::vector<std::byte> memory = std::move(a->memory);
  auto mr = std::move(a->mr);
  auto cq = std::move(a->cq);
  a.reset();
  ASSERT_EQ(qa.post_send({.opcode = WrOpcode::rdma_write,
                          .flags = SendFlag::signaled,
                          .sges = std::array{mr.sge(0, 8)},
                          .remote_addr = b->mr.sge(0, 0).addr,
                          .rkey = b->mr.rkey()}),
            0);
  EXPECT_EQ(next(world, cq).status, WcStatus::success);
}

TEST(Context, TenThousandQueuePairs) {
  constexpr uint32_t kQps = 10000;
  test::World world;
  world.add({.engines = 2, .settings = {.max_qp = 2 * kQps}});
  Side side(world.device(), 64);
  const QpInit init{.cap = {.max_send_wr = 1, .max_recv_wr = 1}};
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  std::vector<QueuePair> qps;
  for (uint32_t i = 0; i < kQps; ++i) qps.push_back(side.make_qp(init));
  for (uint32_t i = 0; i < kQps; i += 2) connect(side, qps[i], side, qps[i + 1]);
  getrusage(RUSAGE_SELF, &after);
  const long kilobytes = after.ru_maxrss - before.ru_maxrss;
  RecordProperty("kilobytes", static_cast<int>(kilobytes));
  std::printf("%u queue pairs: %ld KiB, %ld bytes each\n", kQps, kilobytes, kilobytes * 1024 / kQps);
  for (uint32_t i = 0; i < kQps; ++i) {
    QueuePair& qp = qps[i];
    ASSERT_EQ(qp.post_send({.wr_id = i,
                            .opcode = WrOpcode::fetch_add,
                            .flags = SendFlag::signaled,
                            .sges = std::array{side.mr.sge(8 + 8 * (i % 1000), 8)},
                            .remote_addr = side.mr.sge(0, 0).addr,
                            .rkey = side.mr.rkey(),
                            .compare_add = 1}),
              0);
    const auto completion = next(world, side.cq);
    ASSERT_EQ(completion.status, WcStatus::success);
    ASSERT_EQ(completion.wr_id, i);
  }
  uint64_t sum = 0;
  std::memcpy(&sum, side.memory.data(), sizeof sum);
  EXPECT_EQ(sum, kQps);
}

}  // namespace
}  // namespace uroce
