// A planned restart between daemons of different versions.
#include <cerrno>

#include <gtest/gtest.h>

#include "message/protocol.h"
#include "service/estate_rows.h"
#include "succession_fixture.h"
#include "transport/qp/snapshot.h"

namespace uroce::service {
namespace {

using message::SuccessorVersions;

TEST(EstateVersions, TheNewestOfBothIsUsed) {
  const SuccessorVersions own = own_versions();
  EXPECT_EQ(must(common_versions(own, own)).estate, kEstateVersion);
  for (const auto of : {&SuccessorVersions::estate, &SuccessorVersions::snapshot}) {
    SuccessorVersions older = own, newer = own;
    older.*of = {.oldest = (own.*of).oldest, .newest = (own.*of).newest - 1};
    newer.*of = {.oldest = (own.*of).oldest, .newest = (own.*of).newest + 3};
    const auto down = must(common_versions(own, older)), up = must(common_versions(own, newer));
    const bool estate = of == &SuccessorVersions::estate;
    EXPECT_EQ(estate ? down.estate : down.snapshot, (own.*of).newest - 1);
    EXPECT_EQ(estate ? up.estate : up.snapshot, (own.*of).newest);
  }
}

TEST(EstateVersions, WithoutACommonOneNothingIsHandedOver) {
  for (const auto of : {&SuccessorVersions::estate, &SuccessorVersions::snapshot, &SuccessorVersions::protocol,
                        &SuccessorVersions::queue_abi}) {
    const uint32_t newest = (own_versions().*of).newest, oldest = (own_versions().*of).oldest;
    SuccessorVersions others = own_versions();
    others.*of = {.oldest = newest + 1, .newest = newest + 4};
    const auto later = common_versions(own_versions(), others);
    ASSERT_FALSE(later);
    EXPECT_EQ(later.error().code, EPROTONOSUPPORT);
    EXPECT_NE(later.error().text.find("they have none in common; go by a release between them"), std::string::npos);
    others.*of = {.oldest = 0, .newest = oldest - 1};
    EXPECT_FALSE(common_versions(own_versions(), others));
    others.*of = {.oldest = newest, .newest = newest - 1};
    EXPECT_FALSE(common_versions(own_versions(), others)) << "no range at all";
  }
}

// A release that did not say what it reads.
TEST(EstateVersions, ASuccessorThatTellsNoneReadsTheFirst) {
  const auto versions = must(common_versions(own_versions(), SuccessorVersions{}));
  EXPECT_EQ(versions.estate, 1u);
  EXPECT_EQ(versions.snapshot, 8u);
}

TEST_F(SuccessionTest, OlderSuccessorsAndOlderDaemons) {
  auto mine = client_->make_qp();
  auto theirs = peer_->make_qp();
  connect(*client_, mine, *peer_, theirs);
  for (uint32_t version = kOldestEstateVersion; version <= kEstateVersion; ++version) {
    for (uint32_t snapshot = transport::kOldestSnapshotVersion; snapshot <= transport::kSnapshotVersion; ++snapshot) {
      const auto over = hand_over([] {}, {.estate = version, .snapshot = snapshot});
      EXPECT_EQ(over.queue_pairs, 1u) << log();
      expect_all_operations(mine, theirs, client_->mr);
    }
  }
}

TEST_F(SuccessionTest, AClientWhoseProtocolIsNoneOfTheSuccessorsIsLeftOut) {
  auto mine = client_->make_qp();
  EstateVersions versions;
  versions.protocol = {.oldest = message::kProtocol + 1, .newest = message::kProtocol + 2};
  const auto over = hand_over([] {}, versions);
  EXPECT_EQ(over.queue_pairs, 0u);
  EXPECT_EQ(over.refused, 1u);
  EXPECT_NE(log().find("the successor does not speak its protocol"), std::string::npos) << log();
  servers_.front().reset();  // the client's connection ends with it
}

// A daemon of an older release would end the client, whose objects it does not know.
TEST_F(SuccessionTest, NothingGoesToASuccessorThatKnowsLessThanAClientHas) {
  auto mine = client_->make_qp();
  auto theirs = peer_->make_qp();
  connect(*client_, mine, *peer_, theirs);
  {
    auto domain = must(client_->context.open_xrc_domain({}));
    expect_not_in_version_1("XRC objects");
    expect_all_operations(mine, theirs, client_->mr);
  }
  (void)must(client_->context.create_pd());  // that is done then
  EXPECT_EQ(hand_over([] {}, {.estate = 1, .snapshot = 8}).queue_pairs, 1u) << log();
  expect_all_operations(mine, theirs, client_->mr);
}

}  // namespace
}  // namespace uroce::service
