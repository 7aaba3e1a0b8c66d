#include "service/user.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

namespace uroce::service {
namespace {

const Peer kRoot{.pid = 1, .uid = 0, .privileged = true};
const Peer kAlice{.pid = 2, .uid = 1001, .command = "alice"};
const Peer kBob{.pid = 3, .uid = 1002};

class BudgetTest : public testing::Test {
 protected:
  Users make(BudgetSettings settings = {}) {
    Capacity capacity;
    for (const ResourceName& name : kResourceNames) {
      capacity.shared[name.resource] = 160;
      capacity.whole[name.resource] = 320;  // of two devices
    }
    return {capacity, std::move(settings),
            [this](uint32_t uid, const std::string& line) { log_.push_back(std::to_string(uid) + ": " + line); }};
  }
  /// The most that `peer` gets, one by one.
  std::vector<Charge> fill(Users& users, const Peer& peer, Resource resource = Resource::qp) {
    std::vector<Charge> got;
    const auto user = users.of(peer);
    for (auto one = user->charge(resource, 1, peer); one; one = user->charge(resource, 1, peer)) {
      got.push_back(std::move(*one));
    }
    return got;
  }
  static std::string refusal(Users& users, const Peer& peer, Resource resource = Resource::qp, uint64_t amount = 1) {
    const auto refused = users.of(peer)->charge(resource, amount, peer);
    return refused ? std::string("not refused") : refused.error().text;
  }

  std::vector<std::string> log_;
};

TEST_F(BudgetTest, AUserMayHaveAQuarterAndAllLeaveAnEighthToRoot) {
  Users users = make();
  const auto alice = fill(users, kAlice);
  EXPECT_EQ(alice.size(), 40u);
  EXPECT_EQ(refusal(users, kAlice),
            "user 1001 has 40 queue pairs and asks for 1 more; the limit is 40 (max_qp; engines.max_qp); release some, "
            "or raise it");
  const auto bob = fill(users, kBob);
  EXPECT_EQ(bob.size(), 40u) << "another user's use does not count";
  const auto third = fill(users, {.uid = 1003}), fourth = fill(users, {.uid = 1004});
  EXPECT_EQ(third.size(), 40u);
  EXPECT_EQ(fourth.size(), 20u);
  EXPECT_EQ(refusal(users, {.uid = 1005}),
            "user 1005 would have 1 queue pairs with 1 more; all ordinary users together have 140 of 140, and the rest "
            "is kept for root");
  EXPECT_EQ(fill(users, kRoot).size(), 320u) << "the devices are what limits root";
}

TEST_F(BudgetTest, ALimitIsWhatCanBeHad) {
  Users users = make({.limits = {}, .users = {{.name = "bob", .uid = 1002, .limits = {{Resource::qp, 150}}}}});
  for (const Peer& peer : {kAlice, kBob, kRoot}) {
    EXPECT_EQ(users.of(peer)->limit(Resource::qp, peer), fill(users, peer).size()) << peer.uid;
  }
}

TEST_F(BudgetTest, AChargeComesBackAtItsEnd) {
  Users users = make();
  const auto user = users.of(kAlice);
  for (int round = 0; round < 3; ++round) {
    auto all = fill(users, kAlice);
    EXPECT_EQ(user->used(Resource::qp), 40u);
    auto moved = std::move(all.back());
    all.clear();
    EXPECT_EQ(user->used(Resource::qp), 1u);
  }
  EXPECT_EQ(user->used(Resource::qp), 0u);
  EXPECT_EQ(fill(users, kBob).size(), 40u);
}

// The counters began at 0 with each first connection.
TEST_F(BudgetTest, AUsersCountersOutliveItsConnections) {
  Users users = make({.limits = {{Resource::qp, 1}}, .users = {}});
  const auto refusals = [&] { return users.of(kAlice)->row().refusals; };
  fill(users, kAlice);
  EXPECT_EQ(refusals(), 1u);
  fill(users, kBob);
  EXPECT_EQ(refusals(), 1u);
  const auto root = users.of({.uid = kAlice.uid, .privileged = true});
  EXPECT_EQ(root->row().refusals, 0u) << "another user";
  EXPECT_EQ(users.rows(Sight(kRoot)).size(), 1u) << "those with connections";
}

TEST_F(BudgetTest, CountersOfSoManyUsersAreKept) {
  Users users = make({.limits = {{Resource::qp, 1}}, .users = {}});
  const auto refusals = [&](const Peer& peer) { return users.of(peer)->row().refusals; };
  const auto bob = users.of(kBob);  // stays
  fill(users, kBob);
  fill(users, kAlice);
  for (uint32_t n = 0; n < Users::kKept - 2; ++n) users.of({.uid = 5000 + n});
  EXPECT_EQ(refusals(kAlice), 1u);
  for (uint32_t n = 0; n < 2 * Users::kKept; ++n) users.of({.uid = 20000 + n});
  EXPECT_EQ(refusals(kAlice), 0u);
  EXPECT_EQ(refusals(kBob), 1u) << "it has a connection";
}

TEST_F(BudgetTest, ProgramsOfOneUserShareItsBudget) {
  Users users = make();
  const auto first = fill(users, kAlice);
  const Peer other{.pid = 77, .uid = kAlice.uid};
  EXPECT_EQ(fill(users, other).size(), 0u);
}

TEST_F(BudgetTest, AConfiguredLimitHoldsForEachUserAndOnesOwnBeforeThat) {
  Users users =
      make({.limits = {{Resource::qp, 5}}, .users = {{.name = "bob", .uid = 1002, .limits = {{Resource::qp, 90}}}}});
  EXPECT_EQ(fill(users, kAlice).size(), 5u);
  EXPECT_EQ(fill(users, kRoot).size(), 5u);
  EXPECT_EQ(fill(users, kBob).size(), 90u);
  EXPECT_EQ(fill(users, kAlice, Resource::cq).size(), 40u) << "without a setting";
  const auto held = fill(users, kAlice);
  users.configure({.limits = {{Resource::qp, 3}}, .users = {}});
  EXPECT_NE(refusal(users, kAlice).find("has 5 queue pairs and asks for 1 more; the limit is 3"), std::string::npos);
}

TEST_F(BudgetTest, EnginesKnowUsersByNumbersOfTheirOwn) {
  Users users = make({.limits = {}, .users = {{.name = "bob", .uid = 1002, .weight = 5}}});
  const auto alice = users.of(kAlice), bob = users.of(kBob), root = users.of(kRoot), contained = users.of({.uid = 0});
  EXPECT_EQ(alice->owner(1).weight, 1u);
  EXPECT_EQ(bob->owner(2).weight, 5u);
  EXPECT_NE(alice->owner(1).user, bob->owner(2).user);
  EXPECT_NE(root->owner(3).user, contained->owner(4).user) << "a container's root is nobody else's equal";
  EXPECT_EQ(users.of(kAlice)->owner(5).user, alice->owner(1).user);
}

TEST_F(BudgetTest, AContainersRootIsAnotherUserThanRoot) {
  Users users = make();
  const Peer contained{.pid = 9, .uid = 0};
  EXPECT_EQ(fill(users, contained).size(), 40u);
  const auto all = fill(users, kRoot);
  EXPECT_EQ(all.size(), 320u);
  const auto outside = users.of(contained);
  const auto rows = users.rows(Sight(kRoot));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].key() + 1, rows[1].key());
  EXPECT_FALSE(rows[0].privileged);
  EXPECT_TRUE(users.rows(Sight(kAlice)).empty()) << "one sees oneself alone";
}

TEST_F(BudgetTest, WhoMayLockMemoryMayRegisterIt) {
  Users users = make();
  const auto most = [&](uint64_t locked_bytes) {
    const Peer peer{.uid = 1001, .locked_bytes = locked_bytes};
    return fill(users, peer, Resource::registered_bytes).size();
  };
  EXPECT_EQ(most(0), 40u);
  EXPECT_EQ(most(8), 40u);
  EXPECT_EQ(most(100), 100u);
  EXPECT_EQ(most(UINT64_MAX), 160u) << "unlimited";
}

TEST_F(BudgetTest, AmountsThatWrapAreRefused) {
  Users users = make();
  const auto one = users.of(kAlice)->charge(Resource::queue_bytes, 1, kAlice);
  ASSERT_TRUE(one);
  EXPECT_NE(refusal(users, kAlice, Resource::queue_bytes, UINT64_MAX), "not refused");
  const auto root = users.of(kRoot)->charge(Resource::queue_bytes, 1, kRoot);
  EXPECT_NE(refusal(users, kRoot, Resource::queue_bytes, UINT64_MAX), "not refused");
}

TEST_F(BudgetTest, DescriptorsRunOutWithEmfile) {
  Users users = make();
  const auto all = fill(users, kAlice, Resource::descriptor);
  EXPECT_EQ(users.of(kAlice)->charge(Resource::descriptor, 2, kAlice).error().code, EMFILE);
  EXPECT_EQ(users.of(kAlice)->charge(Resource::qp, 1000, kAlice).error().code, ENOMEM);
}

// The attack: each uid of one person's range takes a quarter.
TEST_F(BudgetTest, TheUidsOfARangeAreOneUser) {
  const std::string path = testing::TempDir() + "uroce-user-subuid-" + std::to_string(getpid());
  std::ofstream(path) << "1001:100000:65536\n1009:165536:131072\n";
  Subordinates subordinates(path);
  Users users = make();
  const auto peer_of = [&](uint32_t uid, std::optional<uint32_t> owner = {}) {
    Peer peer{.pid = 7, .uid = uid, .namespace_owner = owner};
    peer.charged_to = users.payer_of(peer, subordinates);
    return peer;
  };
  std::vector<std::vector<Charge>> all;
  std::size_t taken = 0;
  for (uint32_t uid = 100'001; uid <= 100'004; ++uid) taken += all.emplace_back(fill(users, peer_of(uid))).size();
  EXPECT_EQ(taken, 40u);
  EXPECT_EQ(fill(users, kAlice).size(), 0u) << "the range's owner";
  EXPECT_NE(refusal(users, peer_of(100'003)).find("user 1001 has 40 queue pairs"), std::string::npos);
  EXPECT_EQ(fill(users, peer_of(300'000, kAlice.uid)).size(), 0u) << "of a user namespace that she made";
  EXPECT_EQ(fill(users, peer_of(300'000, 100'002)).size(), 0u) << "or that one of hers made";
  EXPECT_EQ(fill(users, kBob).size(), 40u);
  EXPECT_EQ(users.rows(Sight(peer_of(100'001))).size(), 1u) << "one sees the budget that one has a part of";
  all.clear();
  users.configure({.limits = {}, .users = {{.name = "100002", .uid = 100'002}}});
  all.push_back(fill(users, kAlice));
  EXPECT_EQ(fill(users, peer_of(100'001)).size(), 0u);
  EXPECT_EQ(fill(users, peer_of(100'002)).size(), 40u) << "a [[user]] of its own";
  users.configure({.tenant_ranges = true});
  all.push_back(fill(users, peer_of(100'001)));
  EXPECT_EQ(all.back().size(), 40u) << "the range";
  EXPECT_EQ(fill(users, peer_of(100'004)).size(), 0u);
  EXPECT_EQ(fill(users, peer_of(165'536 + 65'536)).size(), 40u) << "half a range";
  unlink(path.c_str());
}

TEST_F(BudgetTest, TheLogNamesTheUserAndTheProcess) {
  Users users = make();
  EXPECT_FALSE(users.of(kAlice)->charge(Resource::qp, 41, kAlice));
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_EQ(log_[0],
            "1001: process 2 (alice) is refused: user 1001 has 0 queue pairs and asks for 41 more; the limit is 40 "
            "(max_qp; engines.max_qp); release some, or raise it");
  const auto user = users.of(kAlice);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(user->charge(Resource::qp, 41, kAlice));
  EXPECT_EQ(user->row().refusals, 4u) << "with that of the user before";
}

TEST_F(BudgetTest, FilesAreForUsersWhoMay) {
  Users users = make();
  const auto alice = users.of(kAlice);
  EXPECT_FALSE(alice->may_register_files());
  EXPECT_FALSE(users.of(kRoot)->may_register_files());
  users.configure({.users = {{.name = "alice", .uid = 1001, .file_memory = true}}});
  EXPECT_TRUE(alice->may_register_files());
  EXPECT_FALSE(users.of(kBob)->may_register_files());
  users.configure({.file_memory = true});
  EXPECT_TRUE(users.of(kBob)->may_register_files());
}

TEST_F(BudgetTest, RawPacketsAreForUsersWhoMay) {
  Users users = make();
  const auto alice = users.of(kAlice);
  EXPECT_FALSE(alice->may_have_raw_packets());
  users.configure({.users = {{.name = "alice", .uid = 1001, .raw_packets = true}}});
  EXPECT_TRUE(alice->may_have_raw_packets());
  EXPECT_FALSE(users.of(kBob)->may_have_raw_packets());
}

}  // namespace
}  // namespace uroce::service
