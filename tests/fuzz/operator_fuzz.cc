// The operator's calls of the daemon (the lists of `uroce show`, captures) against hostile askers: an ordinary user and
// a container's root ask beside root, while programs of two users make and destroy objects, end and come back. The
// input is a program. For any input each call answers, a list that is followed to its end ends and has each row once,
// in order, and nobody but root sees another user's rows, a key, a PSN, a frame, or who guesses numbers.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "message/device_messages.h"
#include "message/hello_messages.h"
#include "message/memory_messages.h"
#include "message/operator_messages.h"
#include "message/qp_messages.h"
#include "message/queue_messages.h"
#include "queues/layout.h"
#include "service/listing.h"
#include "service/operation_table.h"
#include "service/operator_operations.h"
#include "tests/fuzz/hostile_program.h"
#include "tests/fuzz/input.h"
#include "world.h"

namespace {

using namespace uroce;
using message::Kind;
using message::Op;
using service::Resource;
using service::Sight;
using test::Input;
using test::require;
using Program = test::HostileProgram;

constexpr uint32_t kMostReplies = 64;  // of a list: there are no more objects
constexpr std::array kKinds{Kind::pd, Kind::mr, Kind::cq, Kind::srq, Kind::qp, Kind::cm_id};

/// A capture that is nothing but its memory.
struct NoFrames final : service::Capture {
  message::Fd memory{memfd_create("fuzz", MFD_CLOEXEC)};
  int fd() const override { return memory.get(); }
  uint32_t rings() const override { return 1; }
  uint64_t epoch_ns() const override { return 0; }
};

/// Lists what the real server lists.
struct ListingView : test::ScriptedView {
  service::Listed programs;
  const service::Users* users = nullptr;
  message::ClientRows client_rows(uint32_t after, const Sight& sight) const override {
    return service::client_rows(programs, after, sight);
  }
  message::UserRows user_rows(uint64_t after, const Sight& sight) const override {
    return service::user_rows(*users, after, sight);
  }
  message::ObjectRows object_rows(const message::ListObjects& request, const Sight& sight) const override {
    return service::object_rows(programs, request, sight);
  }
};

/// An asker, or a program with objects.
struct Role {
  service::Peer peer;
  bool opens;  ///< a device
};

class Session {
 public:
  explicit Session(std::span<const uint8_t> bytes) : in_(bytes) {
    GTEST_FLAG_SET(throw_on_failure, true);  // of the world's own checks
    world_.add({.settings = {.max_qp = 32, .max_mr = 512, .parking_frames = 16}});
    view_.all = {world_.device(0)};
    view_.users = &users_;
    view_.access.capture = [](std::string_view device) -> Result<std::unique_ptr<service::Capture>> {
      if (device != "uroce0") return fail(ENODEV, "unknown device");
      return std::make_unique<NoFrames>();
    };
    for (uint32_t n = 0; n < kRoles; ++n) start(n);
  }

  void run() {
    for (int steps = 0; !in_.empty() && steps < 100; ++steps) {
      const auto op = in_.take<uint8_t>();
      const uint32_t who = (op >> 4) % kRoles;
      step(op & 15u, who);
      for (uint32_t n = 0; n < kRoles; ++n) {
        if (programs_[n]->ended) start(n);
      }
    }
    for (uint32_t n = 0; n < kRoles; ++n) follow_all(n);
    programs_ = {};
    world_.stop();
  }

 private:
  static constexpr uint32_t kRoles = 5;
  static Role role(uint32_t n) {
    static const std::array<Role, kRoles> roles{{
        {{.pid = 100, .uid = 0, .privileged = true, .locked_bytes = 64 << 20, .command = "uroce"}, false},
        {{.pid = 101, .uid = 1000, .locked_bytes = 64 << 20, .command = "asker"}, true},
        {{.pid = 102, .uid = 0, .locked_bytes = 64 << 20, .command = "container"}, false},
        {{.pid = 103, .uid = 1001, .locked_bytes = 64 << 20, .command = std::string(15, 'v')}, true},
        {{.pid = 104, .uid = 100000, .locked_bytes = 64 << 20, .command = "sub", .charged_to = 1000}, true},
    }};
    return roles[n];
  }

  void start(uint32_t n) {
    const Role wanted = role(n);
    programs_[n].reset();
    renew_listing();
    programs_[n] = std::make_unique<Program>(view_, ++clients_, wanted.peer, users_.of(wanted.peer));
    Program& program = *programs_[n];
    renew_listing();
    program.must<message::HelloReply>(Op::hello, message::Hello{.queue_abi = queues::kAbiVersion});
    if (!wanted.opens) return;
    program.device = program.must<message::OpenDeviceReply>(Op::open_device, message::OpenDevice{"uroce0"});
  }
  void renew_listing() {
    view_.programs.clear();
    for (const auto& program : programs_) {
      if (program != nullptr) view_.programs.push_back(&program->state());
    }
    std::ranges::sort(view_.programs, {}, &service::ClientState::id);
  }

  // --- Objects ----------------------------------------------------------------------------------------------------

  void make(Program& program) {
    if (!program.device) return;
    const auto what = in_.take<uint8_t>();
    const uint32_t handle = (what >> 4) % 4u;
    switch (what % 8) {
      case 0: program.ask(Op::create_pd, message::Empty{}); break;
      case 1: program.ask(Op::create_cq, message::CreateCq{.entries = 4}); break;
      case 2: program.ask(Op::create_srq, message::CreateSrq{1, 4, 1}); break;
      case 3:
      case 4: {
        message::CreateQp wanted{.pd = 1, .send_cq = 1, .recv_cq = 1, .cap = {4, 4, 1, 1, 0}};
        wanted.type = static_cast<QpType>(2 + handle);
        program.ask(Op::create_qp, wanted);
        break;
      }
      case 5: many_regions(program); break;
      case 6: program.ask(Op::destroy, message::Destroy{kKinds[handle], in_.take<uint8_t>() % 8u}); break;
      default: needed(program); break;
    }
  }
  /// Other objects need these. So an input need not find the way.
  static void needed(Program& program) {
    program.ask(Op::create_pd, message::Empty{});
    program.ask(Op::create_cq, message::CreateCq{.entries = 4});
  }
  /// More than one reply holds.
  void many_regions(Program& program) {
    for (uint32_t left = in_.take<uint8_t>(); left > 0; --left) {
      if (!program.ask(Op::create_null_region, message::Handle{1})) return;
    }
  }

  // --- Lists ------------------------------------------------------------------------------------------------------

  template <class Rows, class Request>
  std::optional<Rows> list(Program& program, Op op, const Request& request) {
    const auto body = program.ask(op, request);
    if (!body) return std::nullopt;
    Rows rows;
    require(message::decode(*body, rows), "a reply that cannot be decoded");
    require(!rows.more || !rows.rows.empty(), "a reply with more and without rows");
    return rows;
  }

  static bool sees(uint32_t asker, uint32_t uid) {
    const service::Peer peer = role(asker).peer;
    return peer.privileged || peer.uid == uid;
  }
  uint32_t uid_of(uint32_t client) const {
    for (uint32_t n = 0; n < kRoles; ++n) {
      if (programs_[n]->state().id == client) return role(n).peer.uid;
    }
    require(false, "a row of a client that is gone");
    return 0;
  }

  void check(uint32_t asker, const message::ClientRows& rows) const {
    for (const auto& row : rows.rows) {
      require(row.uid == uid_of(row.id) && sees(asker, row.uid), "another user's client is seen");
    }
  }
  static void check(uint32_t asker, const message::UserRows& rows) {
    const service::Peer peer = role(asker).peer;
    for (const auto& row : rows.rows) {
      require(peer.privileged || row.uid == peer.payer(), "another user's budget is seen");
    }
  }
  void check(uint32_t asker, const message::ObjectRows& rows) const {
    for (const auto& row : rows.rows) {
      require(sees(asker, uid_of(row.client)), "another user's object is seen");
      for (const auto& [name, value] : row.values) {
        const bool secret = name == "key" || name.ends_with("psn") || name.starts_with("psn");
        require(!secret || role(asker).peer.privileged, "a key or a PSN is seen");
      }
    }
  }

  std::size_t follow_objects(uint32_t asker, Kind kind) {
    message::ListObjects request{.kind = kind};
    std::size_t seen = 0;
    for (uint32_t replies = 0;; ++replies) {
      require(replies < kMostReplies, "a list has no end");
      const auto rows = list<message::ObjectRows>(*programs_[asker], Op::list_objects, request);
      if (!rows) return seen;
      check(asker, *rows);
      for (const auto& row : rows->rows) {
        require(std::pair(row.client, row.id) > std::pair(request.after_client, request.after_id), "a row comes twice");
        request.after_client = row.client;
        request.after_id = row.id;
        ++seen;
      }
      if (!rows->more) return seen;
    }
  }
  void follow_all(uint32_t asker) {
    std::size_t regions = 0;
    for (uint32_t n = 0; n < kRoles; ++n) {
      if (sees(asker, role(n).peer.uid)) regions += programs_[n]->state().regions.size();
    }
    require(follow_objects(asker, Kind::mr) == regions, "a list lacks rows");
    for (const Kind kind : kKinds) follow_objects(asker, kind);
    uint32_t after = 0;
    for (uint32_t replies = 0; replies < kMostReplies; ++replies) {
      const auto rows = list<message::ClientRows>(*programs_[asker], Op::list_clients, message::ListClients{after});
      if (!rows || rows->rows.empty()) break;
      check(asker, *rows);
      require(rows->rows.front().id > after, "a row comes twice");
      after = rows->rows.back().id;
    }
    const auto users = list<message::UserRows>(*programs_[asker], Op::list_users, message::ListUsers{});
    if (users) check(asker, *users);
  }

  void capture(uint32_t asker) {
    std::string device = (in_.take<uint8_t>() & 3) != 0 ? "uroce0" : std::string(in_.take<uint8_t>(), 'x');
    const auto body = programs_[asker]->ask(Op::capture, message::OpenDevice{std::move(device)});
    require(!body || role(asker).peer.privileged, "a user captures the frames of all");
  }
  void peers(uint32_t asker) {
    message::ListPeers request{.device = (in_.take<uint8_t>() & 1) != 0 ? "uroce0" : "none"};
    request.after.bytes[15] = in_.take<uint8_t>();
    const auto rows = list<message::PeerRows>(*programs_[asker], Op::list_peers, request);
    require(!rows || role(asker).peer.privileged, "a user sees who guesses");
  }

  /// An operator's call with any bytes.
  void say_anything(Program& program) {
    static constexpr std::array kOps{Op::list_clients, Op::list_users, Op::list_peers, Op::list_engines,
                                     Op::list_objects, Op::capture,    Op::barrier,    Op::counters,
                                     Op::list_history, Op::list_left};
    std::vector<std::byte> body(in_.below(64));
    in_.fill(body);
    program.call(kOps[in_.take<uint8_t>() % kOps.size()], body);
  }

  void step(uint32_t op, uint32_t who) {
    Program& program = *programs_[who];
    switch (op) {
      case 0:
      case 1:
      case 2:
      case 3: make(program); break;
      case 4: start(who); break;
      case 5: say_anything(program); break;
      case 6: capture(who); break;
      case 7: peers(who); break;
      case 8: follow_objects(who, kKinds[in_.take<uint8_t>() % kKinds.size()]); break;
      case 9: {
        const auto rows = list<message::ObjectRows>(
            program, Op::list_objects,
            message::ListObjects{static_cast<Kind>(in_.take<uint8_t>()), in_.take<uint8_t>(), in_.take<uint16_t>()});
        if (rows) check(who, *rows);
        break;
      }
      case 10: {
        const auto rows =
            list<message::ClientRows>(program, Op::list_clients, message::ListClients{in_.take<uint8_t>()});
        if (rows) check(who, *rows);
        break;
      }
      case 11: {
        const auto rows = list<message::UserRows>(program, Op::list_users, message::ListUsers{in_.take<uint32_t>()});
        if (rows) check(who, *rows);
        break;
      }
      case 12: program.ask(Op::list_engines, message::Empty{}); break;
      default: world_.poll(); break;
    }
  }

  Input in_;
  test::World world_;
  ListingView view_;
  const service::PerResource<uint64_t> all_ = test::small_capacity(512);
  service::Users users_{{.shared = all_, .whole = all_}, {}, [](uint32_t, const std::string&) {}};
  uint32_t clients_ = 0;
  std::array<std::unique_ptr<Program>, kRoles> programs_{};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  Session({data, size}).run();
  return 0;
}
