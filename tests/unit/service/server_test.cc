// Clients of a server in this process, over its socket, on devices whose engines run on a thread.
#include "service/server.h"

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <set>
#include <string>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <uroce/daemon.h>

#include "message/connection.h"
#include "message/device_messages.h"
#include "message/hello_messages.h"
#include "message/operator_messages.h"
#include "message/protocol.h"
#include "message/queue_messages.h"
#include "queues/layout.h"
#include "service/sight.h"
#include "tests/unit/client/endpoints.h"
#include "tests/unit/service/server_place.h"

namespace uroce::service {
namespace {

using test::connect;
using test::must;
using test::next;
using test::Side;
using test::World;

constexpr std::chrono::seconds kPatience{20};

class ServerTest : public testing::Test {
 protected:
  ServerTest() {
    world_.add();
    world_.add();
    start({});
  }
  ~ServerTest() override {
    server_.reset();
    world_.stop();
  }

  void start(const Limits& limits, uint32_t max_clients = 64) {
    server_.reset();
    server_ =
        must(Server::start({.socket = socket_, .max_clients = max_clients, .budgets = {.limits = limits, .users = {}}},
                           {world_.device(0), world_.device(1)}, [this](Severity, std::string_view text) {
                             const std::scoped_lock lock(log_mutex_);
                             log_ += std::string(text) + "\n";
                           }));
  }
  std::string another_program() { return place_.another_program(); }
  Context open(const std::string& name) { return must(open_daemon_device(name, {another_program()})); }
  std::string name(std::size_t n) { return world_.device(n)->config().name; }
  std::string log() {
    const std::scoped_lock lock(log_mutex_);
    return log_;
  }
  template <class Done>
  bool eventually(Done done) {
    return world_.run_until(done);
  }

  ServerPlace place_{"server"};
  const std::string socket_ = place_.socket();
  World world_{World::Mode::threaded};
  std::mutex log_mutex_;
  std::string log_;
  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, ListsItsDevices) {
  const auto devices = must(daemon_devices({socket_}));
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].name, name(0));
  EXPECT_EQ(devices[1].gids, world_.device(1)->gids());
}

TEST_F(ServerTest, AProgramHasOneConnectionForItsDevices) {
  const auto open = [this](std::size_t n) { return must(open_daemon_device(name(n), {socket_})); };
  std::optional<Side> a(open(0)), b(open(1));
  {
    auto qa = a->make_qp(), qb = b->make_qp();
    connect(*a, qa, *b, qb);
  }
  ASSERT_EQ(server_->clients().size(), 2u);
  const uint32_t first = server_->clients()[0].id, second = server_->clients()[1].id;
  EXPECT_EQ(server_->clients()[0].device, name(0));
  EXPECT_EQ(server_->clients()[1].device, name(1));

  a.reset();  // the other device stays
  ASSERT_TRUE(eventually([&] { return server_->clients().size() == 1; }));
  EXPECT_EQ(server_->clients()[0].id, second);
  EXPECT_EQ(server_->clients()[0].mrs, 1u);
  a.emplace(open(1));
  ASSERT_EQ(server_->clients().size(), 2u);
  EXPECT_EQ(server_->clients()[0].id, first) << "a number that is free is used again";
  EXPECT_EQ(server_->clients()[0].device, name(1));

  EXPECT_TRUE(server_->disconnect(second)) << "as if the program had died";
  EXPECT_TRUE(eventually([&] { return server_->clients().empty(); }));
  EXPECT_TRUE(a->context.lost());
  a.reset();
  b.reset();
  a.emplace(open(0));
  EXPECT_EQ(server_->clients().size(), 1u) << "a new connection";
}

TEST_F(ServerTest, ChargesEachOpenedDeviceAsAConnection) {
  start({{Resource::connection, 2}});
  const auto first = open_daemon_device(name(0), {socket_});
  test::expect_error(open_daemon_device("nothing", {socket_}), ENODEV, "nothing");
  auto second = std::make_optional(open_daemon_device(name(1), {socket_}));
  ASSERT_TRUE(first.has_value() && second->has_value());
  test::expect_error(open_daemon_device(name(0), {socket_}), ENOMEM, "connection");
  second.reset();
  EXPECT_TRUE(open_daemon_device(name(1), {socket_}).has_value());
}

TEST_F(ServerTest, TwoClientsExchangeEveryOperation) {
  Side a(open(name(0))), b(open(name(1)));
  auto qa = a.make_qp(), qb = b.make_qp();
  connect(a, qa, b, qb);
  for (std::size_t i = 0; i < 4096; ++i) a.memory[i] = static_cast<std::byte>(i * 7);

  const Sge source = a.mr.sge(0, 4096);
  ASSERT_EQ(qa.post_send({.wr_id = 1,
                          .opcode = WrOpcode::rdma_write,
                          .flags = SendFlag::signaled,
                          .sges = {&source, 1},
                          .remote_addr = reinterpret_cast<uint64_t>(b.memory.data() + 8192),
                          .rkey = b.mr.rkey()}),
            0);
  EXPECT_EQ(next(world_, a.cq).status, WcStatus::success);
  EXPECT_TRUE(std::equal(a.memory.begin(), a.memory.begin() + 4096, b.memory.begin() + 8192));

  const Sge target = b.mr.sge(0, 4096);
  ASSERT_EQ(qb.post_recv({.wr_id = 2, .sges = {&target, 1}}), 0);
  ASSERT_EQ(qa.post_send({.wr_id = 3,
                          .opcode = WrOpcode::send_with_imm,
                          .flags = SendFlag::signaled,
                          .sges = {&source, 1},
                          .imm_or_key = 77}),
            0);
  const auto received = next(world_, b.cq);
  EXPECT_EQ(received.wr_id, 2u);
  EXPECT_EQ(received.byte_len, 4096u);
  EXPECT_EQ(received.imm_or_key, 77u);
  EXPECT_EQ(next(world_, a.cq).wr_id, 3u);
  EXPECT_TRUE(std::equal(a.memory.begin(), a.memory.begin() + 4096, b.memory.begin()));

  const Sge back = a.mr.sge(20000, 4096);
  ASSERT_EQ(qa.post_send({.wr_id = 4,
                          .opcode = WrOpcode::rdma_read,
                          .flags = SendFlag::signaled,
                          .sges = {&back, 1},
                          .remote_addr = reinterpret_cast<uint64_t>(b.memory.data()),
                          .rkey = b.mr.rkey()}),
            0);
  EXPECT_EQ(next(world_, a.cq).status, WcStatus::success);
  EXPECT_TRUE(std::equal(a.memory.begin(), a.memory.begin() + 4096, a.memory.begin() + 20000));
}

TEST_F(ServerTest, DeviceMemoryAndNullRegionsAreTheDaemonsRegions) {
  Side a(open(name(0))), b(open(name(1)));
  auto qa = a.make_qp(), qb = b.make_qp();
  connect(a, qa, b, qb);
  auto memory = must(b.context.allocate_device_memory(8192));
  const auto region = must(b.pd.register_device_memory(memory, 4096, 4096, Side::kAll));
  const auto nothing = must(a.pd.create_null_region());
  const std::vector<std::byte> ones(8192, std::byte{1});
  must(memory.copy_to(0, ones));
  const std::array sges{a.mr.sge(0, 8), Sge{12345, 8, nothing.lkey()}};
  a.memory[0] = std::byte{5};
  ASSERT_EQ(qa.post_send({.opcode = WrOpcode::rdma_write,
                          .flags = SendFlag::signaled,
                          .sges = sges,
                          .remote_addr = 0,
                          .rkey = region.rkey()}),
            0);
  EXPECT_EQ(next(world_, a.cq).status, WcStatus::success);
  std::array<std::byte, 20> read{};
  must(memory.copy_from(4095, read));
  EXPECT_EQ(read[0], std::byte{1});
  EXPECT_EQ(read[1], std::byte{5});
  EXPECT_EQ(std::count(read.begin() + 9, read.begin() + 17, std::byte{0}), 8);
  EXPECT_EQ(read[17], std::byte{1});
}

TEST_F(ServerTest, EventsWakeAChannel) {
  Side a(open(name(0))), b(open(name(1)));
  auto qa = a.make_qp(), qb = b.make_qp();
  connect(a, qa, b, qb);
  must(b.cq.arm());
  EXPECT_EQ(b.channel.wait(std::chrono::milliseconds(1)), std::nullopt);
  const Sge target = b.mr.sge(0, 64), source = a.mr.sge(0, 64);
  ASSERT_EQ(qb.post_recv({.wr_id = 9, .sges = {&target, 1}}), 0);
  ASSERT_EQ(qa.post_send({.wr_id = 1, .opcode = WrOpcode::send, .sges = {&source, 1}}), 0);
  EXPECT_EQ(b.channel.wait(std::chrono::seconds(20)), b.cq.id());
  EXPECT_EQ(next(world_, b.cq).wr_id, 9u);
}

TEST_F(ServerTest, AsynchronousEventsComeThrough) {
  Side a(open(name(0))), b(open(name(1)));
  auto qa = a.make_qp(), qb = b.make_qp();
  connect(a, qa, b, qb);
  const Sge source = a.mr.sge(0, 64);
  ASSERT_EQ(qa.post_send({.opcode = WrOpcode::rdma_write,
                          .flags = SendFlag::signaled,
                          .sges = {&source, 1},
                          .remote_addr = 0,
                          .rkey = 0xdeadbeef}),
            0);
  EXPECT_EQ(next(world_, a.cq).status, WcStatus::remote_access_error);
  const auto event = b.context.next_async_event(std::chrono::seconds(20));
  ASSERT_TRUE(event);
  EXPECT_EQ(event->type, AsyncEventType::qp_access_error);
  EXPECT_EQ(event->object, qb.qpn());
  EXPECT_EQ(qb.query()->state, QpState::error);
}

TEST_F(ServerTest, ARegionBecomesAnotherAndAQueueIsResized) {
  Side a(open(name(0))), b(open(name(1)));
  auto qa = a.make_qp(), qb = b.make_qp();
  connect(a, qa, b, qb);
  std::vector<std::byte> other(10000);
  must(b.mr.reregister(nullptr, other.data(), other.size(), nullptr));
  must(a.cq.resize(8192));
  EXPECT_EQ(a.cq.entries(), 8192u);
  a.memory[7] = std::byte{7};
  ASSERT_EQ(qa.post_send({.opcode = WrOpcode::rdma_write,
                          .flags = SendFlag::signaled,
                          .sges = std::array{a.mr.sge(0, 8)},
                          .remote_addr = reinterpret_cast<uint64_t>(other.data() + 5000),
                          .rkey = b.mr.rkey()}),
            0);
  EXPECT_EQ(next(world_, a.cq).status, WcStatus::success);
  EXPECT_EQ(other[5007], std::byte{7});
  EXPECT_EQ(server_->clients()[1].registered_bytes, other.size());
  EXPECT_GT(must(a.context.clock_ns()), 0u);
}

TEST_F(ServerTest, AClientThatGoesLeavesNothing) {
  Side b(open(name(1)));
  auto qb = b.make_qp();
  {
    Side a(open(name(0)));
    auto qa = a.make_qp();
    connect(a, qa, b, qb);
    const auto rows = server_->clients();
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_EQ(rows[1].qps, 1u);
    EXPECT_EQ(rows[1].registered_bytes, Side::kBytes);
    EXPECT_EQ(rows[1].pid, getpid());
    EXPECT_TRUE(server_->disconnect(rows[1].id));
    EXPECT_TRUE(eventually([&] { return server_->clients().size() == 1; }));
    EXPECT_EQ(a.context.create_pd().error().code, EIO);
    EXPECT_EQ(qa.query().error().code, EIO);
    const auto event = a.context.next_async_event(std::chrono::seconds(20));
    ASSERT_TRUE(event);
    EXPECT_EQ(event->type, AsyncEventType::device_fatal);
  }
  // The other client is as it was.
  EXPECT_TRUE(b.context.create_pd());
  EXPECT_EQ(qb.query()->state, QpState::rts);
}

TEST_F(ServerTest, NamesTheLimitThatAClientMeets) {
  start({{Resource::qp, 1}, {Resource::mr, 1}, {Resource::registered_bytes, 1 << 20}});
  Side a(open(name(0)));
  auto qa = a.make_qp();
  const auto second = a.context.create_qp(a.pd, a.cq, a.cq, {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ENOMEM);
  EXPECT_NE(second.error().text.find("max_qp"), std::string::npos) << second.error().text;
  const auto mr = a.pd.register_memory(a.memory.data(), 64, Access::local_write);
  ASSERT_FALSE(mr);
  EXPECT_NE(mr.error().text.find("max_mr"), std::string::npos) << mr.error().text;
}

TEST_F(ServerTest, TurnsAwayConnectionsBeyondItsLimit) {
  start({}, 1);
  const auto first = open(name(0));
  const auto second = open_daemon_device(name(0), {another_program()});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ENOMEM);
  EXPECT_NE(second.error().text.find("max_clients"), std::string::npos) << second.error().text;
}

TEST_F(ServerTest, SaysWhichSideToUpgrade) {
  for (const uint32_t protocol : {message::kOldestProtocol - 1, message::kProtocol + 1}) {
    auto link = must(message::Connection::to(socket_, kPatience));
    std::vector<std::byte> bytes;
    message::encode(bytes, message::RequestHeader{message::Op::hello, 1});
    message::encode(bytes, message::Hello{.protocol = protocol,
                                          .queue_abi = queues::kAbiVersion,
                                          .version = "0.0.1",
                                          .oldest_protocol = protocol,
                                          .oldest_queue_abi = queues::kAbiVersion});
    must(link.send(bytes, {}));
    const auto reply = must(link.receive());
    message::Reader reader(reply.bytes);
    message::ReplyHeader header;
    reader(header);
    EXPECT_EQ(header.error, EPROTONOSUPPORT);
    const std::string side = protocol < message::kProtocol ? "upgrade the application's library" : "upgrade the daemon";
    EXPECT_NE(header.text.find(side), std::string::npos) << header.text;
  }
}

TEST_F(ServerTest, NoDaemonIsOneSentenceWithTheWayOut) {
  server_.reset();
  const auto devices = daemon_devices({socket_});
  ASSERT_FALSE(devices);
  EXPECT_EQ(devices.error().code, ENOENT);
  EXPECT_NE(devices.error().text.find("uroced --demo"), std::string::npos) << devices.error().text;
}

TEST_F(ServerTest, ASecondDaemonDoesNotTakeTheSocketOfALiveOne) {
  const auto second = Server::start({.socket = socket_}, {world_.device(0)}, {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, EADDRINUSE);
  EXPECT_TRUE(daemon_devices({socket_}));
}

// It takes nobody in, and its backlog is full.
TEST_F(ServerTest, ASecondDaemonDoesNotTakeTheSocketOfAStoppedOne) {
  const std::string path = place_.folder() + "/stopped";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const auto* at = reinterpret_cast<const sockaddr*>(&address);
  const message::Fd stopped(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(stopped.get(), at, sizeof address), 0);
  ASSERT_EQ(listen(stopped.get(), 0), 0);
  std::vector<message::Fd> waiting;
  do {
    ASSERT_LT(waiting.size(), 16u);
    waiting.emplace_back(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  } while (::connect(waiting.back().get(), at, sizeof address) == 0);
  const auto second = Server::start({.socket = path}, {world_.device(0)}, {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, EADDRINUSE);
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(ServerTest, DisconnectsAfterInvalidMessages) {
  Side b(open(name(1)));
  const std::vector<std::byte> rubbish(100, std::byte{0xee});
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{5}, std::size_t{100}}) {
    auto link = must(message::Connection::to(socket_, kPatience));
    link.set_timeouts(kPatience, kPatience);
    std::vector<std::byte> bytes;
    if (length == 100) message::encode(bytes, message::RequestHeader{message::Op::hello, 1});
    bytes.insert(bytes.end(), rubbish.begin(), rubbish.begin() + static_cast<std::ptrdiff_t>(length));
    if (bytes.empty()) bytes.push_back(std::byte{0});
    must(link.send(bytes, {}));
    auto answer = link.receive();
    while (answer) answer = link.receive();
    EXPECT_EQ(answer.error().code, ECONNRESET);
  }
  EXPECT_TRUE(eventually([&] { return server_->clients().size() == 1; }));
  EXPECT_NE(log().find("is disconnected"), std::string::npos);
  EXPECT_TRUE(b.context.create_pd());
}

TEST_F(ServerTest, AnotherClientsHandlesMeanNothing) {
  Side a(open(name(0)));
  auto link = must(message::Connection::to(socket_, kPatience));
  uint32_t sequence = 0;
  const auto call = [&](message::Op op, const auto& request) {
    std::vector<std::byte> bytes;
    message::encode(bytes, message::RequestHeader{op, ++sequence});
    message::encode(bytes, request);
    must(link.send(bytes, {}));
    const auto reply = must(link.receive());
    message::Reader reader(reply.bytes);
    message::ReplyHeader header;
    reader(header);
    return header.error;
  };
  const message::Hello hello{.queue_abi = queues::kAbiVersion, .version = "test"};
  EXPECT_EQ(call(message::Op::hello, hello), 0);
  EXPECT_EQ(call(message::Op::create_pd, message::Empty{}), EINVAL) << "no device is open";
  EXPECT_EQ(call(message::Op::open_device, message::OpenDevice{"nonsense"}), ENODEV);
  EXPECT_EQ(call(message::Op::open_device, message::OpenDevice{name(0)}), 0);
  EXPECT_EQ(call(message::Op::open_device, message::OpenDevice{name(0)}), EINVAL) << "one per connection";
  for (uint32_t id = 0; id < 4; ++id) {
    EXPECT_EQ(call(message::Op::query_qp, message::Handle{id}), EINVAL);
    EXPECT_EQ(call(message::Op::destroy, message::Destroy{message::Kind::mr, id}), EINVAL);
    EXPECT_EQ(call(message::Op::create_srq, message::CreateSrq{id, 1, 1}), EINVAL);
  }
  EXPECT_EQ(call(message::Op::destroy, message::Destroy{static_cast<message::Kind>(99), 1}), EINVAL);
  EXPECT_TRUE(a.context.create_pd());
}

// A raw connection, greeted.
class Speaker {
 public:
  explicit Speaker(const std::string& socket) : link_(must(message::Connection::to(socket, kPatience))) {
    (void)call(message::Op::hello, message::Hello{.queue_abi = queues::kAbiVersion, .version = "test"});
  }
  uint32_t device = 0;  ///< of the next calls

  /// The reply's body; nullopt where the server has hung up.
  template <class Request>
  std::optional<std::vector<std::byte>> call(message::Op op, const Request& request) {
    return ask(op, request) ? std::optional(body_) : std::nullopt;
  }
  /// The reply's error, 0 for none; EIO where the server has hung up.
  template <class Request>
  int error_of(message::Op op, const Request& request) {
    return ask(op, request) ? error_ : EIO;
  }

 private:
  template <class Request>
  bool ask(message::Op op, const Request& request) {
    std::vector<std::byte> bytes;
    message::encode(bytes, message::RequestHeader{op, 1, device});
    message::encode(bytes, request);
    if (!link_.send(bytes, {})) return false;
    const auto reply = link_.receive();
    if (!reply) return false;
    message::Reader reader(reply->bytes);
    message::ReplyHeader header;
    reader(header);
    error_ = header.error;
    body_.assign(reader.rest().begin(), reader.rest().end());
    return true;
  }

  message::Connection link_;
  int error_ = 0;
  std::vector<std::byte> body_;
};

// Two threads of a program that open devices take numbers in one order, and send their requests in another.
TEST_F(ServerTest, TheNumbersOfDevicesComeInAnyOrder) {
  Speaker program(socket_);
  const message::OpenDevice request{name(0)};
  for (const uint32_t number : {3u, 1u, message::kMaxDevices - 1}) {
    program.device = number;
    EXPECT_EQ(program.error_of(message::Op::open_device, request), 0) << number;
    EXPECT_EQ(program.error_of(message::Op::create_pd, message::Empty{}), 0) << number;
  }
  EXPECT_EQ(server_->clients().size(), 3u);
  program.device = 2;
  EXPECT_EQ(program.error_of(message::Op::create_pd, message::Empty{}), EINVAL) << "it is not open";
  program.device = message::kMaxDevices;
  EXPECT_EQ(program.error_of(message::Op::open_device, request), EINVAL);
}

TEST_F(ServerTest, ADeviceThatIsOpenedAgainCountsFromTheBeginning) {
  Speaker program(socket_);
  program.device = 1;
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(program.error_of(message::Op::open_device, message::OpenDevice{name(0)}), 0);
    EXPECT_EQ(program.error_of(message::Op::query_qp, message::Handle{1}), EINVAL);
    ASSERT_EQ(server_->clients().size(), 1u);
    EXPECT_EQ(server_->clients()[0].calls, 2u) << round;
    EXPECT_EQ(server_->clients()[0].errors, 1u) << round;
    EXPECT_EQ(program.error_of(message::Op::close_device, message::Empty{}), 0);
  }
}

TEST_F(ServerTest, ARequestForNoDeviceIsCounted) {
  Speaker program(socket_);
  program.device = 1;
  EXPECT_EQ(program.error_of(message::Op::create_pd, message::Empty{}), EINVAL);
  ASSERT_EQ(server_->clients().size(), 1u);
  EXPECT_EQ(server_->clients()[0].calls, 2u) << "with the hello";
  EXPECT_EQ(server_->clients()[0].errors, 1u);
}

// A connection that says no hello ends after 5 s, unless it asks for something.
TEST_F(ServerTest, ARequestBeforeTheHelloEndsTheConnection) {
  for (const uint32_t device : {0u, 1u}) {
    auto link = must(message::Connection::to(socket_, kPatience));
    link.set_timeouts(kPatience, kPatience);
    std::vector<std::byte> bytes;
    message::encode(bytes, message::RequestHeader{message::Op::create_pd, 1, device});
    must(link.send(bytes, {}));
    message::ReplyHeader header;
    const auto reply = must(link.receive());
    message::Reader reader(reply.bytes);
    reader(header);
    EXPECT_EQ(header.error, EPROTO) << device;
    const auto end = link.receive();
    ASSERT_FALSE(end) << device;
    EXPECT_EQ(end.error().code, ECONNRESET) << device;
  }
}

/// This thread connects as another user meanwhile; its sockets keep that user.
class AsUser {
 public:
  explicit AsUser(uid_t user) { become(user); }
  ~AsUser() { become(0); }

 private:
  // The library's seteuid() would change the threads of the server too.
  static void become(uid_t user) { ASSERT_EQ(syscall(SYS_setresuid, -1, user, -1), 0); }
};

template <class Rows, class Request>
Rows list(Speaker& speaker, message::Op op, const Request& request) {
  Rows rows;
  const auto body = speaker.call(op, request);
  EXPECT_TRUE(body && message::decode(*body, rows));
  return rows;
}

/// The names of the values of all rows.
std::set<std::string> names_in(const message::ObjectRows& rows) {
  std::set<std::string> names;
  for (const auto& row : rows.rows) {
    for (const auto& [name, value] : row.values) names.insert(name);
  }
  return names;
}

// With the rkey, QPN and PSN from these lists, a stranger wrote root's memory by one forged frame.
TEST_F(ServerTest, UsersSeeTheirOwnObjectsWithoutKeysAndPsns) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can connect as other users";
  Side roots(open(name(0)));
  auto qp_of_root = roots.make_qp();
  const auto side_of = [this](uid_t user) {
    const AsUser other(user);
    return open(name(1));
  };
  Side ones(side_of(1001)), twos(side_of(1002));
  auto qp_of_one = ones.make_qp(), qp_of_two = twos.make_qp();
  const auto speaker_of = [this](uid_t user) {
    const AsUser other(user);
    return Speaker(socket_);
  };
  Speaker root(socket_), one = speaker_of(1001), third = speaker_of(1003);

  EXPECT_EQ(list<message::ClientRows>(root, message::Op::list_clients, message::ListClients{}).rows.size(), 6u);
  const auto seen = list<message::ClientRows>(one, message::Op::list_clients, message::ListClients{}).rows;
  ASSERT_EQ(seen.size(), 2u);
  for (const auto& row : seen) EXPECT_EQ(row.uid, 1001u);
  for (const auto kind : {message::Kind::qp, message::Kind::mr, message::Kind::cq}) {
    const message::ListObjects request{.kind = kind};
    const auto all = list<message::ObjectRows>(root, message::Op::list_objects, request);
    EXPECT_EQ(all.rows.size(), 3u);
    const auto own = list<message::ObjectRows>(one, message::Op::list_objects, request);
    ASSERT_EQ(own.rows.size(), 1u);
    EXPECT_EQ(own.rows[0].client, seen[0].id);
    EXPECT_TRUE(list<message::ObjectRows>(third, message::Op::list_objects, request).rows.empty());
    for (const char* secret : {"key", "sq_psn", "rq_psn"}) EXPECT_FALSE(names_in(own).contains(secret)) << secret;
    EXPECT_EQ(names_in(all).contains("key"), kind == message::Kind::mr);
    EXPECT_EQ(names_in(all).contains("rq_psn"), kind == message::Kind::qp);
  }
}

TEST_F(ServerTest, TheLogSaysWhyAQueuePairEndedAndWhoLeft) {
  {
    Side a(open(name(0))), b(open(name(1)));
    auto qa = a.make_qp(), qb = b.make_qp();
    connect(a, qa, b, qb);
    const Sge source = a.mr.sge(0, 8);
    ASSERT_EQ(qa.post_send({.opcode = WrOpcode::rdma_write, .sges = {&source, 1}, .remote_addr = 1, .rkey = 1}), 0);
    EXPECT_EQ(next(world_, a.cq).status, WcStatus::remote_access_error);
    EXPECT_TRUE(eventually([&] {
      return log().find(fmt::format("queue pair {:#x} to {:#x} at 10.0.0.2 ended with remote_access_error (status 10)",
                                    qa.qpn(), qb.qpn())) != std::string::npos;
    })) << log();
    EXPECT_TRUE(eventually([&] {
      return log().find(fmt::format("queue pair {:#x} to {:#x} at 10.0.0.1 ended: it refused a request of its peer",
                                    qb.qpn(), qa.qpn())) != std::string::npos;
    })) << log();
    EXPECT_NE(log().find(fmt::format(", process {}): queue pair", getpid())), std::string::npos) << log();
    must(qb.modify({.state = QpState::reset}, QpAttrBit::state));
    const std::size_t lines = log().size();
    must(qa.modify({.state = QpState::error}, QpAttrBit::state));
    EXPECT_EQ(log().size(), lines) << "what its program does is no news";
  }
  EXPECT_TRUE(eventually([&] { return server_->clients().empty(); }));
  EXPECT_NE(log().find(") has come, and speaks protocol "), std::string::npos) << log();
  EXPECT_NE(log().find(") has gone\n"), std::string::npos) << log();
  EXPECT_EQ(log().find("it left"), std::string::npos) << "all objects were destroyed: " << log();
}

TEST_F(ServerTest, CountsTheTrafficOfConnectionsAndUsers) {
  const auto user = [this] {
    for (const message::UserRow& row : server_->users()) {
      if (row.uid == geteuid()) return row.traffic;
    }
    return message::Traffic{};
  };
  const auto client_on = [this](const std::string& device) {
    for (const message::ClientRow& row : server_->clients()) {
      if (row.device == device) return row.traffic;
    }
    return message::Traffic{};
  };
  std::optional<Speaker> stays(socket_);  // so that the user does
  std::optional<Side> a(open(name(0))), b(open(name(1)));
  auto qa = std::optional(a->make_qp()), qb = std::optional(b->make_qp());
  connect(*a, *qa, *b, *qb);
  const Sge source = a->mr.sge(0, 4096);
  ASSERT_EQ(qa->post_send({.opcode = WrOpcode::rdma_write,
                           .flags = SendFlag::signaled,
                           .sges = {&source, 1},
                           .remote_addr = reinterpret_cast<uint64_t>(b->memory.data()),
                           .rkey = b->mr.rkey()}),
            0);
  // Each receives the other's packets, once nothing is on the way.
  ASSERT_TRUE(eventually([&] {
    const message::Traffic sender = client_on(name(0)), receiver = client_on(name(1));
    return sender.tx_bytes > 4096 && sender.rx_packets != 0 && receiver.rx_bytes == sender.tx_bytes &&
           receiver.tx_packets == sender.rx_packets && user().tx_bytes == sender.tx_bytes + receiver.tx_bytes;
  }));
  // Ended connections still count for their user, and a new one begins at 0.
  const message::Traffic before = user();
  qa.reset(), qb.reset();
  a.reset(), b.reset();
  ASSERT_TRUE(eventually([&] { return server_->clients().size() == 1; }));
  EXPECT_GE(user().tx_bytes, before.tx_bytes);
  EXPECT_GE(user().rx_packets, before.rx_packets);
  stays.reset();
  ASSERT_TRUE(eventually([&] { return server_->clients().empty(); }));
  const Side again(open(name(0)));
  EXPECT_GE(user().tx_bytes, before.tx_bytes) << "also after the user's last connection";
  EXPECT_EQ(client_on(name(0)).tx_packets, 0u);
}

TEST_F(ServerTest, PeersThatGuessAreShownToRootAlone) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can connect as other users";
  // A queue pair of the first device asks for one of the second that does not exist.
  Side asking(open(name(0)));
  auto qp = asking.make_qp();
  must(qp.connect({World::gid(1), 0x4242, 100}, {.psn = 100}));
  ASSERT_EQ(qp.post_send(SendRequest{}), 0);

  Speaker root(socket_);
  const message::ListPeers request{.device = name(1)};
  message::PeerRows seen;
  ASSERT_TRUE(eventually([&] {
    seen = list<message::PeerRows>(root, message::Op::list_peers, request);
    return !seen.rows.empty();
  }));
  EXPECT_EQ(seen.rows[0].peer, World::gid(0));
  EXPECT_EQ(seen.rows[0].guesses.at(0).first, "qpn");
  EXPECT_GT(seen.rows[0].guesses.at(0).second, 0u);
  const message::ListPeers after{.device = name(1), .after = World::gid(0)};
  EXPECT_TRUE(list<message::PeerRows>(root, message::Op::list_peers, after).rows.empty());

  const auto speaker = [this] {
    const AsUser other(1001);
    return Speaker(socket_);
  };
  Speaker user = speaker();
  EXPECT_EQ(user.error_of(message::Op::list_peers, request), EPERM);
  EXPECT_EQ(root.error_of(message::Op::list_peers, message::ListPeers{.device = "none"}), ENODEV);
}

TEST(Sight, IsWholeForPrivilegedPeersOnly) {
  EXPECT_TRUE(Sight({.uid = 0, .privileged = true}).everything());
  EXPECT_TRUE(Sight({.uid = 990, .privileged = true}).client_of(1001));
  EXPECT_FALSE(Sight({.uid = 0}).everything()) << "root of a container";
  const Sight user({.uid = 1001});
  EXPECT_FALSE(user.everything());
  EXPECT_TRUE(user.client_of(1001));
  for (const uint32_t other : {0u, 990u, 1002u, 65534u}) EXPECT_FALSE(user.client_of(other)) << other;
}

TEST_F(ServerTest, ListsMoreClientsThanAReplyHolds) {
  start({}, 1000);
  std::vector<Speaker> crowd;
  for (int i = 0; i < 700; ++i) crowd.emplace_back(socket_);
  std::size_t listed = 0;
  message::ClientRows rows;
  rows.more = true;
  while (rows.more) {
    const message::ListClients request{rows.rows.empty() ? 0 : rows.rows.back().id};
    const auto body = crowd[0].call(message::Op::list_clients, request);
    ASSERT_TRUE(body);
    rows = {};
    ASSERT_TRUE(message::decode(*body, rows));
    listed += rows.rows.size();
  }
  EXPECT_EQ(listed, 700u);
}

// A client's thread that lists clients has references to all of them, including its own.
TEST_F(ServerTest, StopsWhileClientsAreListed) {
  for (int round = 0; round < 10; ++round) {
    std::vector<std::thread> lookers;
    std::atomic<int> looking{0};
    for (int i = 0; i < 4; ++i) {
      // Connected here: a thread that begins late would find no server any more.
      lookers.emplace_back([&looking, speaker = Speaker(socket_)]() mutable {
        while (speaker.call(message::Op::list_clients, message::ListClients{})) ++looking;
      });
    }
    EXPECT_TRUE(eventually([&] { return looking > 20; }));
    server_->stop();
    for (std::thread& looker : lookers) looker.join();
    start({});
  }
}

TEST_F(ServerTest, UnreadEventsAreLost) {
  Side a(open(name(0))), b(open(name(1)));
  ASSERT_GE(fcntl(b.context.async_fd(), F_SETPIPE_SZ, 4096), 0);
  auto qa = a.make_qp(), qb = b.make_qp();
  const Sge source = a.mr.sge(0, 64);
  for (int i = 0; i < 600; ++i) {  // a page holds 512
    connect(a, qa, b, qb);
    const int posted = qa.post_send(
        {.opcode = WrOpcode::rdma_write, .flags = SendFlag::signaled, .sges = {&source, 1}, .rkey = 0xdeadbeef});
    ASSERT_EQ(posted, 0);
    ASSERT_EQ(next(world_, a.cq).status, WcStatus::remote_access_error);
    must(qa.modify({.state = QpState::reset}, QpAttrBit::state));
    must(qb.modify({.state = QpState::reset}, QpAttrBit::state));
  }
  EXPECT_TRUE(b.context.create_pd());
  int told = 0;
  while (b.context.next_async_event(std::chrono::nanoseconds(0))) ++told;
  EXPECT_EQ(told, 512);
}

TEST_F(ServerTest, OneClientsStopIsAllClientsStop) {
  Side a(open(name(0)));
  server_->stop();
  EXPECT_EQ(a.context.create_pd().error().code, EIO);
  EXPECT_FALSE(std::filesystem::exists(socket_));
}

}  // namespace
}  // namespace uroce::service
