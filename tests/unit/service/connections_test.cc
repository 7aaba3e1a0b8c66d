// rdma_cm's calls between two devices on a wire: by clients of a server in this process, and by a program that has the
// devices itself, whose connection manager has a thread or takes its turns with the engines.
#include <uroce/cm.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>

#include "client/daemon_link.h"
#include "client/in_process_cm.h"
#include "cm/ib/mad.h"
#include "cm/manager.h"
#include "message/cm_messages.h"
#include "message/protocol.h"
#include "service/server.h"
#include "tests/unit/client/endpoints.h"
#include "tests/unit/service/cm_program.h"
#include "tests/unit/service/server_place.h"
#include "wire/packet.h"

namespace uroce::service {
namespace {

using test::must;
using test::next;
using test::Side;
using test::World;
using namespace std::chrono_literals;

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

/// Where the programs of a test have their devices and connections.
enum class Way { daemon, process, embedded };

class ConnectionsTest : public testing::TestWithParam<Way> {
 protected:
  ConnectionsTest() : ConnectionsTest(GetParam()) {}
  explicit ConnectionsTest(Way way)
      : way_(way), world_(way == Way::embedded ? World::Mode::embedded : World::Mode::threaded) {
    world_.add();
    world_.add();
    const auto turns = way_ == Way::embedded ? cm::Turns::engines_thread : cm::Turns::own_thread;
    connections_ = must(cm::Manager::start({world_.device(0), world_.device(1)}, 7, turns));
    if (way_ == Way::embedded) world_.set_turn([this] { connections_->turn(cm::steady_now()); });
    if (way_ != Way::daemon) return;
    server_ = must(Server::start({.socket = socket_, .budgets = {.limits = {{Resource::cm_id, 3000}}, .users = {}}},
                                 {world_.device(0), world_.device(1)}, {}, connections_.get()));
  }
  ~ConnectionsTest() override {
    server_.reset();
    stop_connections();
    world_.stop();
  }
  /// As a stack that ends.
  void stop_connections() {
    world_.set_turn({});
    connections_.reset();
  }
  /// Of one of several programs, which have the devices of the same number.
  ConnectionManager open(std::size_t program = 0) {
    if (way_ == Way::daemon) return must(ConnectionManager::open({socket_of(program)}));
    return ConnectionManager(client::make_in_process_cm(*connections_, world_.device(1)));
  }

  using Program = CmProgram;

  /// Resolved from the first device to `remote`.
  static CmId resolved(Program& program, const CmAddress& remote, QpType type = QpType::rc) {
    return program.resolved(remote, type);
  }
  static CmAddress address(std::size_t device, uint16_t port) { return {World::gid(device), port}; }
  std::string socket_of(std::size_t program) const { return place_.socket(program); }
  static void to_init(const CmId& id, QueuePair& qp) {
    const auto [attr, mask] = must(id.qp_attr(QpState::init));
    must(qp.modify(attr, mask));
  }
  static void bring_up(const CmId& id, QueuePair& qp) {
    for (const QpState state : {QpState::init, QpState::rtr, QpState::rts}) {
      const auto [attr, mask] = must(id.qp_attr(state));
      must(qp.modify(attr, mask));
    }
  }
  /// A WRITE on `from`, a queue pair of `a`, puts its bytes into the memory of `b`.
  void expect_write_arrives(Side& a, QueuePair& from, Side& b) {
    a.memory[9] = std::byte{77};
    ASSERT_EQ(from.post_send({.opcode = WrOpcode::rdma_write,
                              .flags = SendFlag::signaled,
                              .sges = std::array{a.mr.sge(0, 64)},
                              .remote_addr = reinterpret_cast<uint64_t>(b.memory.data()),
                              .rkey = b.mr.rkey()}),
              0);
    EXPECT_EQ(next(world_, a.cq).status, WcStatus::success);
    EXPECT_EQ(b.memory[9], std::byte{77});
  }
  /// The first message of that kind on the wire.
  template <class Message>
  Message on_wire() {
    for (const auto& frame : world_.management()) {
      const auto packet = wire::parse(frame);
      if (!packet) continue;
      const auto header = cm::parse_header(packet->payload);
      if (header && header->attribute == Message::kAttribute) {
        return Message::load(packet->payload.data() + cm::kMadHeaderBytes);
      }
    }
    throw std::runtime_error("there was no such message on the wire");
  }
  Side side(std::size_t device) {
    if (way_ != Way::daemon) return Side(world_.device(device));
    return Side(must(open_daemon_device(world_.device(device)->config().name, {socket_of(device)})));
  }

  ServerPlace place_{"connections"};
  const std::string socket_ = place_.socket();
  const Way way_;
  World world_;
  std::unique_ptr<cm::Manager> connections_;
  std::unique_ptr<Server> server_;
};

TEST_P(ConnectionsTest, ConnectMoveBytesAndPart) {
  Program server(open()), client(open());
  Side a = side(0), b = side(1);
  CmId listener = server.id();
  must(listener.bind(address(1, 4000)));
  must(listener.listen(8));

  CmId active = resolved(client, address(1, 4000));
  const auto route = must(active.info());
  EXPECT_EQ(route.device, world_.device(0)->config().name);
  EXPECT_EQ(route.local.ip, World::gid(0));
  EXPECT_GE(route.local.port, 1024);
  auto qa = a.make_qp(), qb = b.make_qp();
  must(active.connect({.private_data = bytes_of("hello"),
                       .responder_resources = 3,
                       .initiator_depth = 5,
                       .retry_count = 6,
                       .rnr_retry_count = 4,
                       .qpn = qa.qpn()}));

  const CmEvent request = server.expect(CmEventType::connect_request);
  EXPECT_EQ(request.listener, listener.number());
  EXPECT_EQ(request.param.private_data.size(), 56u);
  EXPECT_EQ(std::vector(request.param.private_data.begin(), request.param.private_data.begin() + 5), bytes_of("hello"));
  EXPECT_EQ(request.param.responder_resources, 5) << "what the peer wants to have outstanding here";
  EXPECT_EQ(request.param.initiator_depth, 3);
  EXPECT_EQ(request.param.rnr_retry_count, 4);
  EXPECT_EQ(request.param.qpn, qa.qpn());
  CmId passive = must(server.manager.adopt(request));
  EXPECT_EQ(must(passive.info()).remote, route.local);
  bring_up(passive, qb);
  must(passive.accept(
      {.private_data = bytes_of("welcome"), .responder_resources = 5, .initiator_depth = 2, .qpn = qb.qpn()}));

  const CmEvent response = client.expect(CmEventType::connect_response);
  EXPECT_EQ(response.param.private_data.size(), 196u);
  EXPECT_EQ(response.param.responder_resources, 2);
  EXPECT_EQ(response.param.initiator_depth, 5);
  bring_up(active, qa);
  must(active.establish());
  server.expect(CmEventType::established);

  const auto attr = must(qa.query());
  EXPECT_EQ(attr.dest_qpn, qb.qpn());
  EXPECT_EQ(attr.retry_cnt, 6);
  EXPECT_EQ(attr.max_rd_atomic, 5);
  EXPECT_EQ(must(qb.query()).max_rd_atomic, 3) << "brought up before accept() named another number";
  expect_write_arrives(a, qa, b);

  std::map<std::string, uint64_t> counters;
  const std::string device = world_.device(0)->config().name;
  for (auto& [name, value] : way_ == Way::daemon ? a.context.counters() : connections_->counters(device))
    counters[name] = value;
  EXPECT_EQ(counters["cm_req_sent"], 1u);
  EXPECT_EQ(counters["cm_rep_received"], 1u);
  EXPECT_EQ(counters["cm_rtu_sent"], 1u);

  must(active.disconnect());
  EXPECT_EQ(server.expect(CmEventType::disconnected).id, passive.number());
  EXPECT_EQ(client.expect(CmEventType::disconnected).id, active.number());
  EXPECT_TRUE(passive.disconnect()) << "the other side's wish is known";
}

/// The daemon alone has calls without a reply, and limits.
class DaemonConnections : public ConnectionsTest {
 protected:
  DaemonConnections() : ConnectionsTest(Way::daemon) {}
};

TEST_P(ConnectionsTest, AnIdAndItsQueuePairConnectTogetherAndPart) {
  Program server(open(1)), client(open(0));
  Side a = side(0), b = side(1);
  auto qa = a.make_qp(), qb = b.make_qp();
  CmId listener = server.id();
  must(listener.bind(address(1, 4000)));
  must(listener.listen(8));
  CmId active = resolved(client, address(1, 4000));
  to_init(active, qa);
  must(active.connect({.responder_resources = 3, .initiator_depth = 5, .qpn = qa.qpn()}, qa));

  CmId passive = must(server.manager.adopt(server.expect(CmEventType::connect_request)));
  to_init(passive, qb);
  must(passive.accept({.responder_resources = 5, .initiator_depth = 2, .qpn = qb.qpn()}, qb));
  EXPECT_EQ(must(qb.query()).state, QpState::rts);
  EXPECT_EQ(must(qb.query()).max_rd_atomic, 2) << "what accept() named";

  const CmEvent response = client.expect(CmEventType::established);
  EXPECT_EQ(response.param.initiator_depth, 5);
  server.expect(CmEventType::established);
  EXPECT_EQ(must(qa.query()).state, QpState::rts);
  EXPECT_EQ(must(qa.query()).dest_qpn, qb.qpn());
  expect_write_arrives(a, qa, b);

  must(active.disconnect(qa));
  EXPECT_EQ(must(qa.query()).state, QpState::error);
  EXPECT_EQ(server.expect(CmEventType::disconnected).id, passive.number());
  EXPECT_TRUE(passive.disconnect(qb)) << "the other side's wish is known";
  EXPECT_EQ(must(qb.query()).state, QpState::error);
  EXPECT_EQ(client.expect(CmEventType::disconnected).id, active.number());
}

TEST_F(DaemonConnections, RefusesQueuePairsOfSomewhereElse) {
  Program client(open(0));
  Side in_process(world_.device(0)), of_another_program = side(1);
  auto qp = in_process.make_qp(), other = of_another_program.make_qp();
  CmId active = resolved(client, address(1, 4000));
  test::expect_error(active.connect({.qpn = qp.qpn()}, qp), EINVAL, "is not of the daemon connection");
  test::expect_error(active.connect({.qpn = qp.qpn()}, other), EINVAL, "is not of the daemon connection");
}

TEST_F(DaemonConnections, FailuresAfterTheCallAreEvents) {
  Program server(open(1)), client(open(0));
  Side a = side(0), b = side(1);
  auto qa = a.make_qp(), qb = b.make_qp();
  CmId listener = server.id();
  must(listener.bind(address(1, 4000)));
  must(listener.listen(8));

  CmId unresolved = client.id();
  test::expect_error(unresolved.connect({.qpn = qa.qpn()}, qa), EINVAL, "a resolved route");
  CmId active = resolved(client, address(1, 4000));
  test::expect_error(active.connect({.private_data = bytes_of(std::string(57, 'x')), .qpn = qa.qpn()}, qa), EINVAL,
                     "private data");
  must(active.connect({.qpn = qa.qpn()}, qa));
  test::expect_error(active.connect({.qpn = qa.qpn()}, qa), EINVAL, "connecting");

  CmId passive = must(server.manager.adopt(server.expect(CmEventType::connect_request)));
  must(qb.modify({.state = QpState::error}, QpAttrBit::state));
  must(passive.accept({.qpn = qb.qpn()}, qb));
  const CmEvent failed = server.expect(CmEventType::connect_error);
  EXPECT_EQ(failed.id, passive.number());
  EXPECT_EQ(failed.status, -EINVAL);
  must(passive.reject({}));
  EXPECT_EQ(client.expect(CmEventType::rejected).id, active.number());
}

// The program waits for an event and for no reply.
TEST_F(DaemonConnections, APostedCallDisconnectsWithoutTheQueuePair) {
  Program server(open(1)), client(open(0));
  CmId listener = server.id();
  must(listener.bind(address(1, 4000)));
  must(listener.listen(8));
  CmId active = resolved(client, address(1, 4000));
  must(active.connect({.qpn = 100}));
  CmId passive = must(server.manager.adopt(server.expect(CmEventType::connect_request)));
  must(passive.accept({.qpn = 101}));
  client.expect(CmEventType::connect_response);
  must(active.establish());
  server.expect(CmEventType::established);
  const auto link = must(client::DaemonLink::of_program({socket_of(0)}));
  must(link->post(message::Op::cm_disconnect, message::CmDisconnect{.id = active.number(), .qp = 99}));
  client.expect(CmEventType::disconnected);
  server.expect(CmEventType::disconnected);
}

TEST_P(ConnectionsTest, AQueuePairThatCannotBeConnectedIsAnEvent) {
  Program server(open(1)), client(open(0));
  Side a = side(0);
  auto qa = a.make_qp();
  CmId listener = server.id();
  must(listener.bind(address(1, 4000)));
  must(listener.listen(8));
  CmId active = resolved(client, address(1, 4000));
  must(active.connect({.qpn = qa.qpn()}, qa));  // it is in RESET
  CmId passive = must(server.manager.adopt(server.expect(CmEventType::connect_request)));
  must(passive.accept({.qpn = 101}));
  const CmEvent failed = client.expect(CmEventType::connect_error);
  EXPECT_EQ(failed.id, active.number());
  EXPECT_EQ(failed.status, -EINVAL);
}

TEST_P(ConnectionsTest, AnAnswerToAQueuePairThatHasGoneIsLeftToTheProgram) {
  Program server(open(1)), client(open(0));
  Side a = side(0);
  CmId listener = server.id();
  must(listener.bind(address(1, 4000)));
  must(listener.listen(8));
  auto qa = std::make_optional(a.make_qp());
  CmId active = resolved(client, address(1, 4000));
  to_init(active, *qa);
  must(active.connect({.qpn = qa->qpn()}, *qa));
  qa.reset();
  CmId passive = must(server.manager.adopt(server.expect(CmEventType::connect_request)));
  must(passive.accept({.qpn = 101}));
  EXPECT_EQ(client.expect(CmEventType::connect_response).id, active.number());
}

// 12.7.25: the Starting PSN of a message is the PSN at which its receiver begins to send. Two ends that both take it
// for the sender's would agree with each other but with no other implementation, so this checks the frames.
TEST_P(ConnectionsTest, EachSideBeginsToSendWithThePsnThatTheOtherNamed) {
  Program server(open()), client(open());
  CmId listener = server.id();
  must(listener.bind(address(1, 4000)));
  must(listener.listen(8));
  CmId active = resolved(client, address(1, 4000));
  must(active.connect({.qpn = 100}));
  CmId passive = must(server.manager.adopt(server.expect(CmEventType::connect_request)));
  must(passive.accept({.qpn = 101}));
  client.expect(CmEventType::connect_response);

  const uint32_t in_req = on_wire<cm::ReqMad>().psn;
  const uint32_t in_rep = on_wire<cm::RepMad>().psn;
  ASSERT_NE(in_req, in_rep) << "drawn at random by each side";
  EXPECT_EQ(must(passive.qp_attr(QpState::rts)).first.sq_psn, in_req);
  EXPECT_EQ(must(passive.qp_attr(QpState::rtr)).first.rq_psn, in_rep);
  EXPECT_EQ(must(active.qp_attr(QpState::rts)).first.sq_psn, in_rep);
  EXPECT_EQ(must(active.qp_attr(QpState::rtr)).first.rq_psn, in_req);
}

TEST_P(ConnectionsTest, RefusalsTellWhy) {
  Program server(open()), client(open());
  CmId nobody = resolved(client, address(1, 4001));
  must(nobody.connect({.qpn = 100}));
  CmEvent refused = client.expect(CmEventType::rejected);
  EXPECT_EQ(refused.status, 8) << "invalid service id";

  CmId listener = server.id();
  must(listener.bind(address(1, 4002)));
  must(listener.listen(0));
  CmId active = resolved(client, address(1, 4002));
  must(active.connect({.qpn = 101}));
  CmId passive = must(server.manager.adopt(server.expect(CmEventType::connect_request)));
  must(passive.reject(bytes_of("full")));
  refused = client.expect(CmEventType::rejected);
  while (refused.id != active.number()) refused = client.expect(CmEventType::rejected);
  EXPECT_EQ(refused.status, 28);
  EXPECT_EQ(std::vector(refused.param.private_data.begin(), refused.param.private_data.begin() + 4), bytes_of("full"));
}

TEST_P(ConnectionsTest, PortsAreSharedFairly) {
  Program one(open()), other(open());
  CmId first = one.id(), second = other.id(), third = other.id();
  must(first.bind({Gid{}, 4010}));
  EXPECT_EQ(second.bind(address(1, 4010)).error().code, EADDRINUSE);
  EXPECT_EQ(second.bind({World::gid(9), 4011}).error().code, EADDRNOTAVAIL);
  must(second.bind(address(1, 4011)));
  must(third.bind(address(0, 4011)));
  CmId datagrams = other.id(QpType::ud);
  must(datagrams.bind({Gid{}, 4010}));
  CmId free = one.id();
  must(free.bind({Gid{}, 0}));
  EXPECT_GE(must(free.info()).local.port, 32768);
  {
    CmId reuse = one.id(), too = other.id();
    must(reuse.set_reuse_address(true));
    must(too.set_reuse_address(true));
    must(reuse.bind({Gid{}, 4012}));
    must(too.bind({Gid{}, 4012}));
    must(reuse.listen(1));
    EXPECT_EQ(too.listen(1).error().code, EADDRINUSE);
  }
  CmId again = other.id();
  EXPECT_TRUE(again.bind({Gid{}, 4012})) << "the port came back with its ids";
}

TEST_P(ConnectionsTest, AnUnusedAddress) {
  Program client(open());
  CmId id = client.id();
  must(id.resolve_addr(std::nullopt, {World::gid(50), 1}, 50ms));
  EXPECT_EQ(client.expect(CmEventType::addr_error).status, -ETIMEDOUT);
  EXPECT_EQ(id.connect({}).error().code, EINVAL);
}

TEST_P(ConnectionsTest, DatagramsFindTheirQueuePair) {
  Program server(open()), client(open());
  CmId listener = server.id(QpType::ud);
  must(listener.bind({Gid{}, 4020}));
  must(listener.listen(0));
  CmId active = resolved(client, address(1, 4020), QpType::ud);
  must(active.connect({.private_data = bytes_of("who")}));
  const CmEvent request = server.expect(CmEventType::connect_request);
  EXPECT_EQ(std::vector(request.param.private_data.begin(), request.param.private_data.begin() + 3), bytes_of("who"));
  CmId passive = must(server.manager.adopt(request));
  must(passive.accept({.private_data = bytes_of("me"), .qpn = 0x1234}));
  const CmEvent answer = client.expect(CmEventType::established);
  EXPECT_EQ(answer.param.qpn, 0x1234u);
  EXPECT_EQ(answer.param.qkey, 0x01234567u);
  EXPECT_EQ(answer.av.dgid, World::gid(1));

  CmId turned_away = resolved(client, address(1, 4020), QpType::ud);
  must(turned_away.connect({}));
  must(must(server.manager.adopt(server.expect(CmEventType::connect_request))).reject({}));
  const CmEvent refused = client.expect(CmEventType::unreachable);
  EXPECT_EQ(refused.id, turned_away.number());
  EXPECT_EQ(refused.status, 2) << "rejected by the service (12.11.2)";
}

TEST_P(ConnectionsTest, AGroupIsJoinedAndLeft) {
  Program client(open());
  CmId id = client.id(QpType::ud);
  const CmAddress group{Gid::from_ipv4(0xef010203), 0};
  EXPECT_EQ(id.join(group, 5).error().code, EINVAL) << "no device yet";
  must(id.resolve_addr(address(0, 0), group, kCmPatience));
  client.expect(CmEventType::addr_resolved);
  must(id.join(group, 5));
  const CmEvent joined = client.expect(CmEventType::multicast_join);
  EXPECT_EQ(joined.join, 5u);
  EXPECT_EQ(joined.av.dgid, group.ip);
  EXPECT_EQ(joined.param.qpn, kMulticastQpn);
  must(id.leave(group));
  EXPECT_EQ(id.leave(group).error().code, EADDRNOTAVAIL);
}

TEST_P(ConnectionsTest, EventsMoveWithTheirId) {
  Program server(open()), client(open());
  CmChannel second = must(server.manager.create_channel());
  CmId listener = server.id();
  must(listener.bind(address(1, 4030)));
  must(listener.listen(0));
  CmId active = resolved(client, address(1, 4030));
  must(active.connect({.qpn = 5}));
  // Waits in the first channel before it moves.
  ASSERT_TRUE(world_.run_until([&] {
    pollfd waiting{.fd = server.channel.fd(), .events = POLLIN, .revents = 0};
    return poll(&waiting, 1, 0) == 1;
  }));
  must(listener.migrate(second));
  EXPECT_EQ(server.channel.take(), std::nullopt);
  const auto request = second.wait(kCmPatience);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->type, CmEventType::connect_request);
  EXPECT_TRUE(server.manager.adopt(*request));
}

TEST_P(ConnectionsTest, AProgramThatGoesPartsFromItsPeers) {
  Program client(open());
  auto server = std::make_unique<Program>(open());
  CmId active = [&] {
    CmId listener = server->id();
    must(listener.bind(address(1, 4040)));
    must(listener.listen(0));
    CmId id = resolved(client, address(1, 4040));
    must(id.connect({.qpn = 5}));
    CmId passive = must(server->manager.adopt(server->expect(CmEventType::connect_request)));
    must(passive.accept({.qpn = 6}));
    client.expect(CmEventType::connect_response);
    must(id.establish());
    server->expect(CmEventType::established);
    // Destroying the handles sends the same messages as the end of the program.
    return id;
  }();
  server.reset();
  EXPECT_EQ(client.expect(CmEventType::disconnected).id, active.number());
}

TEST_P(ConnectionsTest, ListenersAndTheirRequestsEndTogether) {
  Program server(open()), client(open());
  CmId active = [&] {
    CmId listener = server.id();
    must(listener.bind(address(1, 4050)));
    must(listener.listen(0));
    CmId id = resolved(client, address(1, 4050));
    must(id.connect({.qpn = 5}));
    EXPECT_TRUE(world_.run_until([&] {
      pollfd waiting{.fd = server.channel.fd(), .events = POLLIN, .revents = 0};
      return poll(&waiting, 1, 0) == 1;
    }));
    return id;
  }();
  EXPECT_EQ(client.expect(CmEventType::rejected).id, active.number());
  EXPECT_EQ(server.channel.take(), std::nullopt) << "the request went with its listener";
}

TEST_P(ConnectionsTest, EventsTakenAheadStillWait) {
  constexpr uint32_t kCount = 5;
  Program server(open()), client(open());
  const auto readable = [&] {
    pollfd waiting{.fd = server.channel.fd(), .events = POLLIN, .revents = 0};
    return poll(&waiting, 1, 0) == 1;
  };
  std::optional<CmId> listener = server.id();
  must(listener->bind(address(1, 4060)));
  must(listener->listen(0));
  std::vector<CmId> asking;
  for (uint32_t i = 0; i < kCount; ++i) {
    asking.push_back(resolved(client, address(1, 4060)));
    must(asking.back().connect({.qpn = 10 + i}));
  }
  EXPECT_TRUE(world_.run_until([&] {
    int waiting = 0;
    return ioctl(server.channel.fd(), FIONREAD, &waiting) == 0 && waiting == kCount;
  }));
  // Taking the first event fetches the others.
  std::vector<CmId> adopted;
  for (uint32_t i = 0; i + 2 < kCount; ++i) {
    adopted.push_back(must(server.manager.adopt(server.expect(CmEventType::connect_request))));
    EXPECT_TRUE(readable()) << "after " << i;
  }
  EXPECT_EQ(must(adopted[1].info()).remote.ip, World::gid(0));
  must(adopted[1].reject({}));
  EXPECT_EQ(client.expect(CmEventType::rejected).id, asking[1].number());
  listener.reset();
  for (uint32_t i = kCount - 2; i < kCount; ++i) client.expect(CmEventType::rejected);
  EXPECT_EQ(server.channel.take(), std::nullopt) << "the requests went with their listener";
  EXPECT_FALSE(readable());
  must(adopted[0].accept({.qpn = 20}));
  EXPECT_EQ(client.expect(CmEventType::connect_response).id, asking[0].number());
}

TEST_P(ConnectionsTest, EventsTakenAheadMoveWithTheirId) {
  Program program(open());
  CmChannel other = must(program.manager.create_channel());
  CmId one = program.id(), two = program.id(), three = program.id();
  for (CmId* id : {&one, &two, &three}) must(id->resolve_addr(std::nullopt, address(1, 4061), kCmPatience));
  EXPECT_TRUE(world_.run_until([&] {
    int waiting = 0;
    return ioctl(program.channel.fd(), FIONREAD, &waiting) == 0 && waiting == 3;
  }));
  EXPECT_EQ(program.expect(CmEventType::addr_resolved).id, one.number());
  must(two.migrate(other));
  const auto moved = other.wait(kCmPatience);
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->id, two.number());
  EXPECT_EQ(program.expect(CmEventType::addr_resolved).id, three.number());
  EXPECT_EQ(program.channel.take(), std::nullopt);
  EXPECT_EQ(other.take(), std::nullopt);
}

TEST_P(ConnectionsTest, EventsOfIdsThatWentAreNeitherSeenNorCounted) {
  constexpr uint32_t kRounds = 300;
  Program program(open());
  CmId kept = program.id();
  const auto waiting = [&] {
    int bytes = 0;
    EXPECT_EQ(ioctl(program.channel.fd(), FIONREAD, &bytes), 0);
    return bytes;
  };
  for (uint32_t i = 0; i < kRounds; ++i) {
    CmId gone = program.id();
    must(gone.resolve_addr(std::nullopt, address(1, 4063), kCmPatience));
    ASSERT_TRUE(world_.run_until([&] { return waiting() == 1; })) << i;
  }
  EXPECT_EQ(waiting(), 0);
  must(kept.resolve_addr(std::nullopt, address(1, 4063), kCmPatience));
  EXPECT_EQ(program.expect(CmEventType::addr_resolved).id, kept.number());
  EXPECT_EQ(program.channel.take(), std::nullopt);
}

TEST_P(ConnectionsTest, TheStateOfAnEventIsStaleAfterTheNextCall) {
  Program client(open());
  CmId id = resolved(client, address(1, 4062));
  EXPECT_EQ(must(id.info()).traffic_class, 0);
  must(id.set_type_of_service(0x20));
  EXPECT_EQ(must(id.info()).traffic_class, 0x20);
  EXPECT_EQ(must(id.qp_attr(QpState::init)).first.state, QpState::init);
  EXPECT_EQ(id.qp_attr(QpState::rtr).error().code, EINVAL);
}

TEST_P(ConnectionsTest, AThousandConnectionsAndNothingIsLeft) {
  constexpr std::size_t kCount = 1000;
  Program server(open()), client(open());
  CmId listener = server.id();
  must(listener.bind(address(1, 4060)));
  must(listener.listen(1024));
  {
    std::map<uint32_t, CmId> actives, passives;
    for (std::size_t i = 0; i < kCount; ++i) {
      CmId id = client.id();
      must(id.resolve_addr(std::nullopt, address(1, 4060), kCmPatience));
      const uint32_t number = id.number();
      actives.emplace(number, std::move(id));
    }
    std::size_t established = 0;
    while (established < kCount) {
      while (const auto event = client.channel.take()) {
        CmId& id = actives.at(event->id);
        if (event->type == CmEventType::addr_resolved) must(id.resolve_route(kCmPatience));
        if (event->type == CmEventType::route_resolved) must(id.connect({.qpn = 1000 + event->id}));
        if (event->type == CmEventType::connect_response) must(id.establish());
        ASSERT_NE(event->type, CmEventType::unreachable);
        ASSERT_NE(event->type, CmEventType::rejected) << event->status;
      }
      const auto event = server.channel.wait(10ms);
      if (!event) continue;
      if (event->type == CmEventType::connect_request) {
        CmId id = must(server.manager.adopt(*event));
        must(id.accept({.qpn = 5000 + event->id}));
        passives.emplace(event->id, std::move(id));
      }
      established += event->type == CmEventType::established ? 1 : 0;
    }
  }
  EXPECT_EQ(client.channel.take(), std::nullopt);
}

TEST_F(DaemonConnections, LimitsAndStrangersNumbers) {
  Program one(open()), other(open());
  std::vector<CmId> many;
  for (int i = 0; i < 3000; ++i) many.push_back(one.id());
  const auto beyond = one.manager.create_id(one.channel, PortSpace::tcp, QpType::rc);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, ENOMEM);
  EXPECT_NE(beyond.error().text.find("max_cm_id"), std::string::npos);
  EXPECT_EQ(other.manager.adopt({.id = many[0].number()}).error().code, EINVAL);
  EXPECT_EQ(many[0].connect({.private_data = std::vector<std::byte>(57)}).error().code, EINVAL);
}

/// Programs that have their devices themselves.
class InProcessConnections : public ConnectionsTest {};

TEST_P(InProcessConnections, ProgramsOutliveTheirManager) {
  Program server(open()), client(open());
  CmId listener = server.id();
  must(listener.bind(address(1, 4070)));
  must(listener.listen(8));
  CmId active = resolved(client, address(1, 4070));
  must(active.connect({.qpn = 5}));
  CmId passive = must(server.manager.adopt(server.expect(CmEventType::connect_request)));
  stop_connections();
  std::set<uint32_t> removed;
  while (const auto event = server.channel.wait(kCmPatience)) {
    EXPECT_EQ(event->type, CmEventType::device_removal);
    removed.insert(event->id);
  }
  EXPECT_EQ(removed, (std::set{listener.number(), passive.number()}));
  test::expect_error(active.connect({.qpn = 5}), ENODEV, "has ended");
  test::expect_error(client.manager.create_id(client.channel, PortSpace::tcp, QpType::rc), ENODEV, "has ended");
  test::expect_error(client.manager.create_channel(), ENODEV, "has ended");
}

// A control call polls the engines and takes the manager's turns while it has the lock that moving a queue pair needs.
TEST_P(InProcessConnections, AQueuePairIsConnectedAfterTheCallThatPolls) {
  Program server(open(1)), client(open(0));
  Side a = side(0);
  CmId listener = server.id();
  must(listener.bind(address(1, 4000)));
  must(listener.listen(8));
  CmId active = resolved(client, address(1, 4000));
  auto qa = a.make_qp();
  to_init(active, qa);
  must(active.connect({.qpn = qa.qpn()}, qa));
  CmId passive = must(server.manager.adopt(server.expect(CmEventType::connect_request)));
  must(passive.accept({.qpn = 101}));
  for (int i = 0; i < 1000; ++i) (void)must(qa.query());
  client.expect(CmEventType::established);
}

// A thread that makes calls may have to wait for the engines, which only the other thread polls.
TEST_P(InProcessConnections, ThreadsMakeCallsWhileAnotherPolls) {
  constexpr int kRounds = 40;
  Program server(open());
  CmId listener = server.id();
  must(listener.bind(address(1, 4072)));
  must(listener.listen(64));
  const auto until = std::chrono::steady_clock::now() + kCmPatience;
  const auto too_late = [until] { return std::chrono::steady_clock::now() > until; };
  std::atomic<int> running{2};
  std::atomic<uint32_t> qpn{100};  // one that is used twice would be a stale connection
  const auto connect_again_and_again = [&] {
    Program client(open());
    for (int i = 0; i < kRounds; ++i) {
      CmId id = client.id();
      must(id.resolve_addr(std::nullopt, address(1, 4072), kCmPatience));
      for (bool refused = false; !refused && !too_late();) {
        const auto event = client.channel.take();
        if (!event) {
          std::this_thread::yield();
          continue;
        }
        if (event->type == CmEventType::addr_resolved) must(id.resolve_route(kCmPatience));
        if (event->type == CmEventType::route_resolved) must(id.connect({.qpn = qpn++}));
        refused = event->type == CmEventType::rejected;
      }
    }
    --running;
  };
  std::thread one(connect_again_and_again), two(connect_again_and_again);
  int refused = 0;
  while (running > 0) {  // also when it is too late: they may wait for the engines
    const auto event = server.channel.wait(1ms);
    if (!event) continue;
    EXPECT_EQ(event->type, CmEventType::connect_request);
    must(must(server.manager.adopt(*event)).reject({}));
    ++refused;
  }
  one.join();
  two.join();
  EXPECT_EQ(refused, 2 * kRounds);
}

std::string name_of(const testing::TestParamInfo<Way>& info) {
  constexpr const char* kNames[] = {"Daemon", "Process", "Embedded"};
  return kNames[static_cast<std::size_t>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Ways, ConnectionsTest, testing::Values(Way::daemon, Way::process, Way::embedded), name_of);
INSTANTIATE_TEST_SUITE_P(Ways, InProcessConnections, testing::Values(Way::process, Way::embedded), name_of);

}  // namespace
}  // namespace uroce::service
