// XRC between programs: clients of a server in this process that pass descriptors of one file.
#include <cerrno>
#include <optional>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <uroce/daemon.h>

#include "message/connection.h"
#include "service/server.h"
#include "tests/unit/client/endpoints.h"
#include "tests/unit/service/server_place.h"

namespace uroce::service {
namespace {

using test::connect;
using test::expect_error;
using test::must;
using test::next;
using test::Side;
using test::World;

class XrcServerTest : public testing::Test {
 protected:
  XrcServerTest() {
    world_.add();
    world_.add();
    start({});
    file_ = memfd_create("xrc", MFD_CLOEXEC);
  }
  ~XrcServerTest() override {
    close(file_);
    server_.reset();
    world_.stop();
  }
  void start(const Limits& limits) {
    server_.reset();
    server_ = must(Server::start({.socket = socket_, .budgets = {.limits = limits, .users = {}}},
                                 {world_.device(0), world_.device(1)}, [](Severity, std::string_view) {}));
  }
  /// Each in a program of its own: the same socket by another name.
  Context open(std::size_t n) {
    return must(open_daemon_device(world_.device(n)->config().name, {place_.another_program()}));
  }

  ServerPlace place_{"xrc"};
  const std::string socket_ = place_.socket();
  World world_{World::Mode::threaded};
  std::unique_ptr<Server> server_;
  int file_ = -1;
};

TEST_F(XrcServerTest, ProgramsShareADomainAndItsConnections) {
  Side from(open(0));
  std::optional<Side> first(open(1));
  Side second(open(1));
  std::optional domain(must(first->context.open_xrc_domain({.fd = file_, .exclusive = true})));
  auto same = must(second.context.open_xrc_domain({.fd = file_, .create = false}));
  std::optional target(must(first->context.create_xrc_target(*domain)));
  auto qp = from.make_qp({.type = QpType::xrc_initiator});
  connect(from, qp, *first, *target);
  auto opened = must(second.context.open_xrc_target(same, target->qpn()));
  auto queue = must(second.context.create_xrc_srq(second.pd, same, second.cq, 16, 2));
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(queue.post_recv({.wr_id = 8, .sges = std::array{second.mr.sge(0, 100)}}), 0);
    ASSERT_EQ(qp.post_send({.opcode = WrOpcode::send,
                            .flags = SendFlag::signaled,
                            .sges = std::array{from.mr.sge(0, 100)},
                            .remote_srqn = queue.id()}),
              0);
    const auto received = next(world_, second.cq);
    EXPECT_EQ(received.wr_id, 8u);
    EXPECT_EQ(received.qpn, opened.qpn());
    EXPECT_EQ(next(world_, from.cq).status, WcStatus::success);
    // The program that has made the connection goes, and the connection stays.
    target.reset();
    domain.reset();
    first.reset();
  }
  EXPECT_EQ(must(opened.query()).state, QpState::rts);
}

TEST_F(XrcServerTest, AProgramThatEndsGivesUpWhatItHas) {
  Side second(open(1));
  auto same = must(second.context.open_xrc_domain({.fd = file_}));
  uint32_t qpn = 0;
  {
    Side first(open(1));
    auto domain = must(first.context.open_xrc_domain({.fd = file_, .create = false}));
    auto target = must(first.context.create_xrc_target(domain));
    qpn = target.qpn();
  }
  EXPECT_TRUE(world_.run_until([&] { return !second.context.open_xrc_target(same, qpn).has_value(); }));
}

TEST_F(XrcServerTest, ADomainOfOneDeviceIsNotAnothers) {
  Side first(open(0)), second(open(1));
  auto domain = must(first.context.open_xrc_domain({.fd = file_}));
  expect_error(second.context.open_xrc_domain({.fd = file_, .create = false}), EAGAIN, "O_CREAT");
}

TEST_F(XrcServerTest, RefusesFilesThatMayMakeItWait) {
  Side side(open(0));
  const int proc = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  expect_error(side.context.open_xrc_domain({.fd = proc}), EOPNOTSUPP, "/dev/shm");
  close(proc);
}

TEST_F(XrcServerTest, NeedsAnOpenFile) {
  Side first(open(0)), second(open(0));
  auto domain = must(first.context.open_xrc_domain({.fd = file_}));
  const std::string path = "/proc/self/fd/" + std::to_string(file_);
  const message::Fd only_path(::open(path.c_str(), O_PATH | O_CLOEXEC));
  ASSERT_TRUE(only_path);
  expect_error(second.context.open_xrc_domain({.fd = only_path.get(), .create = false}), EBADF, "O_PATH");
  for (const int access : {O_RDONLY, O_WRONLY, O_RDWR}) {
    const message::Fd opened(::open(path.c_str(), access | O_CLOEXEC));
    must(second.context.open_xrc_domain({.fd = opened.get(), .create = false}));
  }
}

TEST_F(XrcServerTest, ChargesTheUser) {
  start({{Resource::pd, 2}, {Resource::qp, 1}});
  Side side(open(0));
  auto domain = must(side.context.open_xrc_domain({.fd = file_}));
  expect_error(side.context.open_xrc_domain({}), ENOMEM, "max_pd");
  {
    auto target = must(side.context.create_xrc_target(domain));
    expect_error(side.context.open_xrc_target(domain, target.qpn()), ENOMEM, "max_qp");
  }
  auto again = must(side.context.create_xrc_target(domain));
}

TEST_F(XrcServerTest, FlushesAnXrcQueueWhenTheDaemonIsGone) {
  Side side(open(0));
  auto domain = must(side.context.open_xrc_domain({}));
  auto queue = must(side.context.create_xrc_srq(side.pd, domain, side.cq, 16, 2));
  ASSERT_EQ(queue.post_recv({.wr_id = 8, .sges = std::array{side.mr.sge(0, 100)}}), 0);
  server_.reset();
  const auto flushed = next(world_, side.cq);
  EXPECT_EQ(flushed.status, WcStatus::flushed);
  EXPECT_EQ(flushed.wr_id, 8u);
}

}  // namespace
}  // namespace uroce::service
