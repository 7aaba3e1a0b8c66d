// rdma_cm's calls without a daemon: two devices on a wire and the manager's own thread. tests/unit/service has the
// calls through the daemon.
#include "cm/manager.h"

#include <cerrno>
#include <chrono>
#include <future>
#include <set>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include "cm/slowdown.h"
#include "control/cq.h"
#include "control/device_session.h"
#include "control/qp.h"
#include "control/region.h"
#include "message/cm_reject_reasons.h"
#include "tests/unit/control/world.h"

namespace uroce::cm {
namespace {

using test::World;
using namespace std::chrono_literals;

constexpr uint32_t kMostOfId = 128;
constexpr uint32_t kMostOfProgram = 32768;
const CmAddress kGroup{Gid::from_ipv4(0xef010203), 0};

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().text);
  return std::move(*result);
}
void must(const Result<void>& result) {
  if (!result) throw std::runtime_error(result.error().text);
}

class ManagerTest : public testing::Test {
 protected:
  explicit ManagerTest(Mtu first = Mtu::mtu1024, Mtu second = Mtu::mtu1024) {
    world_.add({.max_path_mtu = first});
    world_.add({.max_path_mtu = second});
    manager_ = must(Manager::start({world_.device(0), world_.device(1)}, 7));
  }
  ~ManagerTest() override {
    manager_.reset();
    world_.stop();
  }

  /// A program with one channel.
  struct Program {
    explicit Program(Manager& manager, uint32_t client = 0, uint32_t uid = transport::Owner::kNobody)
        : user(manager.open({.client = client, .user = uid})) {
      std::tie(channel, fd) = must(user->create_channel());
    }
    /// The next event, as a program reads it: a byte first.
    CmEvent next(std::chrono::milliseconds patience = 10s) { return next_record(patience).event; }
    message::CmEventRecord next_record(std::chrono::milliseconds patience = 10s) {
      pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
      char byte = 0;
      if (poll(&waiting, 1, static_cast<int>(patience.count())) != 1 || read(fd, &byte, 1) != 1) {
        throw std::runtime_error("no event came");
      }
      return must(user->take_events(channel, 1)).at(0);
    }
    /// The events until one of that type.
    CmEvent until(CmEventType type) {
      while (true) {
        if (CmEvent event = next(); event.type == type) return event;
      }
    }
    /// Connects `id` with the program that listens; `server` has answered when this returns. The id of the request.
    uint32_t connect(uint32_t id, Program& server) {
      must(user->connect(id, {.qpn = 100}));
      const CmEvent request = server.until(CmEventType::connect_request);
      must(server.user->accept(request.id, {.qpn = 101}));
      until(CmEventType::connect_response);
      must(user->establish(id));
      return request.id;
    }
    /// A UD id of the first device.
    uint32_t datagram_id() {
      const uint32_t id = must(user->create_id(channel, PortSpace::udp, QpType::ud));
      must(user->bind(id, {World::gid(0), 0}));
      return id;
    }
    /// Joins and leaves a group, which raises an event.
    Result<void> raise(uint32_t id) {
      if (auto joined = user->join(id, kGroup, 1); !joined) return joined;
      return user->leave(id, kGroup);
    }
    /// Raises events until the limit of all ids. Returns the id of the last.
    uint32_t fill() {
      uint32_t id = 0;
      for (uint32_t i = 0; i < kMostOfProgram; ++i) {
        if (i % kMostOfId == 0) id = datagram_id();
        const auto raised = raise(id);
        if (!raised) return id;
      }
      return id;
    }
    /// Resolved from the first device to `remote`; the events are read.
    uint32_t resolved(const CmAddress& remote, PortSpace space = PortSpace::tcp, QpType type = QpType::rc) {
      const uint32_t id = must(user->create_id(channel, space, type));
      must(user->resolve_addr(id, std::nullopt, remote, 2s));
      until(CmEventType::addr_resolved);
      must(user->resolve_route(id));
      until(CmEventType::route_resolved);
      return id;
    }
    /// As resolved(), from `service`'s own address: another peer, whose Ethernet address needs no looking up.
    uint32_t resolved_at_home(const CmAddress& service) {
      const uint32_t id = must(user->create_id(channel, PortSpace::tcp, QpType::rc));
      must(user->resolve_addr(id, CmAddress{service.ip, 0}, service, 2s));
      until(CmEventType::addr_resolved);
      must(user->resolve_route(id));
      until(CmEventType::route_resolved);
      return id;
    }
    uint32_t listening(const CmAddress& local, int backlog = 16, PortSpace space = PortSpace::tcp,
                       QpType type = QpType::rc) {
      const uint32_t id = must(user->create_id(channel, space, type));
      must(user->bind(id, local));
      must(user->listen(id, backlog));
      return id;
    }

    std::unique_ptr<ManagerUser> user;
    uint32_t channel = 0;
    int fd = -1;
  };

  static Gid link_local(std::size_t n) {
    Gid gid;
    gid.bytes[0] = 0xfe;
    gid.bytes[1] = 0x80;
    gid.bytes[15] = static_cast<uint8_t>(n + 1);
    return gid;
  }
  uint64_t counter(std::size_t device, const std::string& name) const {
    for (const auto& [known, value] : manager_->counters(world_.device(device)->config().name)) {
      if (known == name) return value;
    }
    throw std::runtime_error("no counter " + name);
  }

  /// The id of a connection whose request has arrived at device 1, which cannot answer it until `unanswered` ends.
  uint32_t request_without_answer(Program& client, const CmAddress& service) {
    const uint32_t id = client.resolved(service);
    world_.port(1).unanswered = true;
    must(client.user->connect(id, {.qpn = 100}));
    if (!world_.run_until([&] { return counter(1, "cm_req_received") == 1; })) throw std::runtime_error("no REQ came");
    return id;
  }

  /// Connects two programs, and checks the path MTU that either has for its queue pair.
  void expect_path_mtu(Mtu expected) {
    Program server(*manager_), client(*manager_);
    const CmAddress service{World::gid(1), 4711};
    server.listening(service);
    const uint32_t id = client.resolved(service);
    const uint32_t passive = client.connect(id, server);
    EXPECT_EQ(must(client.user->qp_attr(id, QpState::rtr)).first.path_mtu, expected);
    EXPECT_EQ(must(server.user->qp_attr(passive, QpState::rtr)).first.path_mtu, expected);
  }

  /// A queue pair of a device, before INIT.
  std::shared_ptr<control::ControlQp> queue_pair(std::size_t device) const {
    auto session = must(control::DeviceSession::open(world_.device(device)));
    auto cq = must(session->create_cq(16, nullptr));
    return must(session->create_qp(must(session->create_pd()), cq, cq, {}, nullptr));
  }
  /// A connection with a queue pair of the first device. The peer's answer waits there until `unanswered` ends.
  struct Answered {
    std::shared_ptr<control::ControlQp> qp;
    uint32_t id;       // of the client
    uint32_t passive;  // of the server
  };
  Answered answered_without_address(Program& client, Program& server) {
    const CmAddress service{World::gid(1), 4711};
    server.listening(service);
    Answered out{.qp = queue_pair(0), .id = client.resolved(service), .passive = 0};
    const auto [attr, mask] = must(client.user->qp_attr(out.id, QpState::init));
    must(out.qp->modify(attr, mask));
    must(client.user->connect_qp(out.id, {.qpn = out.qp->qpn()}, out.qp));
    out.passive = server.until(CmEventType::connect_request).id;
    world_.port(0).unanswered = true;
    const int before = world_.port(0).resolves;
    must(server.user->accept(out.passive, {.qpn = 101}));
    if (!world_.run_until([&] { return world_.port(0).resolves > before; })) throw std::runtime_error("no REP came");
    return out;
  }

  /// Lets the address be known while the engine stands still. True once the manager waits for that engine.
  bool freeze_while_moving() {
    auto& port = world_.port(0);
    port.frozen = true;
    const int before = port.steps;
    port.unanswered = false;
    return world_.run_until([&] { return port.steps > before; });
  }

  World world_{World::Mode::threaded};
  std::unique_ptr<Manager> manager_;
};

class LargerMtuOfTheClient : public ManagerTest {
 protected:
  LargerMtuOfTheClient() : ManagerTest(Mtu::mtu4096, Mtu::mtu1024) {}
};
class LargerMtuOfTheServer : public ManagerTest {
 protected:
  LargerMtuOfTheServer() : ManagerTest(Mtu::mtu1024, Mtu::mtu4096) {}
};

// A program had 206,683 events waiting after 10 s of joining one group.
TEST_F(ManagerTest, UnreadEventsOfAnIdAreBounded) {
  Program program(*manager_);
  const uint32_t id = program.datagram_id();
  for (uint32_t i = 0; i < kMostOfId; ++i) must(program.raise(id));
  test::expect_error(program.raise(id), ENOMEM, "128 events that were not received");
  const auto resolving = program.user->resolve_addr(id, std::nullopt, {World::gid(1), 1}, 1s);
  test::expect_error(resolving, ENOMEM, "resolve_addr");
  must(program.raise(program.datagram_id()));
  program.next();
  must(program.raise(id));
  test::expect_error(program.raise(id), ENOMEM, "not received");
}

TEST_F(ManagerTest, AProgramRaisesEventsOfItsOwn) {
  Program program(*manager_);
  const uint32_t id = must(program.user->create_id(program.channel, PortSpace::tcp, QpType::rc));
  must(program.user->raise_event(id, CmEventType::user, -5, 0x0123'4567'89ab'cdef));
  const CmEvent event = program.next();
  EXPECT_EQ(event.type, CmEventType::user);
  EXPECT_EQ(event.id, id);
  EXPECT_EQ(event.status, -5);
  EXPECT_EQ(event.argument, 0x0123'4567'89ab'cdefu);

  test::expect_error(program.user->raise_event(id, CmEventType::established, 0, 0), EINVAL, "not a program's to raise");
  test::expect_error(program.user->raise_event(id, static_cast<CmEventType>(19), 0, 0), EINVAL, "type 19");
  test::expect_error(Program(*manager_).user->raise_event(id, CmEventType::user, 0, 0), EINVAL, "");
  for (uint32_t i = 0; i < kMostOfId; ++i) must(program.user->raise_event(id, CmEventType::user, 0, i));
  test::expect_error(program.user->raise_event(id, CmEventType::user, 0, 0), ENOMEM, "not received");
}

TEST_F(ManagerTest, UnreadEventsOfAProgramAreBoundedAndItsPeersAreToldSo) {
  const CmAddress service{World::gid(1), 4711};
  Program server(*manager_), client(*manager_);
  const uint32_t listener = server.listening(service);
  const uint32_t last = server.fill();
  const uint32_t fresh = server.datagram_id();
  test::expect_error(server.raise(fresh), ENOMEM, "32768 events that were not received");

  const uint32_t refused = client.resolved(service);
  must(client.user->connect(refused, {.qpn = 100}));
  EXPECT_EQ(client.until(CmEventType::rejected).status, static_cast<int>(RejReason::no_resources));

  must(server.user->destroy_id(last));  // and its events
  must(server.raise(fresh));
  const uint32_t heard = client.resolved(service);
  must(client.user->connect(heard, {.qpn = 101}));
  EXPECT_EQ(server.until(CmEventType::connect_request).listener, listener);
}

TEST_F(ManagerTest, AConnectionsOwnEventsComeBeyondTheBound) {
  const CmAddress service{World::gid(1), 4711};
  Program server(*manager_), client(*manager_);
  server.listening(service);
  const uint32_t id = client.resolved(service);
  const uint32_t passive = client.connect(id, server);
  server.until(CmEventType::established);

  server.fill();
  must(client.user->disconnect(id));
  client.until(CmEventType::disconnected);
  EXPECT_EQ(server.until(CmEventType::disconnected).id, passive);
}

// Linux takes a loopback address for the wildcard when it is bound (cma_any_addr()).
TEST_F(ManagerTest, ALoopbackAddressIsEveryDevices) {
  const CmAddress loopback{Gid::from_ipv4(0x7f000001), 4711};
  Program server(*manager_), client(*manager_);
  const uint32_t listener = server.listening(loopback);
  EXPECT_EQ(must(server.user->info(listener)).device, "") << "it belongs to no device";
  const uint32_t other = must(client.user->create_id(client.channel, PortSpace::tcp, QpType::rc));
  test::expect_error(client.user->bind(other, {World::gid(1), 4711}), EADDRINUSE, "in use");
  for (std::size_t device = 0; device < 2; ++device) {
    client.connect(client.resolved({World::gid(device), 4711}), server);
  }
}

TEST_F(ManagerTest, ListsAProgramsIds) {
  Program server(*manager_, 7), client(*manager_, 8);
  const uint32_t listener = server.listening({World::gid(0), 4711});
  const uint32_t on_all = server.listening({Gid{}, 4712});
  const auto rows = manager_->rows(7, 0, 10);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].id, listener);
  EXPECT_EQ(rows[0].state, "LISTEN");
  EXPECT_EQ(rows[0].space, PortSpace::tcp);
  EXPECT_EQ(rows[0].device, must(server.user->info(listener)).device);
  EXPECT_TRUE(rows[0].local.ends_with(":4711")) << rows[0].local;
  EXPECT_EQ(rows[0].remote, "");
  EXPECT_EQ(rows[1].device, "");
  EXPECT_EQ(manager_->rows(7, 0, 1).size(), 1U);
  EXPECT_EQ(manager_->rows(7, listener, 10).at(0).id, on_all);
  EXPECT_TRUE(manager_->rows(8, 0, 10).empty());
  client.connect(client.resolved({World::gid(0), 4711}), server);
  EXPECT_EQ(manager_->rows(8, 0, 10).at(0).state, "CONNECT");
  EXPECT_TRUE(manager_->rows(8, 0, 10).at(0).remote.ends_with(":4711"));
  EXPECT_EQ(manager_->rows(7, 0, 10).size(), 3U);
}

// The first device's connection with itself, whose addresses programs see as 127.0.0.1 (cma_resolve_loopback()).
TEST_F(ManagerTest, ALoopbackAddressIsResolvedToTheDeviceItself) {
  const CmAddress loopback{Gid::from_ipv4(0x7f000001), 4711};
  Program server(*manager_), client(*manager_);
  server.listening(loopback);
  const uint32_t active = client.resolved(loopback);
  const CmIdInfo info = must(client.user->info(active));
  EXPECT_EQ(info.device, must(client.user->info(client.resolved({World::gid(1), 1}))).device);
  EXPECT_EQ(info.sgid, World::gid(0));
  EXPECT_EQ(info.dgid, World::gid(0));
  EXPECT_EQ(info.local.ip, loopback.ip);
  EXPECT_EQ(info.remote.ip, loopback.ip);
  const uint32_t passive = client.connect(active, server);
  EXPECT_EQ(must(server.user->info(passive)).local.ip, loopback.ip);
  EXPECT_EQ(must(server.user->info(passive)).dgid, World::gid(0));
}

// Linux: 0, which is 655.36 ms. With code 12 (0.64 ms) a peer gave up before a busy program had posted its receives.
TEST_F(ManagerTest, AReceiverNotReadyIsWaitedForAsOnLinux) {
  const CmAddress service{World::gid(1), 4711};
  Program server(*manager_), client(*manager_);
  server.listening(service);
  const uint32_t passive = client.connect(client.resolved(service), server);
  const auto [attr, mask] = must(server.user->qp_attr(passive, QpState::rtr));
  EXPECT_TRUE(mask.has(QpAttrBit::min_rnr_timer));
  EXPECT_EQ(attr.min_rnr_timer, 0);
}

TEST_F(ManagerTest, TheHalvesOfAnExtendedConnectionGetTheirAttributes) {
  const CmAddress service{World::gid(1), 4711};
  Program server(*manager_), client(*manager_);
  server.listening(service, 16, PortSpace::ib, QpType::xrc_target);
  const uint32_t active = client.resolved(service, PortSpace::ib, QpType::xrc_initiator);
  const uint32_t passive = client.connect(active, server);
  using enum QpAttrBit;
  const auto has = [](Program& program, uint32_t id, QpState state) {
    return must(program.user->qp_attr(id, state)).second;
  };
  const QpAttrMask both = QpAttrMask(timeout) | sq_psn | state;
  EXPECT_EQ(has(client, active, QpState::rts), both | retry_cnt | rnr_retry | max_rd_atomic);
  EXPECT_EQ(has(server, passive, QpState::rts), both);
  const QpAttrMask peer = QpAttrMask(state) | av | path_mtu | dest_qpn | rq_psn;
  EXPECT_EQ(has(client, active, QpState::rtr), peer);
  EXPECT_EQ(has(server, passive, QpState::rtr), peer | max_dest_rd_atomic | min_rnr_timer);
  EXPECT_EQ(must(client.user->qp_attr(active, QpState::rtr)).first.dest_qpn, 101u);
  EXPECT_EQ(must(server.user->qp_attr(passive, QpState::rtr)).first.dest_qpn, 100u);
}

TEST_F(ManagerTest, AnExtendedConnectionIsForItsOwnListeners) {
  const CmAddress service{World::gid(1), 4711};
  Program server(*manager_), client(*manager_);
  server.listening(service, 16, PortSpace::ib, QpType::xrc_target);
  const uint32_t plain = client.resolved(service, PortSpace::ib, QpType::rc);
  must(client.user->connect(plain, {.qpn = 100}));
  EXPECT_EQ(client.until(CmEventType::rejected).status, static_cast<int>(message::RejReason::invalid_service_id));
  const uint32_t target = client.resolved(service, PortSpace::ib, QpType::xrc_target);
  test::expect_error(client.user->connect(target, {.qpn = 100}), EINVAL, "target");
  test::expect_error(client.user->create_id(client.channel, PortSpace::tcp, QpType::xrc_initiator), EINVAL,
                     "port space IB");
}

// A program does not hear that a call which it was told is welcome was refused.
TEST_F(ManagerTest, NoCallIsWelcomeThatIsRefused) {
  const CmAddress service{World::gid(1), 4711};
  Program server(*manager_), client(*manager_);
  const uint32_t target = must(client.user->create_id(client.channel, PortSpace::ib, QpType::xrc_target));
  must(client.user->resolve_addr(target, std::nullopt, service, 2s));
  EXPECT_TRUE(client.next_record().welcome.has(message::CmCall::resolve_route));
  must(client.user->resolve_route(target));
  EXPECT_FALSE(client.next_record().welcome.has(message::CmCall::connect));

  server.listening(service, 16, PortSpace::udp, QpType::ud);
  const uint32_t datagrams = client.resolved(service, PortSpace::udp, QpType::ud);
  must(client.user->connect(datagrams, {.qpn = 100}));
  must(server.user->accept(server.until(CmEventType::connect_request).id, {.qpn = 101}));
  const auto record = client.next_record();
  EXPECT_EQ(record.event.type, CmEventType::established);
  EXPECT_FALSE(record.welcome.has(message::CmCall::disconnect));
}

// Linux, from 6.2 on: a peer that may READ may FLUSH.
TEST_F(ManagerTest, APeerThatMayReadMayFlush) {
  const CmAddress service{World::gid(1), 4711};
  Program server(*manager_), client(*manager_);
  server.listening(service);
  for (const uint8_t reads : {uint8_t{0}, uint8_t{4}}) {
    const uint32_t id = client.resolved(service);
    must(client.user->connect(id, {.responder_resources = reads, .qpn = 100u + reads}));
    const auto [attr, mask] = must(client.user->qp_attr(id, QpState::init));
    EXPECT_TRUE(mask.has(QpAttrBit::access_flags));
    EXPECT_TRUE(attr.access.has(Access::remote_write));
    EXPECT_EQ(attr.access.has(Access::remote_read), reads != 0);
    EXPECT_EQ(attr.access.has(Access::flush_global), reads != 0);
  }
}

// rdma_set_local_ece(3): the options of programs that bring their own queue pairs.
TEST_F(ManagerTest, OptionsOfAVendorReachThePeer) {
  const CmAddress service{World::gid(1), 4711};
  Program server(*manager_), client(*manager_);
  server.listening(service);
  const uint32_t id = client.resolved(service);
  test::expect_error(client.user->connect(id, {.qpn = 100, .ece_vendor = 0x1000000}), EINVAL, "ECE vendor");
  must(client.user->connect(id, {.qpn = 100, .ece_vendor = 0x123456, .ece_options = 0xabcdef01}));
  const CmEvent request = server.until(CmEventType::connect_request);
  EXPECT_EQ(request.param.ece_vendor, 0x123456u);
  EXPECT_EQ(request.param.ece_options, 0xabcdef01u);
  must(server.user->accept(request.id, {.qpn = 101, .ece_vendor = 0x123456, .ece_options = 1}));
  const CmEvent response = client.until(CmEventType::connect_response);
  EXPECT_EQ(response.param.ece_vendor, 0x123456u);
  EXPECT_EQ(response.param.ece_options, 1u);
}

// The program's modify to RTR would wait for the network.
TEST_F(ManagerTest, ARequestIsReportedOnceItsPeerCanBeAnswered) {
  const CmAddress service{World::gid(1), 4711};
  Program server(*manager_), client(*manager_);
  const uint32_t listener = server.listening(service);
  request_without_answer(client, service);
  const int before = world_.port(1).resolves;
  ASSERT_TRUE(world_.run_until([&] { return world_.port(1).resolves > before + 2; }));
  EXPECT_TRUE(must(server.user->take_events(server.channel, 1)).empty());
  // Another peer's request does not wait for it.
  must(client.user->connect(client.resolved_at_home(service), {.qpn = 102}));
  EXPECT_EQ(server.until(CmEventType::connect_request).param.qpn, 102u);

  const auto [channel, fd] = must(server.user->create_channel());
  must(server.user->migrate(listener, channel, 0));
  server.channel = channel, server.fd = fd;
  world_.port(1).unanswered = false;
  const CmEvent request = server.until(CmEventType::connect_request);
  EXPECT_EQ(request.param.qpn, 100u);
  must(server.user->accept(request.id, {.qpn = 101}));
  client.until(CmEventType::connect_response);
}

// The server took the smaller MTU, and the client kept its own: what the client sent was too long for the server's
// link.
TEST_F(LargerMtuOfTheClient, BothTakeTheSmaller) {
  expect_path_mtu(Mtu::mtu1024);
  EXPECT_EQ(counter(0, "cm_rej_received"), 1u);
}
TEST_F(LargerMtuOfTheServer, BothTakeTheSmaller) {
  expect_path_mtu(Mtu::mtu1024);
  EXPECT_EQ(counter(0, "cm_rej_received"), 0u);
}

TEST_F(ManagerTest, ARequestThatCannotBeAnsweredEndsWithItsListener) {
  const CmAddress service{World::gid(1), 4711};
  Program server(*manager_), client(*manager_);
  const uint32_t listener = server.listening(service);
  const uint32_t id = request_without_answer(client, service);
  must(server.user->destroy_id(listener));
  world_.port(1).unanswered = false;
  EXPECT_EQ(client.until(CmEventType::rejected).id, id);
}

// The id was taken for one that resolves an address: its program could connect it again, and the first connection's
// record then referred to an id that could be destroyed.
TEST_F(ManagerTest, AnAnswerThatWaitsEndsWithItsConnection) {
  Program server(*manager_), client(*manager_);
  const Answered one = answered_without_address(client, server);
  must(server.user->disconnect(one.passive));
  EXPECT_EQ(client.next().type, CmEventType::disconnected);
  world_.port(0).unanswered = false;
  EXPECT_EQ(client.next().type, CmEventType::timewait_exit);
  test::expect_error(client.user->connect(one.id, {.qpn = 100}), EINVAL, "disconnected");
}

TEST_F(ManagerTest, AnAnswerThatWaitsIsForgottenByOneWhoDisconnects) {
  Program server(*manager_), client(*manager_);
  const Answered one = answered_without_address(client, server);
  must(client.user->disconnect(one.id));
  world_.port(0).unanswered = false;
  EXPECT_EQ(client.next().type, CmEventType::disconnected);
  EXPECT_EQ(client.next().type, CmEventType::timewait_exit);
  EXPECT_EQ(must(one.qp->query()).state, QpState::init);
}

TEST_F(ManagerTest, AnAnswerThatWaitsIsForgottenByOneWhoRejects) {
  Program server(*manager_), client(*manager_);
  const Answered one = answered_without_address(client, server);
  must(client.user->reject(one.id, {}, static_cast<uint8_t>(RejReason::consumer_reject)));
  world_.port(0).unanswered = false;
  EXPECT_EQ(server.next().type, CmEventType::rejected);
  EXPECT_EQ(must(one.qp->query()).state, QpState::init);
  EXPECT_THROW(client.next(100ms), std::runtime_error);
}

TEST_F(ManagerTest, AnAnswerThatWaitsIsForgottenByOneWhoEstablishes) {
  Program server(*manager_), client(*manager_);
  const Answered one = answered_without_address(client, server);
  must(client.user->establish(one.id));
  world_.port(0).unanswered = false;
  server.until(CmEventType::established);
  EXPECT_THROW(client.next(100ms), std::runtime_error);
  EXPECT_EQ(must(one.qp->query()).state, QpState::init);
}

// One user's engine that stood still stopped all users' calls for 5 s.
TEST_F(ManagerTest, AnEngineThatStandsStillStopsNobodysCalls) {
  Program server(*manager_), client(*manager_);
  const Answered one = answered_without_address(client, server);
  ASSERT_TRUE(freeze_while_moving()) << "the manager waits for the engine";
  auto call = std::async(std::launch::async, [&] { return server.user->info(one.passive).has_value(); });
  EXPECT_EQ(call.wait_for(3s), std::future_status::ready);
  world_.port(0).frozen = false;
  EXPECT_TRUE(call.get());
  EXPECT_EQ(client.next().type, CmEventType::established);
  EXPECT_EQ(must(one.qp->query()).state, QpState::rts);
}

TEST_F(ManagerTest, AnIdMayEndWhileItsQueuePairIsMoved) {
  Program server(*manager_), client(*manager_);
  const Answered one = answered_without_address(client, server);
  ASSERT_TRUE(freeze_while_moving()) << "the manager waits for the engine";
  must(client.user->destroy_id(one.id));
  world_.port(0).frozen = false;
  EXPECT_EQ(server.next().type, CmEventType::rejected);
  EXPECT_THROW(client.next(100ms), std::runtime_error);
}

TEST_F(ManagerTest, AProgramThatDestroysAQueuePairStopsNobodysCalls) {
  Program server(*manager_), client(*manager_);
  const Answered one = answered_without_address(client, server);
  auto keep = client.user->keep_queue_pairs();
  world_.port(0).unanswered = false;
  EXPECT_THROW(client.next(100ms), std::runtime_error);
  auto call = std::async(std::launch::async, [&] { return server.user->info(one.passive).has_value(); });
  EXPECT_EQ(call.wait_for(3s), std::future_status::ready);
  keep.unlock();
  EXPECT_TRUE(call.get());
  EXPECT_EQ(client.next().type, CmEventType::established);
}

// A program that guessed the id could accept a request that it had not heard of.
TEST_F(ManagerTest, ARequestThatCannotBeAnsweredCannotBeAccepted) {
  const CmAddress service{World::gid(1), 4711};
  Program server(*manager_), client(*manager_);
  server.listening(service);
  const uint32_t id = request_without_answer(client, service);
  test::expect_error(server.user->accept(id + 1, {.qpn = 101}), EINVAL, "held back");
}

TEST_F(ManagerTest, AddressesAreResolvedForWhoAsks) {
  const CmAddress service{World::gid(1), 4711};
  Program server(*manager_, 1, 1001), client(*manager_, 2, 1000);
  server.listening(service);
  client.resolved(service);
  EXPECT_EQ(world_.port(0).resolved_for, 1000u);
  request_without_answer(client, service);
  EXPECT_TRUE(world_.run_until([&] { return world_.port(1).resolved_for == transport::Owner::kNobody; }))
      << "a peer asks, not the listener's user";
}

// Requests in the name of silent hosts kept all others out for 3 s.
TEST_F(ManagerTest, RequestsThatCannotBeAnsweredLeaveTheBacklogToOthers) {
  Program server(*manager_), client(*manager_);
  server.listening({Gid{}, 4711}, 2);
  const uint32_t first = client.resolved({World::gid(1), 4711}), second = client.resolved({link_local(1), 4711});
  world_.port(1).unanswered = true;
  must(client.user->connect(first, {.qpn = 100}));
  must(client.user->connect(second, {.qpn = 101}));
  ASSERT_TRUE(world_.run_until([&] { return counter(1, "cm_req_received") == 2; }));
  const uint32_t known = client.resolved_at_home({World::gid(1), 4711});
  must(client.user->connect(known, {.qpn = 102}));
  EXPECT_EQ(server.until(CmEventType::connect_request).param.qpn, 102u);
  world_.port(1).unanswered = false;
  std::set<uint32_t> later;
  for (int i = 0; i < 2; ++i) later.insert(server.until(CmEventType::connect_request).param.qpn);
  EXPECT_EQ(later, (std::set<uint32_t>{100, 101}));
}

TEST_F(ManagerTest, ARequestThatCanBeAnsweredFindsAFullBacklog) {
  const CmAddress service{World::gid(1), 4711};
  Program server(*manager_), client(*manager_);
  server.listening(service, 1);
  request_without_answer(client, service);
  must(client.user->connect(client.resolved_at_home(service), {.qpn = 102}));
  ASSERT_TRUE(world_.run_until([&] { return counter(1, "cm_req_received") == 2; }));
  world_.port(1).unanswered = false;
  ASSERT_TRUE(world_.run_until([&] { return counter(1, "cm_backlog_full") == 1; }));
  EXPECT_EQ(server.until(CmEventType::connect_request).param.qpn, 102u);
  EXPECT_TRUE(must(server.user->take_events(server.channel, 1)).empty());
}

// The backlogs of a port's listeners were one sum.
TEST_F(ManagerTest, AListenersBacklogIsNotFilledByRequestsForAnother) {
  const CmAddress service{World::gid(1), 4711}, other{link_local(1), 4711};
  Program server(*manager_), other_server(*manager_), client(*manager_);
  server.listening(service, 1);
  const uint32_t listener = other_server.listening(other, 1);
  for (uint32_t qpn = 100; qpn < 102; ++qpn) must(client.user->connect(client.resolved(service), {.qpn = qpn}));
  ASSERT_TRUE(world_.run_until([&] { return counter(1, "cm_backlog_full") == 1; }));
  must(client.user->connect(client.resolved(other), {.qpn = 102}));
  EXPECT_EQ(other_server.until(CmEventType::connect_request).listener, listener);
}

TEST_F(ManagerTest, APeerThatFillsABacklogLosesItsNewestRequestToAnother) {
  const CmAddress service{World::gid(1), 4711};
  Program server(*manager_), client(*manager_);
  server.listening(service, 2);
  for (uint32_t qpn = 100; qpn < 102; ++qpn) must(client.user->connect(client.resolved(service), {.qpn = qpn}));
  ASSERT_TRUE(world_.run_until([&] { return counter(1, "cm_req_received") == 2; }));
  must(client.user->connect(client.resolved_at_home(service), {.qpn = 102}));
  ASSERT_TRUE(world_.run_until([&] { return counter(1, "cm_withdrawn") == 1; }));
  EXPECT_EQ(server.until(CmEventType::connect_request).param.qpn, 100u);
  EXPECT_EQ(server.until(CmEventType::connect_request).param.qpn, 102u);
}

// Without the bytes that did not fit, a program sleeps while events wait.
TEST_F(ManagerTest, EventsBeyondThePipesSizeWakeTheProgram) {
  Program program(*manager_);
  ASSERT_GE(fcntl(program.fd, F_SETPIPE_SZ, 4096), 0);
  constexpr uint32_t kIds = 80;
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < kIds; ++i) {
    ids.push_back(program.datagram_id());
    for (uint32_t k = 0; k < kMostOfId; ++k) must(program.raise(ids.back()));
  }
  must(program.user->destroy_id(ids.back()));
  for (uint32_t i = 0; i < (kIds - 1) * kMostOfId; ++i) {
    ASSERT_EQ(program.next().type, CmEventType::multicast_join) << i;
  }
  EXPECT_THROW(program.next(1ms), std::runtime_error);
}

// On RC a wrong key ends the connection. The guesser simply connected again, 12,000 times in a second.
TEST_F(ManagerTest, APeerWhoseConnectionsEndByWrongKeysConnectsMoreSlowly) {
  constexpr uint32_t kAlice = 1000, kBob = 2000;
  const CmAddress service{World::gid(1), 4711}, other{World::gid(1), 4712};
  Program server(*manager_, 1, kAlice), other_server(*manager_, 2, kBob), client(*manager_);
  server.listening(service, 1000);
  other_server.listening(other, 1000);
  auto session = must(control::DeviceSession::open(world_.device(1), nullptr, {.user = kAlice}));
  auto cq = must(session->create_cq(16, nullptr));
  auto qp = must(session->create_qp(must(session->create_pd()), cq, cq, {}, nullptr));
  uint32_t connections = 0;
  while (counter(1, "cm_slowed") == 0 && connections < 1000) {
    const uint64_t seen = counter(1, "cm_req_received");
    must(client.user->connect(client.resolved(service), {.qpn = 100 + connections}));
    ASSERT_TRUE(world_.run_until([&] { return counter(1, "cm_req_received") > seen; }));
    (void)manager_->guesses(world_.device(1)->config().name);  // It takes the lock: the turn that counted has ended.
    if (counter(1, "cm_slowed") != 0) break;
    EXPECT_EQ(server.until(CmEventType::connect_request).param.qpn, 100 + connections);
    ++connections;
    world_.device(1)->events().on_wrong_key(World::gid(0), qp->qpn());
  }
  EXPECT_GE(connections, Slowdown::kWrong + Slowdown::kAtOnce);
  EXPECT_LT(connections, 1000u);
  const Slowed slowed = manager_->slowed(world_.device(1)->config().name);
  EXPECT_EQ(slowed.requests, counter(1, "cm_slowed"));
  EXPECT_EQ(slowed.last, World::gid(0));
  // Another user's service is as near as before.
  must(client.user->connect(client.resolved(other), {.qpn = 5000}));
  EXPECT_EQ(other_server.until(CmEventType::connect_request).param.qpn, 5000u);
  // The request that was dropped gets through when it is repeated.
  EXPECT_EQ(server.until(CmEventType::connect_request).param.qpn, 100 + connections);
}

}  // namespace
}  // namespace uroce::cm
