// Planned restarts that fail, with connections, and estates that make no sense.
#include <cstring>
#include <span>

#include <sys/mman.h>
#include <sys/stat.h>

#include "service/estate_rows.h"
#include "tests/unit/service/cm_succession.h"

namespace uroce::service {
namespace {

TEST_F(CmSuccessionTest, TheFirstGoesOnWhereNobodyTakesOver) {
  CmId listener = near_->listening(near_at(4010));
  CmId id = near_->id();
  must(id.resolve_addr(std::nullopt, far_at(4010), kCmPatience));
  ASSERT_TRUE(world_.run_until([&] { return near_->waiting() == 1; }));
  CmId active = far_->resolved(near_at(4010));
  must(active.connect({.qpn = 20}));
  ASSERT_TRUE(world_.run_until([&] { return near_->waiting() == 2; }));
  {
    auto ends = connection();
    message::SuccessionLink to(ends.predecessor), from(ends.successor);
    Heir heir = make_successor();
    must(running().hold());
    (void)must(running().bequeath(to));
    (void)must(heir.server->inherit(from));
    heir.server.reset();
  }
  EXPECT_EQ(near_->waiting(), 2) << "the other one took none of the program's bytes";
  running().go_on();
  near_->expect(CmEventType::addr_resolved);
  CmId passive = must(near_->manager.adopt(near_->expect(CmEventType::connect_request)));
  must(passive.accept({.qpn = 21}));
  far_->expect(CmEventType::connect_response);
  must(active.establish());
  near_->expect(CmEventType::established);
  EXPECT_EQ(far_->channel.take(), std::nullopt) << "the other one has ended nothing";
}

TEST_F(CmSuccessionTest, PeersOfAProgramThatEndsAreTold) {
  CmId listener = near_->listening(near_at(4011));
  CmId active = far_->resolved(near_at(4011));
  must(active.connect({.qpn = 20}));
  CmId passive = must(near_->manager.adopt(near_->expect(CmEventType::connect_request)));
  must(passive.accept({.qpn = 21}));
  far_->expect(CmEventType::connect_response);
  must(active.establish());
  near_->expect(CmEventType::established);
  const auto over = hand_over([] {}, {.limits = {{Resource::cm_id, 1}}, .users = {}});
  EXPECT_EQ(over.refused, 1u);
  EXPECT_NE(log().find("max_cm_id"), std::string::npos) << log();
  EXPECT_EQ(far_->expect(CmEventType::disconnected).id, active.number());
}

/// The rows of an estate and its descriptors, for tests that change them.
struct Captured {
  std::vector<std::byte> header{}, rows{};
  std::vector<message::Fd> fds{};

  /// The first row of the connection manager. Those before are long, and others' to test.
  std::size_t begin_of_cm() const {
    std::size_t at = 0;
    while (at < rows.size() && rows[at] != static_cast<std::byte>(Row::cm_manager)) {
      uint32_t length = 0;
      std::memcpy(&length, rows.data() + at + 1, sizeof length);
      at += 1 + sizeof length + length;
    }
    return at;
  }
};

Captured capture(message::SuccessionLink& from) {
  Captured out;
  auto first = must(from.receive({message::Step::estate}, 5s));
  out.header = first.body;
  struct stat file{};
  EXPECT_EQ(fstat(first.fds[0].get(), &file), 0);
  out.rows.resize(static_cast<std::size_t>(file.st_size));
  EXPECT_EQ(pread(first.fds[0].get(), out.rows.data(), out.rows.size(), 0), file.st_size);
  out.fds = std::move(must(from.receive({message::Step::estate}, 5s)).fds);
  return out;
}

TEST_F(CmSuccessionTest, AForgedEstateEndsNobody) {
  CmId listener = near_->listening(near_at(4012), 2);
  CmId active = far_->resolved(near_at(4012)), second = far_->resolved(near_at(4012));
  must(active.connect({.qpn = 20}));
  CmId passive = must(near_->manager.adopt(near_->expect(CmEventType::connect_request)));
  must(passive.accept({.qpn = 21}));
  must(second.connect({.qpn = 23}));
  ASSERT_TRUE(world_.run_until([&] { return near_->waiting() == 1; }));
  must(running().hold());
  Captured good;
  {
    auto ends = connection();
    message::SuccessionLink to(ends.predecessor), from(ends.successor);
    (void)must(running().bequeath(to));
    good = capture(from);
  }
  Heir heir = make_successor();
  const auto inherit = [&](std::span<const std::byte> rows) {
    auto ends = connection();
    message::SuccessionLink to(ends.predecessor), from(ends.successor);
    const message::Fd file(memfd_create("forged", MFD_CLOEXEC));
    ASSERT_EQ(pwrite(file.get(), rows.data(), rows.size(), 0), static_cast<ssize_t>(rows.size()));
    std::vector<std::byte> header = good.header;
    const uint64_t bytes = rows.size();
    std::memcpy(header.data() + sizeof(uint32_t), &bytes, sizeof bytes);
    const int beside = file.get();
    must(to.send(message::Step::estate, header, {&beside, 1}));
    std::vector<int> numbers;
    for (const auto& fd : good.fds) numbers.push_back(fd.get());
    must(to.send(message::Step::estate, {}, numbers));
    (void)heir.server->inherit(from);
  };
  ASSERT_LT(good.begin_of_cm(), good.rows.size());
  for (std::size_t at = good.begin_of_cm(); at < good.rows.size(); at += 9) {
    good.rows[at] ^= std::byte{0x41};
    inherit(good.rows);
    good.rows[at] ^= std::byte{0x41};
    inherit(std::span(good.rows).first(at));
    if (at % 10 != 0) continue;
    heir.server.reset();
    heir = make_successor();
  }
  heir.server.reset();
  heir.manager.reset();
  EXPECT_EQ(near_->waiting(), 1);
  running().go_on();
  far_->expect(CmEventType::connect_response);
  must(active.establish());
  near_->expect(CmEventType::connect_request);
  near_->expect(CmEventType::established);
}

}  // namespace
}  // namespace uroce::service
